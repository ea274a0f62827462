import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { harnessPackage } from '../../adapters/harness/harness.ts';
import { scriptedAgent } from '../../adapters/harness/harness-testkit.ts';
import { post, settled } from '../routing/routing-testkit.ts';
import { eventually } from './host-crash-testkit.ts';
import { createHostBench, type HostBench } from './host-testkit.ts';

/** By which anybody is woken. */
const channels = [
  ...['svc_hosts', 'svc_sessions', 'svc_reconciles', 'svc_sync', 'svc_endpoints', 'svc_schedules'],
  ...['svc_check_deadlines', 'jobs:insert'],
];

describe('a session that runs', () => {
  let bench: HostBench;
  before(async () => {
    bench = await createHostBench();
  });
  after(() => bench.stop());

  it('hears its start, answers, and waits', async () => {
    await bench.apply({ greeter: {} });
    const session = await bench.start('greeter', '!say hello there');
    const told = await bench.until(session, (view) => view.texts.includes('hello there') && view.state === 'idle');
    assert.deepEqual(
      told.messages.map(({ role, kind }) => `${role} ${kind}`),
      ['user prompt', 'assistant text'],
    );
  });

  it('wakes others a few times a second, however much it says and is sent', async () => {
    const [lines, events] = [400, 300];
    const wake = { event: 'webhook.received', endpoint: 'wake', auth: { kind: 'none' }, routing: { kind: 'deliver' } };
    await bench.apply({ woken: { concurrency: 1, triggers: [{ ...wake, message: 'go on' }] } });
    const { daemon } = bench;
    const path = new URL(String((await daemon.api('GET', 'P/endpoints/wake')).body['ingestUrl'])).pathname;
    const session = await bench.start('woken', '!say here');
    await bench.until(session, (view) => view.state === 'idle');
    const heard = new Map<string, number>();
    const { promise: allHeard, resolve: isOver } = Promise.withResolvers<void>();
    for (const channel of channels) {
      await daemon.database.db.listen(channel, (payload) => {
        if (payload === 'over') isOver();
        else heard.set(channel, (heard.get(channel) ?? 0) + 1);
      });
    }
    const count = async (table: 'messages' | 'inbox'): Promise<number> => {
      const text = `select count(*)::int as n from svc.${table} where session_id = $1::uuid`;
      return (await daemon.database.db.query<{ n: number }>(text, [session])).rows[0]?.n ?? 0;
    };
    const begun = performance.now();
    // Lines that are rows of their own, and one that comes in very many chunks.
    await bench.send(session, `!stream 400 1\n${'!plan one\n!say two\n'.repeat(lines)}`);
    await bench.until(session, (view) => view.state === 'idle' && view.body['inbox']?.['done'] === (2 as never));
    assert.ok((await count('messages')) >= 2 * lines);
    for (let sent = 0; sent < events; sent += 20)
      await Promise.all(Array.from({ length: 20 }, () => post(daemon.url, path, {})));
    await settled(daemon.ctx.db);
    assert.equal(await count('inbox'), events + 2);
    await bench.until(session, (view) => view.state === 'idle' && view.body['inbox']?.['pending'] === (0 as never));
    // What was notified before this is heard before it.
    await daemon.database.db.query(`select pg_notify('svc_hosts', 'over')`);
    await allHeard;
    const [said, sent] = [heard.get('svc_sessions') ?? 0, heard.get('svc_hosts') ?? 0];
    assert.ok(said > 0 && said <= (await count('messages')) / 5, `${said} of ${await count('messages')}`);
    assert.ok(sent > 0 && sent <= events / 4, `${sent} of ${events}`);
    // On a slow machine, more of them have the time.
    const intervals = (performance.now() - begun) / 50;
    const often = [...heard].filter(([, times]) => times > intervals + 2);
    assert.deepEqual(often, [], `in ${intervals} intervals`);
  });

  it('has its environment, its setup and its working directory', async () => {
    await bench.apply({
      worker: {
        env: { WHO: 'agent', BOTH: 'agent' },
        workingDirectory: '/workspace/deep',
        environment: {
          name: 'made',
          image: { kind: 'preset', name: 'base' },
          env: { BOTH: 'environment', FROM: 'environment' },
          setup: [{ name: 'prepare', commands: ['echo prepared by $WHO > made.txt'] }],
        },
      },
    });
    const session = await bench.start('worker', '!env WHO\n!env BOTH\n!env FROM\n!env SVC_AGENT_NAME\n!read made.txt');
    const told = await bench.until(session, (view) => view.state === 'idle' && view.texts.length > 1);
    const said = told.texts.slice(1).join('');
    for (const wanted of [
      'WHO=agent',
      'BOTH=agent',
      'FROM=environment',
      'SVC_AGENT_NAME=worker',
      'prepared by agent',
    ]) {
      assert.ok(said.includes(wanted), `${wanted} in ${said}`);
    }
  });

  it('leaves the last of a file, whose size and time stay as they were', async () => {
    await bench.apply({ leaver: {} });
    const write = (word: string): string =>
      `!exec cd $SVC_ARTIFACTS && printf ${word} > x && touch -d @1700000000 x\n!say ${word}.`;
    const left = async (session: string, word: string): Promise<void> => {
      await bench.until(session, (view) => view.state === 'idle' && view.said.includes(`${word}.`));
      await eventually(`${word} is kept`, async () => {
        const { body } = await bench.daemon.api('GET', `P/sessions/${session}/files/x`);
        return String(body) === word;
      });
    };
    const session = await bench.start('leaver', write('one'));
    await left(session, 'one');
    await bench.send(session, write('two'));
    await left(session, 'two');
  });

  it('fails for good where its setup fails, and says why', async () => {
    await bench.apply({
      broken: {
        environment: {
          name: 'broken',
          image: { kind: 'preset', name: 'base' },
          setup: [{ name: 'prepare', commands: ['echo it is broken >&2; exit 3'] }],
        },
      },
    });
    const session = await bench.start('broken', 'hello');
    const told = await bench.until(session, (view) => view.state === 'failed');
    assert.match(told.reason ?? '', /Setup step prepare: command 1 of 1 ended with exit code 3: it is broken/);
  });
});

describe('a session with tools', () => {
  let bench: HostBench;
  before(async () => {
    bench = await createHostBench();
  });
  after(() => bench.stop());

  it('reaches them, and its agent asks who it is', async () => {
    await bench.apply({
      boss: {
        tools: { svc: { kind: 'local', implementation: 'svc' }, knock: { kind: 'local', implementation: 'ping' } },
        manages: ['worker'],
      },
      worker: {},
    });
    const session = await bench.start('boss', '!tools\n!call svc svc_session_get {}\n!call knock ping {}');
    const told = await bench.until(session, (view) => view.state === 'idle' && view.messages.length > 3);
    const said = told.texts.slice(1).join('\n');
    assert.ok(said.includes('svc_sessions_spawn'), said);
    assert.ok(said.includes(session), said);
    assert.ok(said.includes('"pong":true'), said);
    const { listings } = bench.daemon.ctx.host ?? assert.fail('this daemon has no host');
    const { signal } = new AbortController();
    const missing = await listings.wait(session, ['svc'], { timeoutMs: 1, signal });
    assert.deepEqual(missing, ['svc'], 'what was heard of a launch is forgotten when it is over');
  });
});

describe('what an operator sees of sessions', () => {
  let bench: HostBench;
  before(async () => {
    bench = await createHostBench();
  });
  after(() => bench.stop());

  it('a session whose harness is not installed waits in queued, and says what to run', async () => {
    const bare = await createHostBench({ lacks: 'harness-b' });
    try {
      await bare.apply({ other: { harness: 'harness-b' }, plain: {} });
      const waiting = await bare.start('other', '!say here I am');
      const told = await bare.until(waiting, (view) => view.reason === 'harness');
      assert.equal(told.state, 'queued');
      assert.match(String(told.body['reasonText']), /svc harness install harness-b/);
      // As one whose program was there, ended in its launch, and is gone since.
      await bare.daemon.ctx.db.query(
        `update svc.sessions set reason = 'the harness ended', retry_at = now() - interval '1 minute' where id = $1::uuid`,
        [waiting],
      );
      const plain = await bare.start('plain', '!say hello');
      await bare.until(plain, (view) => view.state === 'idle');
      const missing = await bare.until(waiting, (view) => view.reason === 'harness');
      assert.match(String(missing.body['reasonText']), /svc harness install harness-b/);
      const { body } = await bare.daemon.api('GET', 'P/doctor');
      const checks = body['checks'] as unknown as { name: string; status: string; message: string; hint?: string }[];
      const harness = checks.find((one) => one.name === 'harness');
      assert.equal(harness?.status, 'error');
      assert.match(harness?.message ?? '', /\(1 session waits\)/);
      assert.equal(harness?.hint, 'svc harness install harness-b');
      const sandbox = checks.find((one) => one.name === 'sandbox');
      assert.match(sandbox?.message ?? '', /^process: SVC_SANDBOX=process: nothing is isolated/);
      assert.match(checks.find((one) => one.name === 'model-key')?.message ?? '', /there is no key of provider-/);
    } finally {
      await bare.stop();
    }
  });

  it('a session whose installed harness has no key waits in queued for it, and goes on once it is there', async () => {
    const file = { providers: { model: { 'provider-b': { keySecretRef: 'model-key' } } } };
    const keyless = await createHostBench({ lacks: 'harness-b', config: { file } });
    try {
      // In place of the public adapter, with its name and version.
      const { name, version } = harnessPackage('harness-b');
      const entry = 'dist/index.js';
      const root = join(keyless.daemon.dataDir, 'harnesses/harness-b/node_modules', name);
      await mkdir(dirname(join(root, entry)), { recursive: true });
      await writeFile(join(root, 'package.json'), JSON.stringify({ version, type: 'module' }));
      await writeFile(join(root, entry), `await import(${JSON.stringify(scriptedAgent.at(-1))});\n`);
      await keyless.apply({ other: { harness: 'harness-b' } });
      const session = await keyless.start('other', '!say with a key');
      const { state, body } = await keyless.until(session, (view) => view.reason === 'key');
      assert.equal(state, 'queued');
      assert.match(String(body['reasonText']), /^there is no key of provider-b: the secret model-key is not there/);
      assert.ok(
        (await keyless.daemon.api('PUT', 'P/secrets/model-key', { value: 'a key of a provider' })).status < 300,
      );
      await keyless.until(session, (view) => view.state === 'idle' && view.said === 'with a key');
    } finally {
      await keyless.stop();
    }
  });

  it('a program that appears later is found without a restart', async () => {
    const dir = await mkdtemp(join(tmpdir(), 'svc-program-'));
    const program = join(dir, 'agent.sh');
    const late = await createHostBench({ config: { harnessACommand: [program] } });
    try {
      await late.apply({ plain: {} });
      const session = await late.start('plain', '!say found');
      const failing = await late.until(session, (view) => view.reason === 'harness' && view.state === 'queued');
      assert.match(
        String(failing.body['reasonText']),
        /^the command of harness-a, .*agent\.sh, is no program that can be run here$/,
      );
      // One that is installed would not be taken: what is configured goes before it.
      const { body } = await late.daemon.api('GET', 'P/doctor');
      const found = (body['checks'] as unknown as { name: string; hint?: string }[]).find(
        ({ name }) => name === 'harness',
      );
      assert.equal(found?.hint, 'correct SVC_HARNESS_A_COMMAND, or leave it out and: svc harness install harness-a');
      await writeFile(program, `#!/bin/sh\nexec ${scriptedAgent.join(' ')}\n`);
      await chmod(program, 0o755);
      await late.until(session, (view) => view.state === 'idle' && view.said === 'found');
    } finally {
      await late.stop();
      await rm(dir, { recursive: true, force: true });
    }
  });

  it('its stream tells each word and state as it comes, and its metrics count', async () => {
    await bench.apply({ plain: {} });
    const go = join(bench.daemon.dataDir, 'go');
    const session = await bench.start('plain', `!exec while ! test -e ${go}; do sleep 0.05; done\n!say a word`);
    const { url, token } = bench.daemon;
    const stop = new AbortController();
    const response = await fetch(`${url}/api/v1/orgs/default/projects/default/sessions/${session}/stream`, {
      headers: { authorization: `Bearer ${token}` },
      signal: stop.signal,
    });
    let text = '';
    const said = (): string => [...text.matchAll(/"kind":"text","text":"([^"]*)"/g)].map(([, one]) => one).join('');
    for await (const chunk of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
      text += chunk;
      // A state is told before what was said until then.
      const ran = text.indexOf('"state":"running"');
      if (ran > 0) await writeFile(go, '');
      if (said().includes('a word') && ran > 0 && text.indexOf('"state":"idle"', ran) > 0) break;
    }
    stop.abort();
    const states = [...text.matchAll(/"state":"(\w+)"/g)].map(([, state]) => state);
    assert.match(said(), /a word$/);
    assert.ok(states.includes('running') && states.includes('idle'), states.join());
    await bench.until(session, (view) => view.state === 'idle');
    const metrics = String((await bench.daemon.api('GET', '/metrics')).body);
    assert.match(metrics, /svc_turns_total\{outcome="finished"\} 1/);
    assert.match(metrics, /svc_session_launch_seconds_count\{outcome="started"\} 1/);
    assert.match(metrics, /svc_sessions\{state="running"\} \d/);
  });
});
