// When a browser that is signed in has not been used for so long that it is signed in no more.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { startTestDaemon, type TestDaemon } from '../../../base/testkit/daemon.ts';

const idleSeconds = 30;
let daemon: TestDaemon;
let nowMs = Date.UTC(2026, 0, 5, 12);
before(async () => {
  daemon = await startTestDaemon({
    config: { roles: ['api'], file: { signIn: { sessions: { idleSeconds } } } },
    runtime: { now: () => new Date(nowMs) },
  });
});
after(() => daemon.stop());

const signIn = async () => {
  const answer = await daemon.api('POST', '/api/v1/auth/sessions', { token: daemon.token }, { token: null });
  assert.equal(answer.status, 201, JSON.stringify(answer.body));
  const cookie = (answer.headers.getSetCookie()[0] ?? '').split(';')[0] ?? '';
  return { cookie, 'x-svc-key': String(answer.body['key']), origin: daemon.url };
};
type Browser = Awaited<ReturnType<typeof signIn>>;
const statusOf = async (headers: Browser): Promise<number> =>
  (await daemon.api('GET', '/api/v1/me', undefined, { token: null, headers })).status;

describe('a browser of few idle seconds', () => {
  test('stays signed in while it is used, whatever the limit, and ends that long after its last request', async () => {
    const browser = await signIn();
    for (let turn = 0; turn < 10; turn += 1) {
      nowMs += (idleSeconds - 5) * 1_000;
      assert.equal(await statusOf(browser), 200, `use ${turn}`);
    }
    nowMs += (idleSeconds + 1) * 1_000;
    assert.equal(await statusOf(browser), 401);
  });

  test('ends under a stream that is open: that it is read is no request', async () => {
    const headers = await signIn();
    const signal = AbortSignal.timeout(60_000);
    const stream = await fetch(`${daemon.url}/api/v1/orgs/default/projects/default/stream`, { headers, signal });
    assert.equal(stream.status, 200);
    let isOver = false;
    const told = stream.text().finally(() => (isOver = true));
    // The right to a stream is looked at every two seconds.
    for (let turn = 0; turn < 5 && !isOver; turn += 1) {
      nowMs += (idleSeconds / 3) * 1_000;
      await sleep(2_500);
    }
    nowMs += 1_000;
    assert.match(await told, /event: signed-out/);
    assert.equal(await statusOf(headers), 401);
  });
});
