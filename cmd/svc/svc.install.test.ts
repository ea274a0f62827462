// What `npm pack` gives, installed as a newcomer does: `npm install -g` of the package into an empty home, from a registry that
// holds this checkout's own dependencies, and from there to an agent that answers a webhook. The machine's own Node may
// be an old one.

import assert from 'node:assert/strict';
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { startPackageRegistry } from '../../internal/base/testkit/package-registry.ts';

const run = promisify(execFile);
const rootDir = join(import.meta.dirname, '../..');
const agent = join(rootDir, 'testdata/scripted-agent/agent.mjs');
/** Without the Node that the checkout brings. */
const searchPath = (process.env['PATH'] ?? '')
  .split(delimiter)
  .filter((one) => !one.includes('node_modules'))
  .join(delimiter);

let base: string;
let home: string;
let env: { readonly [name: string]: string };
let daemon: ChildProcess | undefined;
let tarball: string;
before(async () => {
  base = await mkdtemp(join(tmpdir(), 'svc-i-'));
  // Short: sockets of sandboxes lie below it.
  home = join(base, 'h');
  await mkdir(home);
  env = { PATH: `${join(base, 'prefix/bin')}${delimiter}${searchPath}`, HOME: home };
  const { stdout } = await run('npm', ['pack', '--json', '--pack-destination', base], {
    cwd: rootDir,
    maxBuffer: 1 << 24,
  });
  tarball = join(base, /svc-[\d.]+\.tgz/.exec(stdout)?.[0] ?? '');
});
after(async () => {
  if (daemon?.exitCode === null) {
    const ended = new Promise((resolve) => daemon?.once('exit', resolve));
    daemon.kill('SIGTERM');
    await ended;
  }
  await rm(base, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });
});

test('the package holds what runs, and nothing of what only the checkout needs', async () => {
  const { stdout } = await run('tar', ['-tzf', tarball]);
  const paths = stdout.trim().split('\n');
  for (const path of [
    'bin/svc',
    'bin/svcd',
    'README.md',
    'npm-shrinkwrap.json',
    'dist/cmd/svc/main.mjs',
    'dist/cmd/svcd/main.mjs',
    'dist/internal/adapters/compiler/serve.js',
    'dist/internal/base/thread-entry.mjs',
    'dist/internal/adapters/sandbox/svc-init.cjs',
    'dist/internal/edge/web/client/app.ts',
    'dist/migrations/0001_tenancy.sql',
  ])
    assert.ok(paths.includes(`package/${path}`), path);
  const strays = paths.filter((path) =>
    /\.test\.|testkit|testdata|\/facts\/|\/bench\/|harness-check|\/\.\w/.test(path),
  );
  assert.deepEqual(strays, []);
  assert.deepEqual(
    paths.filter((path) => /\.ts$/.test(path) && !path.includes('/web/client/')),
    [],
  );
  assert.ok((await stat(tarball)).size < 3_000_000);
  await run('tar', ['-xzf', tarball, '-C', base]);
  const text = await readFile(join(base, 'package/npm-shrinkwrap.json'), 'utf8');
  const { packages } = JSON.parse(text) as { packages: Record<string, { dev?: boolean; integrity?: string }> };
  for (const [path, one] of Object.entries(packages)) {
    if (path === '') continue;
    assert.ok(one.dev !== true && one.integrity !== undefined, path);
  }
});

/** The package as it is, but for the digests of what the registry of this test packs anew. */
async function installGlobally(): Promise<void> {
  const registry = await startPackageRegistry(rootDir);
  try {
    const lock = join(base, 'package/npm-shrinkwrap.json');
    const text = (await readFile(lock, 'utf8')).replaceAll(/^ *"integrity": ".*",?\n/gm, '');
    await writeFile(lock, JSON.stringify(JSON.parse(text.replaceAll(/,(\s*})/g, '$1'))));
    const given = join(base, 'svc.tgz');
    await run('tar', ['-czf', given, '-C', base, 'package']);
    const args = ['install', '-g', '--prefix', join(base, 'prefix'), '--registry', `${registry.url}/`, given];
    await run('npm', args, { env, cwd: base, maxBuffer: 1 << 24 });
  } finally {
    await registry.stop();
  }
}

async function svc(...args: readonly string[]): Promise<string> {
  const { stdout } = await run('svc', [...args], { env, cwd: home });
  return stdout;
}

interface Spanned {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  readonly links?: readonly { readonly traceId: string; readonly spanId: string }[];
}

/** In place of a collector of traces: keeps the spans that it is sent. */
async function startCollector(): Promise<{ readonly url: string; readonly spans: Spanned[]; stop(): void }> {
  const spans: Spanned[] = [];
  const server = createServer((request, response) => {
    let body = '';
    request.setEncoding('utf8').on('data', (text: string) => (body += text));
    request.on('end', () => {
      assert.equal(request.url, '/v1/traces');
      assert.doesNotMatch(body, /disk full/);
      const { resourceSpans } = JSON.parse(body) as { resourceSpans: { scopeSpans: { spans: Spanned[] }[] }[] };
      spans.push(...resourceSpans.flatMap((one) => one.scopeSpans.flatMap((scope) => scope.spans)));
      response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { url, spans, stop: () => server.close() };
}

/** Starts `svcd` as it was installed, with the scripted agent in place of a harness. */
async function startDaemon(collector: string): Promise<void> {
  const child = spawn('svcd', ['--listen', '127.0.0.1:0', '--sandbox', 'process'], {
    env: {
      ...env,
      SVC_HARNESS_A_COMMAND: JSON.stringify([process.execPath, agent]),
      OTEL_EXPORTER_OTLP_ENDPOINT: collector,
    },
    cwd: home,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  daemon = child;
  let log = '';
  child.stderr.on('data', (chunk: Buffer) => (log += chunk.toString()));
  await new Promise<void>((resolve, reject) => {
    let said = '';
    child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
      said += chunk;
      if (said.includes('"event":"ready"')) resolve();
    });
    child.once('error', reject);
    child.once('exit', (code) => reject(new Error(`svcd ended with ${code}: ${log}`)));
  });
}

const agentFile = `name: triage
harness: harness-a
environment: { name: default, image: { kind: preset, name: base } }
triggers:
  - event: webhook.received
    endpoint: reports
    auth: { kind: none }
    message: 'A report arrived: {{title}}'
    routing: { kind: spawn }
  - event: webhook.more
    endpoint: reports
    auth: { kind: none }
    message: 'And more: {{title}}'
    routing: { kind: deliver, routeBy: { kind: allLiveSessions }, onUnmatched: error }
`;

test('from npm install -g to an agent that answers a webhook, in an empty home', async (t) => {
  await installGlobally();
  assert.match(await svc('--version'), /^svc \d+\.\d+\.\d+ \(node 2[4-9]\.\d+\.\d+\)\n$/);
  await svc('init', 'first', '--name', 'helper');
  assert.match(await svc('validate', 'first'), /^ok: /);
  await mkdir(join(home, 'fleet/.svc/agents'), { recursive: true });
  await writeFile(join(home, 'fleet/.svc/agents/triage.yaml'), agentFile);
  const collector = await startCollector();
  t.after(() => collector.stop());
  await startDaemon(collector.url);
  assert.match(await svc('repo', 'add', 'fleet', '--path', join(home, 'fleet'), '--wait'), /triage/);
  const { ingestUrl } = JSON.parse(await svc('endpoint', 'show', 'reports', '--json')) as { ingestUrl: string };
  const sent = await fetch(ingestUrl, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ title: 'disk full' }),
  });
  const text = await sent.text();
  assert.equal(sent.status, 202, text);
  let transcript = '';
  for (let tries = 0; tries < 600 && !/(?:disk full[\s\S]*){2}|is failed/.test(transcript); tries += 1) {
    await sleep(500);
    const { items } = JSON.parse(await svc('session', 'list', '--json')) as { items: readonly { id: string }[] };
    if (items[0] !== undefined) transcript = await svc('session', 'logs', items[0].id);
  }
  // Once as it was told, once as it was repeated.
  assert.ok(transcript.split('A report arrived: disk full').length >= 3, transcript);
  // One trace, named after the event, from its delivery to the first answer.
  const { eventRecordId } = JSON.parse(text) as { eventRecordId: string };
  const traced = (): Spanned[] => collector.spans.filter((one) => one.traceId === eventRecordId.replaceAll('-', ''));
  for (let tries = 0; tries < 600 && traced().length < 4; tries += 1) await sleep(100);
  assert.deepEqual(
    traced()
      .map((one) => one.name)
      .sort(),
    ['answer', 'delivery', 'launch', 'routing'],
  );
  const root = traced().find((one) => one.name === 'delivery');
  for (const one of traced()) assert.equal(one.parentSpanId || undefined, one === root ? undefined : root?.spanId);
  // What the living session is told of later has a trace of its own, which links to that of the session.
  const later = await fetch(ingestUrl, {
    method: 'POST',
    body: JSON.stringify({ event: 'more', title: 'it is full' }),
  });
  const { eventRecordId: second } = (await later.json()) as { eventRecordId: string };
  const answer = (): Spanned | undefined =>
    collector.spans.find((one) => one.traceId === second.replaceAll('-', '') && one.name === 'answer');
  for (let tries = 0; tries < 600 && answer() === undefined; tries += 1) await sleep(100);
  assert.deepEqual(
    answer()?.links?.map(({ traceId, spanId }) => [traceId, spanId]),
    [[root?.traceId, root?.spanId]],
  );
  assert.match(await (await fetch(new URL('/docs', ingestUrl))).text(), /To the first pull request/);
  const page = await fetch(new URL('/signin', ingestUrl));
  const module = /"(\/assets\/[0-9a-f]+\/[\w/]+\.ts)"/.exec(await page.text())?.[1];
  assert.ok(module !== undefined);
  assert.equal((await fetch(new URL(module, ingestUrl))).status, 200);
});
