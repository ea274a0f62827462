// Registers the source, or points an earlier registration of that name at where the source is now.

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { DemoError } from './processes.ts';
import type { Source } from './source.ts';

const firstRunTries = 600;
const firstRunPauseMs = 100;

interface ClientFile {
  readonly url: string;
  readonly token: string;
  readonly org: string;
  readonly project: string;
}

async function readClient(dataDir: string): Promise<ClientFile> {
  return JSON.parse(await readFile(join(dataDir, 'client.json'), 'utf8')) as ClientFile;
}

/** One call below the default project; gives status and JSON. */
export async function call(
  dataDir: string,
  method: string,
  path: string,
  body?: object,
): Promise<{ readonly status: number; readonly body: unknown }> {
  const { url, token, org, project } = await readClient(dataDir);
  const response = await fetch(`${url}/api/v1/orgs/${org}/projects/${project}${path}`, {
    method,
    headers: {
      authorization: `Bearer ${token}`,
      ...(body !== undefined && { 'content-type': 'application/json' }),
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  return { status: response.status, body: text === '' ? undefined : JSON.parse(text) };
}

/** Registers the source; `changed` where that starts a sync by itself. */
export async function register(dataDir: string, source: Source): Promise<{ readonly changed: boolean }> {
  const path = `/repositories/${encodeURIComponent(source.name)}`;
  const found = await call(dataDir, 'GET', path);
  if (found.status === 200) {
    const stored = Object(found.body) as { readonly [key: string]: unknown };
    if (Object.entries(source.settings).every(([key, value]) => stored[key] === value)) return { changed: false };
  }
  const answer =
    found.status === 404
      ? await call(dataDir, 'POST', '/repositories', { name: source.name, ...source.settings })
      : await call(dataDir, 'PATCH', path, source.settings);
  if (answer.status >= 300) {
    const { detail } = Object(answer.body) as { detail?: unknown };
    throw new DemoError(`${source.name} could not be registered (${answer.status}): ${String(detail)}`);
  }
  return { changed: true };
}

interface Run {
  readonly id: string;
  readonly status: string;
}

/** The run that a registration started, once it has ended; undefined where none ends in time. */
export async function firstRun(dataDir: string, source: Source): Promise<Run | undefined> {
  for (let tries = 0; tries < firstRunTries; tries++) {
    const { body } = await call(dataDir, 'GET', `/reconciles?repository=${encodeURIComponent(source.name)}&limit=1`);
    const run = (Object(body) as { items?: readonly Run[] }).items?.[0];
    if (run !== undefined && run.status !== 'running') return run;
    await sleep(firstRunPauseMs);
  }
  return undefined;
}
