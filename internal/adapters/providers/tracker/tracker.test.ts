import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { ProviderLimited } from '../../../domain/outside.ts';
import { callTracker } from './tracker.ts';

test('a limit without Retry-After ends when what is used up begins anew, and otherwise names no time', async (t) => {
  const at = Date.parse('2026-11-30T12:00:00Z');
  const spent = (what: string, seconds: number, remaining = '0') => ({
    [`x-ratelimit-${what}-remaining`]: remaining,
    [`x-ratelimit-${what}-reset`]: String(at + seconds * 1_000),
  });
  let headers: { readonly [name: string]: string } = {};
  const server = createServer((_request, response) => {
    response.writeHead(400, { date: new Date(at).toUTCString(), 'content-type': 'application/json', ...headers });
    response.end(JSON.stringify({ errors: [{ message: 'slow', extensions: { type: 'ratelimited' } }] }));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  const apiUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const rows: (readonly [headers: typeof headers, seconds: number | undefined])[] = [
    [{}, undefined],
    [{ 'retry-after': '7', ...spent('requests', 900) }, 7],
    [spent('requests', 900), 900],
    [{ ...spent('requests', 900, '12'), ...spent('complexity', 40) }, 40],
    [{ ...spent('requests', 900), ...spent('complexity', 40) }, 900],
    [{ ...spent('requests', -5) }, 1],
    [{ 'x-ratelimit-requests-remaining': '0', 'x-ratelimit-requests-reset': 'soon' }, undefined],
  ];
  for (const [told, seconds] of rows) {
    headers = told;
    const call = callTracker({
      apiUrl,
      key: 'k',
      query: '{ viewer }',
      variables: {},
      isWrite: false,
      allowPrivate: true,
    });
    await assert.rejects(call, (error) => error instanceof ProviderLimited && error.seconds === seconds, `${seconds}`);
  }
});
