// A person's program in a session's sandbox, through the command line: its streams, its end, who may, and what is kept of it.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { after, before, describe, it, test } from 'node:test';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Exit, Sandbox } from '../../adapters/sandbox/types.ts';
import { startTestDaemon } from '../../base/testkit/daemon.ts';
import { execIn } from './exec.ts';
import { createHostBench, type HostBench } from './host-testkit.ts';
import { Mask } from './mask.ts';
import { reapEnded } from './sandboxes.ts';

const main = join(import.meta.dirname, '../../../cmd/svc/main.mjs');
const value = 'sésame-of-the-program';
/** As a key's file: of several lines, with an end of line behind the last. */
const lines = 'über "alle" Berge gehen\nwürzig und sehr geheim\nStraße\n';

describe('svc session exec', () => {
  let bench: HostBench;
  let session: string;
  before(async () => {
    // An engine that is away, for a preset beside the default: the daemon starts without it.
    const sandboxes = {
      docker: { socket: '/nowhere/engine.sock' },
      presets: { away: { provider: 'docker', image: 'x' } },
    };
    bench = await createHostBench({ config: { file: { sandboxes: { ...sandboxes, snapshots: { maxMB: 0 } } } } });
    await bench.daemon.api('PUT', 'P/secrets/key', { value: value });
    await bench.daemon.api('PUT', 'P/secrets/lines', { value: lines });
    const away = { environment: { name: 'away', image: { kind: 'preset', name: 'away' } } };
    await bench.apply({ a: { env: { KEY: { $secret: 'key' }, LINES: { $secret: 'lines' }, PLAIN: 'seen' } }, away });
    session = await bench.start('a', '!say ready');
    await bench.until(session, ({ state }) => state === 'idle');
  });
  after(() => bench.stop());

  /** `input`: undefined leaves standard input open. */
  const svc = async (args: readonly string[], input?: string, url = bench.daemon.url) => {
    const { token, dataDir } = bench.daemon;
    const env = {
      PATH: process.env['PATH'],
      HOME: dataDir,
      SVC_URL: url,
      SVC_TOKEN: token,
      SVC_ORG: 'default',
      SVC_PROJECT: 'default',
    };
    const child = spawn(process.execPath, [main, 'session', 'exec', ...args], { env });
    if (input !== undefined) child.stdin.end(input);
    const ended = new Promise<number | null>((resolve) => child.once('exit', (code) => resolve(code)));
    const [out, err] = await Promise.all([text(child.stdout), text(child.stderr)]);
    return { code: await ended, out, err };
  };

  it('passes streams and the exit code on, with the session’s environment', async () => {
    const script = 'cat; echo "$PLAIN $KEY" >&2; exit 7';
    const lines = 'hello\n'.repeat(30_000);
    const done = await svc([session, '--', 'sh', '-c', script], lines);
    assert.deepEqual([done.code, done.out.length, done.err], [7, lines.length, 'seen ***\n']);
  });

  it('ends as the program does, whatever waits at its input', async () => {
    assert.equal((await svc([session, '--', 'true'])).code, 0);
    for (const [signal, code] of [
      ['KILL', 137],
      ['PIPE', 141],
      ['USR1', 138],
    ] as const)
      assert.equal((await svc([session, '--', 'sh', '-c', `kill -${signal} $$`])).code, code);
    const both = await svc([session, '--json', '--', 'sh'], 'echo out; echo err >&2; exit 3\n');
    assert.deepEqual(JSON.parse(both.out), { exitCode: 3, stdout: 'out\n', stderr: 'err\n' });
  });

  it('gives a character whole as JSON whose bytes come apart', async () => {
    const script = `printf '\\342'; sleep 0.3; printf '\\202\\254'; printf 'cut \\342' >&2`;
    const done = await svc([session, '--json', '--', 'sh', '-c', script], '');
    assert.deepEqual(JSON.parse(done.out), { exitCode: 0, stdout: '€', stderr: 'cut \ufffd' });
  });

  it('masks a line of a value, and a value in JSON, also with other letters than English ones', async () => {
    const json = 'console.log(JSON.stringify(process.env.LINES).slice(1, -1))';
    const script = [
      'printf %s "$LINES" | head -n 2 | tail -n 1',
      // Without the end of line behind it.
      'value=$(printf %s "$LINES"); echo "$value"',
      `'${process.execPath}' -e '${json}'`,
    ].join('\n');
    const { code, out } = await svc([session, '--', 'sh', '-c', script], '');
    assert.equal(code, 0);
    assert.ok(out.includes('***') && !/über|würzig|Straße/.test(out), out);
  });

  it('is 255 where the session cannot be reached, and misuse without a program', async () => {
    const unknown = '00000000-0000-4000-8000-000000000000';
    assert.equal((await svc([unknown, '--', 'true'], '')).code, 255);
    assert.equal((await svc([session], '')).code, 2);
    const other = await bench.start('a', '!say ready');
    await bench.until(other, ({ state }) => state === 'idle');
    await bench.daemon.api('POST', `P/sessions/${other}/archive`);
    const ended = await svc([other, '--', 'true'], '');
    assert.equal(ended.code, 255);
    assert.match(ended.err, /archived/);
  });

  it('refuses an argument that no program can be given', async () => {
    for (const argument of ['a\0b', 'a\ud800b']) {
      const { status, body } = await bench.daemon.api('POST', `P/sessions/${session}/exec`, {
        argv: ['echo', argument],
      });
      assert.deepEqual([status, body['code']], [400, 'invalid-body'], JSON.stringify(argument));
      assert.match(String(body['detail']), /argv\.1: /);
    }
  });

  it('reaches a session that runs on another daemon, and lists and reaps sandboxes there', async () => {
    const { database, ctx, token } = bench.daemon;
    const { masterKeyFile } = ctx.config;
    const other = await startTestDaemon({ database, token, config: { masterKeyFile, roles: ['api'] } });
    try {
      const lines = 'hello\n'.repeat(5_000);
      const done = await svc([session, '--', 'sh', '-c', 'cat; echo "$PLAIN $KEY" >&2; exit 7'], lines, other.url);
      assert.deepEqual([done.code, done.out.length, done.err], [7, lines.length, 'seen ***\n']);
      const none = await svc(['00000000-0000-4000-8000-000000000000', '--', 'true'], '', other.url);
      assert.equal(none.code, 255);
      const { body } = await other.api('GET', 'P/audit?action=session.exec&limit=1');
      const [entry] = body['items'] as unknown as { detail: { argv: string[] } }[];
      assert.deepEqual(entry?.detail.argv.slice(0, 2), ['sh', '-c']);
      const engine = await other.api('GET', '/api/v1/sandbox');
      assert.equal(engine.body['daemon'], ctx.daemonId);
      const [provider] = engine.body['providers'] as unknown as { provider: string; missing: object }[];
      assert.equal(provider?.provider, 'process');
      assert.ok(provider !== undefined && 'isolation' in provider.missing && 'resources' in provider.missing);
      const left = randomUUID();
      await mkdir(join(bench.daemon.dataDir, 'sandboxes', left));
      const list = async () => (await other.api('GET', '/api/v1/sandboxes')).body;
      const items = (await list())['items'] as unknown as { session: string; state: string; agent: string | null }[];
      assert.deepEqual(
        items.find((one) => one.session === session && one.state === 'running')?.agent,
        'a',
        JSON.stringify(items),
      );
      assert.ok(items.some((one) => one.session === left && one.state === 'left'));
      const reaped = await other.api('POST', '/api/v1/sandboxes/reap', {});
      assert.deepEqual(reaped.body, { reaped: [left], unreachable: [] });
      const metrics = await (await fetch(`${bench.daemon.url}/metrics`)).text();
      assert.match(metrics, /^svc_sandbox_live\{provider="process"\} [1-9]/m);
      assert.match(metrics, /^svc_sandbox_reaped_total 1$/m);
      assert.match(metrics, /^svc_sandbox_start_seconds_count\{provider="process",path="cold",stage="starting"\} /m);
    } finally {
      await other.stop();
    }
  });

  it('ends with the right of whoever runs it, and so does what it runs', async () => {
    const { url, api } = bench.daemon;
    const lent = await api('POST', '/api/v1/tokens', { name: 'lent' });
    const pidFile = join(bench.daemon.dataDir, 'lent.pid');
    const response = await fetch(`${url}/api/v1/orgs/default/projects/default/sessions/${session}/exec`, {
      method: 'POST',
      headers: { authorization: `Bearer ${String(lent.body['token'])}`, 'content-type': 'application/json' },
      body: JSON.stringify({ argv: ['sh', '-c', `echo $$ > ${pidFile}; echo on; exec sleep 600`] }),
      signal: AbortSignal.timeout(20_000),
    });
    assert.equal(response.status, 200);
    const reader = response.body?.getReader();
    assert.equal((await reader?.read())?.done, false);
    const pid = Number(await readFile(pidFile, 'utf8'));
    assert.equal((await api('DELETE', `/api/v1/tokens/${String(lent.body['id'])}`)).status, 204);
    await assert.rejects(async () => reader?.read(), { name: 'TypeError', message: 'terminated' });
    for (let waited = 0; existsSync(`/proc/${pid}`); waited += 50) {
      assert.ok(waited < 20_000, `process ${pid} goes on`);
      await sleep(50);
    }
  });

  it('has nothing to reach while its session waits for an engine that does not answer', async () => {
    const waiting = await bench.start('away', '!say never');
    const { body } = await bench.until(waiting, (view) => view.body['engineReason'] !== undefined);
    assert.deepEqual([body['state'], body['reason'], body['engineReason']], ['queued', 'engine', 'engine-unreachable']);
    assert.match(String(body['reasonText']), /nowhere\/engine\.sock/);
    const [own, engine] = (await bench.daemon.api('GET', '/api/v1/sandbox')).body['providers'] as unknown as {
      provider: string;
      works: boolean;
      why: string;
      missing: { snapshot?: string };
    }[];
    assert.deepEqual([engine?.provider, engine?.works], ['docker', false]);
    assert.match(String(engine?.why), /^engine-unreachable: /);
    assert.match(String(own?.missing.snapshot), /sandboxes\.snapshots\.maxMB/);
    await bench.daemon.api('POST', `P/sessions/${waiting}/archive`, {});
  });

  it('leaves no files of a session that has ended, and those that are nobody’s for later', async () => {
    const { ctx, api, dataDir } = bench.daemon;
    const ended = await bench.start('away', '!say never');
    await api('POST', `P/sessions/${ended}/archive`, {});
    const seen = new Set<string>();
    // The daemon looks for such ones by itself, and may be quicker.
    while (!seen.has(ended)) {
      for (const id of [ended, randomUUID()]) await mkdir(join(dataDir, 'sandboxes', id), { recursive: true });
      for (const id of await reapEnded(ctx, new Set([ended]))) assert.notEqual(id, ended, 'its host is at it');
      for (const id of await reapEnded(ctx, new Set())) seen.add(id);
    }
    assert.deepEqual([...seen], [ended]);
    await api('POST', '/api/v1/sandboxes/reap', {});
  });

  it('is audited with what is run, before it is', async () => {
    const { body } = await bench.daemon.api('GET', 'P/audit?action=session.exec&limit=200');
    const entries = body['items'] as unknown as { subject: { name: string }; detail: { argv: string[] } }[];
    assert.ok(entries.some(({ detail }) => detail.argv.join(' ') === 'sh -c kill -KILL $$'));
    assert.ok(entries.every(({ subject }) => subject.name !== ''));
  });
});

test('lets go of what a program has said when its reader leaves, which a box would keep to its own end', async () => {
  const [stdin, stdout, stderr] = [new PassThrough(), new PassThrough(), new PassThrough()];
  const exited = Promise.withResolvers<Exit>();
  const kill = (): Promise<Exit> => {
    exited.resolve({ code: null, signal: 'SIGKILL' });
    return exited.promise;
  };
  const child = { pid: 1, stdin, stdout, stderr, exited: exited.promise, kill };
  const sandbox = { spawn: async () => child } as unknown as Sandbox;
  const request = { argv: ['yes'], stdin: new PassThrough().end(), signal: new AbortController().signal };
  const said = execIn({ sandbox, env: {}, cwd: '/', mask: new Mask() }, request);
  stdout.write('y\n');
  assert.equal((await said.next()).done, false);
  await said.return(undefined);
  assert.deepEqual([stdout.destroyed, stderr.destroyed], [true, true]);
});
