// What the pages take as given, for the test that runs them (svc.docs.test.ts): a code host with a repository, in which somebody
// opens a pull request where the page asks the reader to; a daemon that `svcd` starts and that goes on behind the shell; and the paths and
// addresses of the reader's own, each put in place of what the page writes.

import { execFile } from 'node:child_process';
import { createHmac, randomBytes, randomUUID } from 'node:crypto';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { CodehostSimulator } from '../../internal/base/testkit/codehost-simulator.ts';
import type { SimRepository } from '../../internal/base/testkit/codehost-state.ts';
import type { Api, JsonBody, TestDaemon } from '../../internal/base/testkit/daemon.ts';
import { branchOff, openPull } from '../../internal/flows/plans/plans-testkit.ts';

const run = promisify(execFile);
const rootDir = join(import.meta.dirname, '../..');

/** What a page is run with: `edits` are made in its shell, in order, and the variables are set. */
export interface World {
  readonly edits: readonly (readonly [from: string | RegExp, to: string])[];
  readonly env: { readonly [name: string]: string };
}

export async function startCodehost(): Promise<CodehostSimulator> {
  const host = await new CodehostSimulator().start();
  // As the guide's lines name it.
  host.installationId = '67890';
  return host;
}

/** Programs for the search path: `svc`, and an `svcd` that comes back once it is ready, and is ended by `endDaemons`. */
export async function writePrograms(bin: string): Promise<void> {
  await mkdir(bin);
  const node = `'${process.execPath}'`;
  const mode = { mode: 0o755 };
  await writeFile(join(bin, 'svc'), `#!/bin/sh\nexec ${node} '${join(rootDir, 'cmd/svc/main.mjs')}' "$@"\n`, mode);
  const svcd = `#!/bin/sh
case " $* " in *' --data-dir '*) ;; *) export SVC_DATA_DIR="$(mktemp -d '${bin}/data.XXXXXX')" ;; esac
# A port of the machine's own is never a test's.
export SVC_LISTEN="\${SVC_LISTEN:-127.0.0.1:0}"
out=$(mktemp '${bin}/out.XXXXXX')
${node} '${join(rootDir, 'cmd/svcd/main.mjs')}' "$@" >"$out" 2>"$out.log" </dev/null &
echo $! >>'${bin}/pids'
while ! grep -q '"event":"ready"' "$out"; do
  kill -0 $! 2>/dev/null || { cat "$out.log" >&2; exit 1; }
  sleep 0.1
done
`;
  await writeFile(join(bin, 'svcd'), svcd, mode);
}

/** Ends what `svcd` started, and waits until it is gone. */
export async function endDaemons(bin: string): Promise<void> {
  const pids = await readFile(join(bin, 'pids'), 'utf8').catch(() => '');
  const lives = (pid: number, signal: NodeJS.Signals | 0): boolean => {
    try {
      return process.kill(pid, signal);
    } catch {
      return false;
    }
  };
  const living = pids
    .trim()
    .split('\n')
    .map(Number)
    .filter((pid) => pid > 0 && lives(pid, 'SIGTERM'));
  while (living.some((pid) => lives(pid, 0))) await sleep(50);
}

/** A repository at the code host as `root`, and a door at which the shell asks for a pull request. */
export async function atCodehost(
  host: CodehostSimulator,
  daemon: TestDaemon,
  { root, project, guide }: { readonly root: string; readonly project: string; readonly guide: readonly string[] },
): Promise<World & { stop(): void }> {
  const repository = await host.repository('acme/shop');
  const env = {
    GIT_AUTHOR_NAME: 'You',
    GIT_AUTHOR_EMAIL: 'you@example.com',
    GIT_COMMITTER_NAME: 'You',
    GIT_COMMITTER_EMAIL: 'you@example.com',
  };
  await run('git', ['clone', '-q', repository.git.dir, root]);
  const door = createServer((_request, response) => {
    const api: Api = (method, path, body, options) =>
      daemon.api(method, path.replace(/^P(?=\/)/, `/api/v1/orgs/default/projects/${project}`), body, options);
    pullOpened(host, repository, api, root).then(
      (variables) => response.end(variables),
      (error: unknown) => response.writeHead(500).end(String(error)),
    );
  });
  await new Promise<void>((resolve) => door.listen(0, '127.0.0.1', resolve));
  const address = `http://127.0.0.1:${(door.address() as AddressInfo).port}/pull`;
  return {
    env,
    edits: [
      ['https://github.com/acme/shop.git', `${host.origin}/acme/shop.git`],
      // The page sends its reader to the guide for this.
      ['svc connection check code', `${guide.join('\n')}\nsvc connection check code`],
      [/^(?=svc event list --key)/gm, `eval "$(curl -sS --fail-with-body ${address})"\n`],
      ['svc event explain ID', 'svc event explain "$EVENT"'],
      ['svc session logs ID', 'svc session logs "$SESSION"'],
    ],
    stop: () => door.close(),
  };
}

/** Opens a pull request as a person does, and waits until it was reviewed. The scripted agent does what the title says. */
async function pullOpened(host: CodehostSimulator, repository: SimRepository, api: Api, root: string): Promise<string> {
  const branch = 'cheaper';
  await branchOff(repository, branch);
  const { number, body } = await openPull(host, repository, { branch, files: { 'prices.txt': '95\n' } });
  const on = { owner: 'acme', repo: 'shop', pullNumber: number };
  const review = { ...on, method: 'create', event: 'COMMENT', body: 'Prices are integers in cents.' };
  Object.assign(body.pull_request, { title: `!call codehost pull_request_review_write ${JSON.stringify(review)}` });
  const secret = (await readFile(join(root, 'webhook-secret'), 'utf8')).trim();
  const text = JSON.stringify({ ...body, installation: { id: Number(host.installationId) } });
  const headers = {
    'content-type': 'application/json',
    'x-github-event': 'pull_request',
    'x-github-delivery': randomUUID(),
    'x-hub-signature-256': `sha256=${createHmac('sha256', secret).update(text).digest('hex')}`,
  };
  const { body: connection } = await api('GET', 'P/connections/code');
  const intake = new URL(String(connection['intakeUrl'])).pathname;
  const taken = await api('POST', intake, text, { token: null, headers });
  if (taken.status !== 202) throw new Error(`${taken.status} ${JSON.stringify(taken.body)}`);
  const event = String(taken.body['eventRecordId']);
  let routes: JsonBody | undefined;
  let sessions: JsonBody | undefined;
  for (let tries = 0; tries < 600; tries += 1) {
    routes = (await api('GET', `P/events/${event}`)).body;
    sessions = (await api('GET', 'P/sessions')).body;
    const session = routes['routes']?.[0]?.['sessionId'];
    if (repository.reviews.length > 0 && session !== undefined) return `EVENT=${event} SESSION=${String(session)}`;
    await sleep(100);
  }
  throw new Error(`no review: ${JSON.stringify(routes)} ${JSON.stringify(sessions)}`);
}

/** Pages for operators: what they save and restore lies below `root`, and an address of a database leads to an empty one. */
export async function operated(
  name: string,
  { root, daemon, databaseUrl }: { readonly root: string; readonly daemon: TestDaemon; readonly databaseUrl: string },
): Promise<World> {
  const key = join(daemon.dataDir, 'master.key');
  if (name === 'docs/guides/secrets.md') return { edits: [], env: { SVC_MASTER_KEY_FILE: key } };
  const otherKey = join(root, 'other.key');
  if (name === 'docs/guides/several-daemons.md')
    await writeFile(otherKey, `1:${randomBytes(32).toString('base64')}\n`, { mode: 0o600 });
  // The settings of the daemon that is saved: those of a restore are others.
  const settings = `SVC_DATABASE_URL='${daemon.database.url}' SVC_MASTER_KEY_FILE='${key}'`;
  const restoresOnly = name === 'docs/guides/disaster.md';
  const revoked = restoresOnly ? await daemon.api('POST', '/api/v1/tokens', { name: 'leaked' }) : undefined;
  return {
    env: {},
    edits: [
      ...(restoresOnly ? [[/^(?=svc restore )/gm, 'svc backup /var/backups/svc/monday\n'] as const] : []),
      [/^svc (?=backup |upgrade check)/gm, `${settings} svc `],
      ['token revoke ID', `token revoke ${String(revoked?.body['id'])}`],
      [/(?<=[ =])(?=\/(?:var|srv|new|tmp)\/)/g, root],
      ['postgres://svc@db.example.com/svc', databaseUrl],
      ['/etc/svc/master.key', otherKey],
      [/(?<=--listen )[\d.]+:\d+/g, '127.0.0.1:0'],
    ],
  };
}
