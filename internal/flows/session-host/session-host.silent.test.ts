// An engine that takes calls and answers none of them, once it was known: a launch that waits for it ends with its daemon.

import assert from 'node:assert/strict';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { createHostBench } from './host-testkit.ts';

/** What an engine says that runs no box yet; a volume is whoever's it is made for. */
const words: readonly (readonly [question: RegExp, status: number, answer: string])[] = [
  [/^GET \S+\/version$/, 200, '{"Version":"1"}'],
  [/^GET \S+\/info$/, 200, '{}'],
  [/^GET \S+\/containers\/json\?/, 200, '[]'],
  [/^GET \S+\/volumes\//, 404, '{}'],
  [/^GET \S+\/images\//, 200, `{"Id":"sha256:${'a'.repeat(64)}"}`],
  [/^POST \S+\/volumes\/create$/, 201, ''],
  [/^POST \S+\/containers\/create\?/, 201, '{"Id":"box"}'],
];

/** From which question on it is silent. */
const silences = { 'its version': 0, 'what it has of the session': 2, 'the box that it has made': words.length };

for (const [what, known] of Object.entries(silences))
  test(`a daemon that stops waits for no launch whose engine fell silent when it was asked for ${what}`, async () => {
    const dir = await mkdtemp(join(tmpdir(), 'svc-silent-'));
    const socket = join(dir, 'engine.sock');
    const silent: string[] = [];
    const answerTo = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
      const question = `${request.method} ${request.url}`;
      const body = await text(request);
      const [, status = 0, answer = ''] = words.slice(0, known).find(([of]) => of.test(question)) ?? [];
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
