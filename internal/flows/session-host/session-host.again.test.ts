// Sessions whose harness has gone, and how they go on (docs/reference/sessions.md#states): at rest they say nothing of it, nothing of
// them runs twice, and a daemon that stops keeps them until nothing of them runs any more.

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { after, before, test } from 'node:test';
import { leaseSeconds, suspendLapsed } from '../../adapters/store/sessions/hosts.ts';
import { isWithin } from '../../base/testkit/parsing.ts';
import { createTestDatabase } from '../../base/testkit/postgres.ts';
import { eventually, processesOf } from './host-crash-testkit.ts';
import { createHostBench, type SessionView } from './host-testkit.ts';

const path = process.env['PATH'];
let programs: string;
before(async () => {
  // What a session leaves is read by it, a file a second: that takes as long as much of it does elsewhere.
  programs = await mkdtemp(join(tmpdir(), 'svc-programs-'));
  await writeFile(join(programs, 'cat'), '#!/bin/sh\nsleep 1\nexec /bin/cat "$@"\n', { mode: 0o755 });
  process.env['PATH'] = `${programs}:${path}`;
});
after(async () => {
  process.env['PATH'] = path;
  await rm(programs, { recursive: true });
});

/** Between two turns with nothing left to hear. */
const rests = ({ state, body }: SessionView): boolean =>
  state === 'idle' && Number(body['inbox']?.['pending']) + Number(body['inbox']?.['inFlight']) === 0;
const leaves = (files: number): string =>
  `!exec for n in $(seq ${files}); do echo $n > $SVC_ARTIFACTS/$n; done\n!say left.`;

test('a session whose harness ends between two turns rests, and nobody is told that it could not answer', async () => {
  const bench = await createHostBench();
  try {
    await bench.apply({ plain: {} });
    const session = await bench.start('plain', '!say answered');
    await bench.until(session, (view) => rests(view) && view.said === 'answered');
    for (const pid of processesOf(session)) process.kill(pid, 'SIGKILL');
    const { reason } = await bench.until(session, (view) => view.body['loaded'] === (false as never));
    assert.equal(reason, null);
    const { body } = await bench.daemon.api('GET', 'P/doctor');
    const checks = body['checks'] as unknown as { name: string; message: string }[];
    assert.deepEqual(
      checks.filter(({ name }) => name === 'failed').map(({ message }) => message),
      [],
    );
    await bench.send(session, '!say again');
    await bench.until(session, (view) => rests(view) && view.said.endsWith('again'));
  } finally {
    await bench.stop();
  }
});

test('a session that its own host takes again is launched once what ran of it there has ended', async () => {
  const bench = await createHostBench();
  try {
    await bench.apply({ plain: {} });
    const session = await bench.start('plain', `${leaves(3)}\n!sleep 600000`);
    await bench.until(session, ({ said }) => said.includes('left.'));
    const { db } = bench.daemon.ctx;
    // As after the machine has slept: nobody else was there to take it.
    await db.tx(async (tx) => {
      await tx.query(`update svc.session_leases set until = now() - interval '1 hour' where session_id = $1::uuid`, [
        session,
      ]);
      assert.deepEqual(await suspendLapsed(tx), [session]);
    });
    const isTaken = async (): Promise<boolean> => (await bench.turns(session)).length === 2;
    await eventually('its message goes in again', isTaken);
    await sleep(5_000);
    const turns = await bench.turns(session);
    assert.deepEqual(
      turns.map(({ state }) => state),
      ['lost', 'running'],
    );
    const { texts } = await bench.view(session);
    assert.equal(texts.filter((text) => text === 'The session goes on.').length, 1, texts.join('\n'));
    const exec = await bench.daemon.api('POST', `P/sessions/${session}/exec`, { argv: ['true'] });
    assert.match(String(exec.body), /"exitCode":0/, 'it is reached');
  } finally {
    await bench.stop();
  }
});

test('a daemon that stops keeps its sessions until what they leave is kept', async () => {
  const database = await createTestDatabase();
  try {
    const bench = await createHostBench({ database });
    await bench.apply({ plain: {} });
    const session = await bench.start('plain', `${leaves(10)}\n!sleep 600000`);
    await bench.until(session, ({ said }) => said.includes('left.'));
    let isOver = false;
    const stopping = bench.stop().finally(() => (isOver = true));
    let least = leaseSeconds;
    while (!isOver) {
      const { rows } = await database.db.query<{ left: number }>(
        `select extract(epoch from l.until - now())::float8 as left from svc.session_leases l
           join svc.sessions s on s.id = l.session_id and s.epoch = l.epoch where s.id = $1::uuid`,
        [session],
      );
      least = Math.min(least, rows[0]?.left ?? leaseSeconds);
      await sleep(200);
    }
    await stopping;
    assert.ok(least > leaseSeconds / 2, `another daemon could have had it ${least} s later`);
    const { rows } = await database.db.query<{ told: unknown }>(
      `select json_build_array(state, leased_by, (select count(*) from svc.session_files where session_id = id)) as told
         from svc.sessions where id = $1::uuid`,
      [session],
    );
    assert.deepEqual(rows[0]?.told, ['suspended', null, 10]);
  } finally {
    await database.close();
  }
});

/** Has a conversation at once, and never asks for its tools. */
const silent = `
  const say = (message) => console.log(JSON.stringify({ jsonrpc: '2.0', ...message }));
  const answers = {
    initialize: { protocolVersion: 1, agentCapabilities: { mcpCapabilities: { http: true } } },
    'session/new': { sessionId: 's' },
  };
  require('readline').createInterface({ input: process.stdin }).on('line', (line) => {
    const { id, method } = JSON.parse(line);
    if (method === 'session/new') require('fs').writeFileSync(process.env.SVC_ARTIFACTS + '/open', '');
    if (id !== undefined) say({ id, result: answers[method] ?? {} });
  });`;

test('a launch whose harness has not asked for its tools ends with its daemon', async () => {
  const bench = await createHostBench({ config: { harnessACommand: [process.execPath, '-e', silent] } });
  let tookMs = Infinity;
  try {
    await bench.apply({ plain: { tools: { svc: { kind: 'local', implementation: 'svc' } } } });
    const session = await bench.start('plain', 'Begin');
    const open = join(bench.daemon.dataDir, 'sandboxes', session, 'home', 'artifacts', 'open');
    await eventually('its conversation is open', () => existsSync(open));
    await sleep(500);
  } finally {
    const begun = performance.now();
    await bench.stop();
    tookMs = performance.now() - begun;
  }
  assert.ok(isWithin(tookMs, 20_000), `${tookMs} ms`);
});
