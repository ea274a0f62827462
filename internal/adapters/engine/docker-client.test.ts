// Answers of an engine that come in lines.

import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { DockerClient } from './docker-client.ts';

/** The lines of what `answer` writes. */
async function linesOf(answer: (response: ServerResponse) => Promise<unknown>): Promise<string[]> {
  const server = createServer((_request, response) => void answer(response).then(() => response.end()));
  const directory = await mkdtemp(join(tmpdir(), 'svc-engine-'));
  const socket = join(directory, 'e.sock');
  await new Promise<void>((resolve) => server.listen(socket, resolve));
  const client = new DockerClient({ socket });
  try {
    return await Array.fromAsync(client.lines('/images/create', { method: 'POST' }));
  } finally {
    await client.close();
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
    await rm(directory, { recursive: true });
  }
}

test('a line is told whole, in however many parts it comes', async () => {
  const told = await linesOf(async (response) => {
    for (const byte of Buffer.from('{"a":"é"}\n\n \n{"b":1}')) {
      response.write(Buffer.from([byte]));
      await turn();
    }
  });
  assert.deepEqual(told, ['{"a":"é"}', '{"b":1}']);
});

test('a line that does not end is given up', async () => {
  let sent = 0;
  const telling = linesOf(async (response) => {
    while (!response.destroyed && sent < 64) {
      response.write(Buffer.alloc(65_536, 'a'));
      sent += 1;
      await turn();
    }
  });
  await assert.rejects(telling, /a line over 1 MiB/);
});
