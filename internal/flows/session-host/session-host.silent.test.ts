// An engine that takes calls and answers none of them, once it was known: a launch that waits for it ends with its daemon, and a
// session that runs there is left to the next one, which keeps its work.

import assert from 'node:assert/strict';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { createTestDatabase } from '../../base/testkit/postgres.ts';
import { createHostBench } from './host-testkit.ts';
import { engineWords, startSilentEngine } from './silent-box-testkit.ts';

/** From then on a daemon that stops is ended: less than it takes to find out that such an engine says nothing. */
const byForceMs = 24_000;

const rawAgent = [process.execPath, join(import.meta.dirname, '../../../testdata/raw-agent/agent.ts')];

/** From which question on it is silent. */
const silences = { 'its version': 0, 'what it has of the session': 2, 'the box that it has made': engineWords.length };

for (const [what, known] of Object.entries(silences))
  test(`a daemon that stops waits for no launch whose engine fell silent when it was asked for ${what}`, async () => {
    const dir = await mkdtemp(join(tmpdir(), 'svc-silent-'));
    const socket = join(dir, 'engine.sock');
    const silent: string[] = [];
    const answerTo = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
      const question = `${request.method} ${request.url}`;
      const body = await text(request);
      const [, status = 0, answer = ''] = engineWords.slice(0, known).find(([of]) => of.test(question)) ?? [];
      if (status === 0) silent.push(question);
      else response.writeHead(status).end(answer === '' ? body : answer);
    };
    const engine = createServer((request, response) => void answerTo(request, response).catch(() => undefined));
    await new Promise<void>((resolve) => engine.listen(socket, resolve));
    const presets = { base: { provider: 'docker', image: 'any' } };
    const bench = await createHostBench({ config: { file: { sandboxes: { docker: { socket }, presets } } } });
    let stopped: Promise<string> | undefined;
    try {
      await bench.apply({ boxed: {} });
      const session = await bench.start('boxed', '!say ready');
      await bench.until(session, ({ state }) => state === 'provisioning');
      const isAsked = (question: string): boolean => known === 0 || /session|\/box\//.test(question);
      while (!silent.some(isAsked)) await sleep(20);
      stopped = bench.stop().then(() => 'it has stopped');
      assert.equal(await Promise.race([stopped, sleep(7_000, 'it waits', { ref: false })]), 'it has stopped');
    } finally {
      engine.closeAllConnections();
      engine.close();
      await (stopped ?? bench.stop());
      await rm(dir, { recursive: true });
    }
  });

/** What is said: no secret begins as it ends, whose beginning would wait for what follows. */
const ready = 'ready!';
const say = (words: string): string => {
  const update = { sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: words } };
  return JSON.stringify({ jsonrpc: '2.0', method: 'session/update', params: { sessionId: '$S', update } });
};

const asks = JSON.stringify({
  ...{ jsonrpc: '2.0', id: 'leave', method: 'session/request_permission' },
  params: { sessionId: '$S', toolCall: { toolCallId: 'c', title: 'deploy' }, options: [] },
});

/** What a session is at when its engine falls silent, and whether another life of its daemon can go on with it there. */
const moments = {
  'between two turns': { lines: [say(ready)], state: 'idle', isLeft: true },
  'in a turn': { lines: [say(ready), say('more')], pauseMs: 60_000, state: 'running', isLeft: true },
  // More was told behind what waits for an answer: nobody goes on from there.
  'with a question behind which it spoke': {
    ...{ lines: [asks, ...Array.from({ length: 100 }, () => say(ready))], pauseMs: 1_000 },
    ...{ state: 'waiting_permission', isLeft: false },
  },
} as const;

for (const [moment, { state, isLeft, ...order }] of Object.entries(moments))
  test(`a daemon that stops leaves a session on an engine that fell silent ${moment}, and waits for neither`, async () => {
    const database = await createTestDatabase();
    const engine = await startSilentEngine(rawAgent);
    const presets = { base: { provider: 'docker', image: 'any', harnesses: { 'harness-b': rawAgent } } };
    const file = { sandboxes: { docker: { socket: engine.socket }, presets } };
    const bench = await createHostBench({ database, config: { file, harnessBCommand: rawAgent } });
    let stopped: Promise<string> | undefined;
    try {
      const environment = { name: 'asking', image: { kind: 'preset', name: 'base' }, approvals: 'prompt' };
      await bench.apply({ boxed: { harness: 'harness-b', environment } });
      const session = await bench.start('boxed', JSON.stringify(order));
      await bench.until(session, (seen) => seen.state === state && seen.said.includes(ready));
      engine.fallSilent();
      stopped = bench.stop().then(() => 'it has stopped');
      assert.equal(await Promise.race([stopped, sleep(byForceMs, 'it waits', { ref: false })]), 'it has stopped');
      const { rows } = await database.db.query(
        `select s.state, exists (select from svc.session_holds h where h.session_id = s.id and h.epoch = s.epoch) as held
           from svc.sessions s`,
      );
      assert.deepEqual(rows, [{ state: isLeft ? state : 'suspended', held: isLeft }]);
    } finally {
      await engine.stop();
      await (stopped ?? bench.stop());
      await database.close();
    }
  });

test('a daemon that stops waits for no launch whose engine fell silent once its box was there', async () => {
  const engine = await startSilentEngine(rawAgent, { startsNone: true });
  const presets = { base: { provider: 'docker', image: 'any', harnesses: { 'harness-b': rawAgent } } };
  const file = { sandboxes: { docker: { socket: engine.socket }, presets } };
  const bench = await createHostBench({ config: { file, harnessBCommand: rawAgent } });
  let stopped: Promise<string> | undefined;
  try {
    await bench.apply({ boxed: { harness: 'harness-b' } });
    await bench.start('boxed', JSON.stringify({ lines: [say(ready)] }));
    while (!engine.isSilent()) await sleep(20);
    stopped = bench.stop().then(() => 'it has stopped');
    assert.equal(await Promise.race([stopped, sleep(byForceMs, 'it waits', { ref: false })]), 'it has stopped');
  } finally {
    await engine.stop();
    await (stopped ?? bench.stop());
  }
});

const prompt = JSON.stringify({ lines: [say(ready)] });
const boxed = {
  docker: {},
  presets: {
    base: { provider: 'docker', image: 'any', harnesses: { 'harness-b': rawAgent } },
    bare: { provider: 'process' },
  },
};
/** The engine has one box: who takes the place of a session there runs elsewhere. */
const agents = {
  boxed: { harness: 'harness-b' },
  plain: { harness: 'harness-b', environment: { name: 'bare', image: { kind: 'preset', name: 'bare' } } },
};

test('what a session has made since it was taken over is kept when it gives its place up', async () => {
  const database = await createTestDatabase();
  const engine = await startSilentEngine(rawAgent);
  const dataDir = await mkdtemp(join(tmpdir(), 'svc-taken-'));
  const file = {
    sandboxes: { ...boxed, docker: { socket: engine.socket }, snapshots: { maxMB: 2 } },
    sessions: { max: 1, unloadAfterSeconds: 0 },
  };
  const masterKeyFile = join(dataDir, 'own.key');
  await writeFile(masterKeyFile, `1:${Buffer.alloc(32, 7).toString('base64')}\n`, { mode: 0o600 });
  const config = { file, masterKeyFile, harnessBCommand: rawAgent };
  const host = () => createHostBench({ database, dataDir, config });
  const keptAt = async (): Promise<number | undefined> => {
    const text = 'select taken_at as at from svc.session_snapshots';
    return (await database.db.query<{ at: Date }>(text)).rows[0]?.at.getTime();
  };
  let on = await host();
  try {
    await on.apply(agents);
    const session = await on.start('boxed', prompt);
    await on.until(session, (seen) => seen.state === 'idle' && seen.said.includes(ready));
    await on.stop();
    const before = await keptAt();
    assert.ok(before !== undefined);
    on = await host();
    await on.until(session, ({ body }) => body['loaded'] === (true as never));
    const other = await on.start('plain', prompt);
    await on.until(session, ({ body }) => body['loaded'] === (false as never));
    assert.ok(Number(await keptAt()) > before);
    await on.until(other, (seen) => seen.state !== 'queued');
  } finally {
    await on.stop();
    await engine.stop();
    await database.close();
    await rm(dataDir, { recursive: true, force: true });
  }
});

type Bench = Awaited<ReturnType<typeof createHostBench>>;

/** How a session is put away. */
const partings = {
  'gives its place up': async (bench: Bench, session: string): Promise<void> => {
    await bench.start('plain', prompt);
    await bench.until(session, ({ state }) => state === 'idle');
  },
  'has ended': async (bench: Bench, session: string): Promise<void> => {
    await bench.daemon.api('POST', `P/sessions/${session}/archive`, {});
  },
};

for (const [how, part] of Object.entries(partings))
  test(`a daemon that stops waits for no session that ${how}, and whose engine fell silent over it`, async () => {
    const engine = await startSilentEngine(rawAgent, { silentAt: /^DELETE/ });
    const sandboxes = { ...boxed, docker: { socket: engine.socket } };
    const file = { sandboxes, sessions: { max: 1, unloadAfterSeconds: 0 } };
    const bench = await createHostBench({ config: { file, harnessBCommand: rawAgent } });
    let stopped: Promise<string> | undefined;
    try {
      await bench.apply(agents);
      const session = await bench.start('boxed', prompt);
      await bench.until(session, ({ state, said }) => state === 'idle' && said.includes(ready));
      await part(bench, session);
      while (!engine.isSilent()) await sleep(20);
      await sleep(500);
      stopped = bench.stop().then(() => 'it has stopped');
      assert.equal(await Promise.race([stopped, sleep(byForceMs, 'it waits', { ref: false })]), 'it has stopped');
    } finally {
      await engine.stop();
      await (stopped ?? bench.stop());
    }
  });

test('a daemon that stops waits for no session that it takes over, and whose engine fell silent over it', async () => {
  const database = await createTestDatabase();
  const engine = await startSilentEngine(rawAgent, { silentAt: /exec$/ });
  const dataDir = await mkdtemp(join(tmpdir(), 'svc-taken-'));
  const masterKeyFile = join(dataDir, 'own.key');
  await writeFile(masterKeyFile, `1:${Buffer.alloc(32, 7).toString('base64')}\n`, { mode: 0o600 });
  const file = { sandboxes: { ...boxed, docker: { socket: engine.socket } } };
  const host = () => createHostBench({ database, dataDir, config: { file, masterKeyFile, harnessBCommand: rawAgent } });
  let bench = await host();
  let stopped: Promise<string> | undefined;
  try {
    await bench.apply({ boxed: { harness: 'harness-b' } });
    const session = await bench.start('boxed', prompt);
    await bench.until(session, ({ state, said }) => state === 'idle' && said.includes(ready));
    await bench.stop();
    bench = await host();
    while (!engine.isSilent()) await sleep(20);
    stopped = bench.stop().then(() => 'it has stopped');
    assert.equal(await Promise.race([stopped, sleep(byForceMs, 'it waits', { ref: false })]), 'it has stopped');
  } finally {
    await engine.stop();
    await (stopped ?? bench.stop());
    await database.close();
    await rm(dataDir, { recursive: true, force: true });
  }
});
