// The gateway as a daemon runs it: its configuration, its keys, its ledger.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { createLog } from '../../base/log/log.ts';
import { startTestDaemon, type TestDaemon } from '../../base/testkit/daemon.ts';
import type { ModelEvent, ModelRouteRequest } from '../../flows/ports.ts';
import { usageSummary } from '../../flows/sessions/sessions.ts';
import type { ModelProvider } from '../../domain/spec.ts';
import { ask } from './gateway-testkit.ts';
import { chatStream, json, messagesStream, startStubProvider, streams, type StubProvider } from './testkit.ts';

describe('a daemon with model providers', () => {
  let daemon: TestDaemon;
  let stub: StubProvider;
  let dir: string;
  let projectId: string;
  let log = '';
  before(async () => {
    stub = await startStubProvider();
    dir = await mkdtemp(join(tmpdir(), 'svc-models-'));
    await writeFile(join(dir, 'key'), 'key-of-the-file\n');
    const model = {
      'provider-a': { baseUrl: stub.url },
      'provider-b': { baseUrl: stub.url, keyFile: 'key' },
      'provider-c': { baseUrl: stub.url, keySecretRef: 'router-key' },
    };
    daemon = await startTestDaemon({
      log: createLog('trace', { write: (line: string) => void (log += line) }),
      config: {
        allowPrivateNetwork: true,
        file: { providers: { model } },
        fileDir: dir,
        secretEnv: (name) => (name === 'SVC_PROVIDER_A_KEY' ? 'key-of-the-environment' : undefined),
      },
    });
    const { rows } = await daemon.database.db.query<{ id: string }>('select id from svc.projects');
    projectId = rows[0]?.id ?? '';
  });
  after(async () => {
    await daemon.stop();
    await stub.stop();
    await rm(dir, { recursive: true, force: true });
  });

  const open = async (provider: ModelProvider, changes: Partial<ModelRouteRequest> = {}) => {
    const { models } = daemon.ctx;
    assert.ok(models);
    const spender = { projectId, agentId: randomUUID(), agentName: 'a', sessionId: randomUUID() };
    const id = { 'provider-a': 'claude-opus-4-8', 'provider-b': 'gpt-5.2', 'provider-c': 'v/m' }[provider];
    return { spender, route: await models.open({ spender, model: { provider, id }, ...changes }) };
  };

  test('meters a call at the shipped price, and stops at a cap', async () => {
    stub.answers(
      streams(
        messagesStream(['x'], {
          start: { input_tokens: 1_000_000, output_tokens: 1 },
          end: { output_tokens: 1_000_000 },
        }),
      ),
    );
    const events: ModelEvent[] = [];
    const { route, spender } = await open('provider-a', {
      caps: { maxPerSessionUsd: '30' },
      onEvent: (event) => events.push(event),
    });
    assert.equal((await ask(route, '/v1/messages', { messages: [] })).status, 200);
    assert.equal(stub.asked.at(-1)?.headers['x-api-key'], 'key-of-the-environment');
    await route.settled();
    assert.equal((await usageSummary(daemon.ctx, { sessionId: spender.sessionId })).costUsd, '30');
    const refused = await ask(route, '/v1/messages', { messages: [] });
    assert.equal(refused.status, 402);
    assert.match(refused.text, /maxPerSessionUsd allows 30 USD for the session, 30 USD are spent; it does not reset/);
    assert.deepEqual(
      events.map((event) => (event.kind === 'capped' ? `capped ${event.refused}` : `ended ${event.end.status}`)),
      ['ended 200', 'capped false', 'capped true', 'ended 402'],
    );
    const check = await daemon.ctx.models?.check({
      spender,
      model: { provider: 'provider-a', id: 'claude-opus-4-8' },
      caps: { maxPerSessionUsd: '30' },
    });
    assert.equal(check?.refusal?.cap, 'maxPerSessionUsd');
  });

  test('a call behind a database that does not answer is told so, and goes on when it does', async () => {
    stub.answers(json(200, { usage: { input_tokens: 1, output_tokens: 1 } }));
    const { route } = await open('provider-a', { caps: { dailyUsd: '1' } });
    const asked = stub.asked.length;
    const got = await daemon.database.db.tx(async (tx) => {
      await tx.query('lock table svc.usage_open in access exclusive mode');
      return ask(route, '/v1/messages', { messages: [] });
    });
    assert.equal(got.status, 503);
    assert.match(got.text, /The database cannot be reached at the moment/);
    assert.equal(stub.asked.length, asked);
    assert.equal((await ask(route, '/v1/messages', { messages: [] })).status, 200);
    await route.settled();
  });

  test('reads a key from a file at each call', async () => {
    stub.answers(json(200, { usage: { input_tokens: 1, output_tokens: 1 } }));
    const { route } = await open('provider-b');
    await ask(route, '/v1/responses', { input: 'x' });
    assert.equal(stub.asked.at(-1)?.headers['authorization'], 'Bearer key-of-the-file');
    await writeFile(join(dir, 'key'), 'key-that-is-new');
    await ask(route, '/v1/responses', { input: 'x' });
    assert.equal(stub.asked.at(-1)?.headers['authorization'], 'Bearer key-that-is-new');
    await rm(join(dir, 'key'));
    const got = await ask(route, '/v1/responses', { input: 'x' });
    assert.equal(got.status, 502);
    assert.match(got.text, /No key is configured for provider-b/);
  });

  test("takes a key from a secret of the session's project, and leaves an audit entry", async () => {
    stub.answers(streams(chatStream(['x'], { prompt_tokens: 1, completion_tokens: 1, cost: 0.25 })));
    const { route, spender } = await open('provider-c', { caps: { dailyUsd: '1' } });
    assert.equal((await ask(route, '/v1/chat/completions', { messages: [] })).status, 502);
    const put = await daemon.api('PUT', 'P/secrets/router-key', { value: 'key-of-the-secret' });
    assert.ok(put.status < 300);
    assert.equal((await ask(route, '/v1/chat/completions', { stream: true, messages: [] })).status, 200);
    assert.equal(stub.asked.at(-1)?.headers['authorization'], 'Bearer key-of-the-secret');
    await route.settled();
    assert.equal((await usageSummary(daemon.ctx, { agentId: spender.agentId })).costUsd, '0.25');
    const { rows } = await daemon.database.db.query<{ detail: { reader: unknown } }>(
      `select detail from svc.audit where action = 'secret.use' order by id`,
    );
    assert.deepEqual(rows.at(-1)?.detail.reader, { kind: 'model', name: 'provider-c' });
  });

  test('a session that comes back is charged for what its dead host had in flight', async () => {
    let arrived: (() => void) | undefined;
    const asked = new Promise<void>((resolve) => (arrived = resolve));
    stub.answers(() => arrived?.());
    const { route, spender } = await open('provider-a');
    const lost = ask(route, '/v1/messages', { messages: [{ role: 'user', content: 'x'.repeat(300) }] });
    await asked;
    const again = await daemon.ctx.models?.open({ spender, model: { provider: 'provider-a', id: 'claude-opus-4-8' } });
    assert.ok(again);
    const { calls, inputTokens } = await usageSummary(daemon.ctx, { sessionId: spender.sessionId });
    assert.equal(calls, 1);
    assert.ok(inputTokens > 100);
    await Promise.all([route.close(), assert.rejects(lost)]);
    assert.equal((await usageSummary(daemon.ctx, { sessionId: spender.sessionId })).calls, 1);
  });

  test('what it cannot reach its database for it does not let go', async () => {
    const { route, spender } = await open('provider-a', { caps: { dailyUsd: '1' } });
    const before = stub.asked.length;
    await daemon.database.db.query('alter table svc.usage_open rename to usage_away');
    try {
      const got = await ask(route, '/v1/messages', { messages: [] });
      assert.equal(got.status, 503);
      assert.doesNotMatch(got.text, /usage_/);
    } finally {
      await daemon.database.db.query('alter table svc.usage_away rename to usage_open');
    }
    assert.equal(stub.asked.length, before);
    assert.equal((await usageSummary(daemon.ctx, { sessionId: spender.sessionId })).calls, 0);
  });

  test('no key is in its log', () => {
    assert.match(log, /model\.called/);
    assert.doesNotMatch(log, /key-of-the|key-that-is/);
  });
});
