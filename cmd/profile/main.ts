// `make profile`: runs svcd under load on a data directory of its own and leaves a CPU profile and a heap snapshot in
// profile/, to be opened with a browser's developer tools. The load: one tree of agents applied, then webhooks that no
// agent wants, so that recording and routing are what is seen.

import { spawn } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';

const agents = 200;
const posts = 4_000;
const atOnce = 16;
const out = join(process.cwd(), 'profile');

const agent = (index: number): string =>
  [
    `name: profiled-${index}`,
    'harness: harness-a',
    'environment: { name: base, image: { kind: preset, name: base } }',
    'triggers:',
    '  - event: webhook.received',
    `    endpoint: load${index === 0 ? '\n    auth: { kind: none }' : ''}`,
    `    where: { number: ${index + posts} }`,
    '    message: "{{ number }}"',
    '    routing: { kind: spawn }',
    '',
  ].join('\n');

async function main(): Promise<void> {
  await mkdir(out, { recursive: true });
  const dataDir = await mkdtemp(join(tmpdir(), 'svc-profile-'));
  const svcd = spawn(
    process.execPath,
    ['--cpu-prof', `--cpu-prof-dir=${out}`, '--heapsnapshot-signal=SIGUSR2', `--diagnostic-dir=${out}`]
      .concat(join(import.meta.dirname, '../svcd/main.mjs'))
      .concat('--data-dir', dataDir, '--listen', '127.0.0.1:0', '--log-level', 'warn'),
    { stdio: ['ignore', 'pipe', 'inherit'] },
  );
  const exited = new Promise<void>((resolve) => void svcd.once('exit', () => resolve()));
  try {
    await new Promise<void>((resolve, reject) => {
      createInterface({ input: svcd.stdout }).once('line', () => resolve());
      void exited.then(() => reject(new Error('svcd did not start')));
    });
    await load(dataDir);
    svcd.kill('SIGUSR2');
    // Writing a snapshot stops the process for its time; its end is when it answers again.
    await sleep(1_000);
  } finally {
    svcd.kill('SIGTERM');
    await exited;
    await rm(dataDir, { recursive: true, force: true });
  }
  process.stdout.write(`CPU profile and heap snapshot are in ${out}\n`);
}

async function load(dataDir: string): Promise<void> {
  const client = JSON.parse(await readFile(join(dataDir, 'client.json'), 'utf8')) as {
    readonly [key in 'url' | 'token' | 'org' | 'project']: string;
  };
  const files = Array.from({ length: agents }, (_, index) => ({
    path: `.svc/agents/profiled-${index}.yaml`,
    content: agent(index),
  }));
  const applied = await post(
    `${client.url}/api/v1/orgs/${client.org}/projects/${client.project}/apply`,
    { files },
    client.token,
  );
  const { webhooks } = (await applied.json()) as { readonly webhooks: readonly { readonly ingestUrl: string }[] };
  const url = webhooks[0]?.ingestUrl;
  if (url === undefined) throw new Error('the apply gave no address to post to');
  let next = 0;
  const sender = async (): Promise<void> => {
    while (next < posts) await (await post(url, { number: next++, text: 'x'.repeat(1_000) })).arrayBuffer();
  };
  await Promise.all(Array.from({ length: atOnce }, sender));
}

async function post(url: string, body: unknown, token?: string): Promise<Response> {
  const answer = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...(token !== undefined && { authorization: `Bearer ${token}` }) },
    body: JSON.stringify(body),
  });
  if (!answer.ok) throw new Error(`${answer.status} ${await answer.text()}`);
  return answer;
}

await main();
