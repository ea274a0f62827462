import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createToolBench } from './mcp-testkit.ts';

test('in a project that is archived the tools of a session look, and change nothing', async (t) => {
  const bench = await createToolBench();
  t.after(() => bench.stop());
  await bench.daemon.api('PUT', 'P/secrets/hook-key', { value: 'a-key-of-a-hook' });
  await bench.apply({
    boss: { manages: ['worker'], tools: { svc: { kind: 'local', implementation: 'svc' } } },
    worker: {},
  });
  const boss = await bench.start('boss');
  const worker = await bench.start('worker');
  await bench.daemon.api('PATCH', 'P', { archived: true });
  const { sessionId } = (await boss.call('svc_session_get')).value;
  assert.equal(String(sessionId), boss.session);
  for (const [tool, input] of [
    ['svc_secrets_create', { name: 'hook-key', value: 'mine', overwrite: true }],
    ['svc_sessions_spawn', { agent: 'worker', message: 'hi' }],
    ['svc_sessions_message', { sessionId: worker.session, text: 'hi' }],
    ['svc_sessions_stop', { sessionId: worker.session }],
    ['svc_webhooks_reserve', { name: 'later' }],
    ['svc_bind', { target: { type: 'tracker.issue', key: 'late' } }],
  ] as const) {
    assert.match((await boss.call(tool, input)).text, /^project-archived: The project is archived/, tool);
  }
  await bench.daemon.api('PATCH', 'P', { archived: false });
  assert.equal((await boss.call('svc_sessions_stop', { sessionId: worker.session })).isError, false);
});
