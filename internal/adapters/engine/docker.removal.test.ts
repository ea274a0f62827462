// Removing a box whatever it does at that moment, against an engine that says what Podman says then.

import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { DockerEngine, EngineError } from './engine.ts';

const owner = { installation: 'i', session: 'a', epoch: 1 };
const improper = [500, 'sending SIGKILL to container 6a29: container state improper: stopped'] as const;

for (const { name, answers, asked, refused } of [
  { name: 'one that ends by itself meanwhile is asked for again', answers: [improper, improper, [204, '']], asked: 3 },
  { name: 'one that is gone then is gone', answers: [improper, [404, 'no such container']], asked: 2 },
  { name: 'any other failure is told', answers: [[500, 'no space left']], asked: 1, refused: /no space left/ },
] as const) {
  test(name, async () => {
    const left = [...answers] as (readonly [number, string])[];
    let count = 0;
    const server = createServer((request, response) => {
      assert.match(`${request.method} ${request.url}`, /^DELETE .*\/containers\/6a29\?force=true&v=true$/);
      count += 1;
      const [status, message] = left.shift() ?? [500, 'asked too often'];
      response.writeHead(status, { 'content-type': 'application/json' });
      response.end(status === 204 ? '' : JSON.stringify({ message }));
    });
    const directory = await mkdtemp(join(tmpdir(), 'svc-engine-'));
    const socket = join(directory, 'e.sock');
    await new Promise<void>((resolve) => server.listen(socket, resolve));
    const engine = new DockerEngine({ socket });
    try {
      const ended = engine.destroy({ owner, name: 'svc-a-1', uid: '6a29', running: true });
      if (refused === undefined) await ended;
      else await assert.rejects(ended, (error) => error instanceof EngineError && refused.test(error.message));
      assert.equal(count, asked);
    } finally {
      await engine.close();
      await new Promise((resolve) => server.close(resolve));
      await rm(directory, { recursive: true });
    }
  });
}
