// What a test's client does with a daemon that says it is busy.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, it } from 'node:test';
import { apiClient } from './daemon.ts';

const server = createServer();
/** What it answers next; the last one stays. */
let answers: [status: number, code?: string][] = [];
const asked: string[] = [];
before(async () => {
  server.on('request', (request, response) => {
    const [status, code] = (answers.length > 1 ? answers.shift() : answers[0]) ?? [500];
    asked.push(String(request.method));
    response.writeHead(status, { 'content-type': 'application/json', 'retry-after': '0' });
    response.end(JSON.stringify({ code }));
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
});
after(async () => {
  server.closeAllConnections();
  server.close();
});
const ask = async (...given: typeof answers) => {
  asked.length = 0;
  answers = given;
  const api = apiClient(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, 'token');
  return [(await api('POST', 'P/agents/one/sessions', {})).status, asked.length];
};

it('is asked again, as the contract has clients do it: nothing was changed', async () => {
  assert.deepEqual(await ask([503, 'busy'], [503, 'busy'], [201]), [201, 3]);
});

it('is believed where it stays busy, and in all else that it says', async () => {
  assert.deepEqual(await ask([503, 'busy']), [503, 11]);
  assert.deepEqual(await ask([503, 'unavailable'], [201]), [503, 1]);
  assert.deepEqual(await ask([409, 'busy'], [201]), [409, 1]);
});
