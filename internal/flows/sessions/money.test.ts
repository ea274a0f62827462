import assert from 'node:assert/strict';
import { randomBytes, randomUUID } from 'node:crypto';
import { after, before, beforeEach, describe, test } from 'node:test';
import { openDatabase } from '../../adapters/store/store.ts';
import { createTestDatabase, insertProject, silent, type TestDatabase } from '../../base/testkit/postgres.ts';
import type { Usage } from '../../core/money/money.ts';
import type { PriceRow } from '../../domain/price.ts';
import type { AgentSpec, ModelSpec } from '../../domain/spec.ts';
import { type CallIntent, checkMoney, type MoneyPorts, moneyPorts, usageOfMany, usageSummary } from './sessions.ts';

const rates = { input: '1', output: '10', cacheRead: '0.1', cacheWrite: '1' };
const prices: PriceRow[] = [{ provider: 'provider-a', model: 'm', from: '2026-01-01', ...rates }];
const signal = new AbortController().signal;

describe('money', () => {
  let t: TestDatabase;
  let now: Date;
  const projectId = randomUUID();
  let spender: CallIntent['spender'];
  const ctx = () => ({
    db: t.db,
    runtime: { now: () => now, uuid: randomUUID, randomBytes, log: silent },
  });
  let money: MoneyPorts;
  before(async () => {
    t = await createTestDatabase();
    await insertProject(t.db, projectId);
  });
  beforeEach(async () => {
    now = new Date('2026-03-31T12:00:00Z');
    spender = { projectId, agentId: randomUUID(), agentName: 'a', sessionId: randomUUID() };
    money = moneyPorts(ctx(), prices);
    await setCaps(undefined);
  });
  after(() => t.close());

  const setCaps = (spendCaps: AgentSpec['spendCaps']) =>
    t.db.query(
      `insert into svc.agents (id, project_id, name, revision, spec, spec_hash, source)
       values ($1::uuid, $2::uuid, $3::text, 1, $4::jsonb, 'h', '{}') on conflict (id) do update set spec = excluded.spec`,
      [spender.agentId, projectId, spender.agentId, JSON.stringify({ spendCaps })],
    );
  const modelA: ModelSpec = { provider: 'provider-a', id: 'm' };
  const modelC: ModelSpec = { provider: 'provider-c', id: 'v/m' };
  const intent = (changes: Partial<CallIntent> = {}): CallIntent => ({
    requestId: randomUUID(),
    spender,
    model: modelA,
    models: [(changes.model ?? modelA).id],
    caps: undefined,
    inputTokens: 1_000,
    maxOutputTokens: 10_000,
    ...changes,
  });
  const usage = (changes: Partial<Usage> = {}): Usage => ({
    inputTokens: 0,
    outputTokens: 0,
    cacheReadTokens: 0,
    cacheWriteTokens: 0,
    estimated: false,
    ...changes,
  });
  /** Spends so many dollars in one call. */
  const spend = async (dollars: number, changes: Partial<CallIntent> = {}) => {
    const call = intent(changes);
    const verdict = await money.authorize(call, signal);
    if (!verdict.allowed) return verdict.code;
    return money.settle(call, { model: call.model.id, usage: usage({ outputTokens: dollars * 100_000 }) });
  };
  const sum = () => usageSummary(ctx(), { sessionId: spender.sessionId });

  test('a call is entered at the price of its day, for its session, agent and project', async () => {
    const call = intent();
    assert.deepEqual(await money.authorize(call, signal), { allowed: true });
    const outcome = { model: 'm', usage: usage({ inputTokens: 3, outputTokens: 5, cacheReadTokens: 7 }) };
    assert.equal(await money.settle(call, outcome), null);
    await money.settle(call, outcome);
    const expected = {
      calls: 1,
      unpricedCalls: 0,
      inputTokens: 3,
      outputTokens: 5,
      cacheReadTokens: 7,
      cacheWriteTokens: 0,
      costUsd: '0.0000537',
    };
    assert.deepEqual(await sum(), expected);
    assert.deepEqual(await usageSummary(ctx(), { agentId: spender.agentId }), expected);
    const nobody = randomUUID();
    const many = await usageOfMany(ctx(), [nobody, spender.sessionId]);
    assert.deepEqual(many.get(spender.sessionId), expected);
    assert.deepEqual([many.size, many.get(nobody)?.costUsd], [2, '0']);
    assert.ok((await usageSummary(ctx(), { projectId }, '2026-03-31')).calls >= 1);
    const { rows } = await t.db.query<{ day: string }>(
      'select price_date::text as day from svc.usage_ledger where request_id = $1::uuid',
      [call.requestId],
    );
    assert.equal(rows[0]?.day, '2026-01-01');
  });

  test('each cap closes when it is reached, and opens with its day, its month, or when it is raised', async () => {
    await setCaps({ dailyUsd: '2', monthlyUsd: '3' });
    assert.equal(await spend(1), null);
    const passed = await spend(1);
    assert.equal(typeof passed === 'object' && passed?.cap, 'dailyUsd');
    assert.equal(await spend(1), 'spend-cap');
    now = new Date('2026-04-01T00:00:00Z');
    assert.equal(await spend(1), null, 'a new day, and a new month');
    await setCaps({ dailyUsd: '1' });
    assert.equal(await spend(1), 'spend-cap');
    await setCaps({ dailyUsd: '1.5' });
    assert.notEqual(await spend(0.1), 'spend-cap');
    await setCaps({ maxPerSessionUsd: '3.1' });
    assert.equal(await spend(1), 'spend-cap');
    spender = { ...spender, sessionId: randomUUID() };
    assert.equal(await spend(1), null, 'another session of the agent');
    await setCaps({ monthlyUsd: '0' });
    assert.equal(await spend(1), 'spend-cap');
    await setCaps(undefined);
    assert.equal(await spend(1), null);
  });

  test('where the agent is gone, the caps of the session hold', async () => {
    await t.db.query('delete from svc.agents where id = $1::uuid', [spender.agentId]);
    assert.equal(await spend(1, { caps: { maxPerSessionUsd: '0' } }), 'spend-cap');
  });

  test('any number of parallel calls passes a cap by one call at most, also from several processes', async () => {
    await setCaps({ dailyUsd: '1' });
    const other = openDatabase({ url: t.url, log: silent });
    try {
      const both = [money, moneyPorts({ ...ctx(), db: other }, prices)];
      const one = async (n: number): Promise<boolean> => {
        // Each may come to 0.101 dollars, and does.
        const call = intent({ spender: { ...spender, sessionId: randomUUID() } });
        const verdict = await both[n % 2]?.authorize(call, signal);
        if (verdict?.allowed !== true) return false;
        await new Promise((resolve) => setTimeout(resolve, 5));
        await money.settle(call, { model: 'm', usage: usage({ inputTokens: 1_000, outputTokens: 10_000 }) });
        return true;
      };
      const allowed = await Promise.all(Array.from({ length: 30 }, (_, n) => one(n)));
      const { costUsd } = await usageSummary(ctx(), { agentId: spender.agentId });
      assert.equal(allowed.filter(Boolean).length, 10);
      assert.equal(costUsd, '1.01');
    } finally {
      await other.close();
    }
  });

  test('a call waits for those in flight, and is let go when they turn out cheap', async () => {
    await setCaps({ dailyUsd: '0.05' });
    const [first, second] = [intent(), intent()];
    assert.equal((await money.authorize(first, signal)).allowed, true);
    const waiting = money.authorize(second, signal);
    await money.settle(first, { model: 'm', usage: usage({ inputTokens: 10 }) });
    assert.equal((await waiting).allowed, true);
    const gone = new AbortController();
    const third = money.authorize(intent(), gone.signal);
    gone.abort();
    await assert.rejects(third, { name: 'AbortError' });
    await money.settle(second, null);
    assert.equal((await sum()).calls, 1);
    const { rows } = await t.db.query('select 1 from svc.usage_open where agent_id = $1::uuid', [spender.agentId]);
    assert.equal(rows.length, 0);
  });

  test('a call that waits goes by the caps of its agent as they are now', async () => {
    for (const [caps, answer] of [
      [{ dailyUsd: '5' }, { allowed: true }],
      [undefined, { allowed: true }],
      [{ dailyUsd: '0' }, 'spend-cap'],
    ] as const) {
      spender = { ...spender, agentId: randomUUID() };
      await setCaps({ dailyUsd: '0.05' });
      const first = intent();
      assert.equal((await money.authorize(first, signal)).allowed, true);
      const waiting = money.authorize(intent(), AbortSignal.timeout(60_000));
      await setCaps(caps);
      const verdict = await waiting;
      assert.deepEqual(verdict.allowed ? verdict : verdict.code, answer);
    }
  });

  test('an unknown price refuses under a cap only', async () => {
    const unknown = { model: { provider: 'provider-a', id: 'new' } as const, models: ['new'] };
    assert.equal((await money.authorize(intent(unknown), signal)).allowed, true);
    await setCaps({ monthlyUsd: '100' });
    const verdict = await money.authorize(intent(unknown), signal);
    assert.ok(!verdict.allowed);
    assert.equal(verdict.code, 'price-unknown');
    assert.match(verdict.message, /price of new \(provider-a\) is not known/);
    const session = { spender, caps: undefined };
    assert.match(
      (await checkMoney(ctx(), prices, { ...session, model: unknown.model }))?.message ?? '',
      /price of new/,
    );
    assert.equal(await checkMoney(ctx(), prices, { ...session, model: modelA }), null);
    await setCaps({ monthlyUsd: '0' });
    const reached = await checkMoney(ctx(), prices, { ...session, model: modelA });
    assert.equal(reached?.refusal?.cap, 'monthlyUsd');
    assert.deepEqual(reached?.refusal?.resetsAt, new Date('2026-04-01T00:00:00Z'));
    await setCaps({});
    assert.equal(await checkMoney(ctx(), prices, { ...session, model: unknown.model }), null);
  });

  test('what a provider tells is the cost; what it did not tell comes from what it told before', async () => {
    await setCaps({ monthlyUsd: '100' });
    const model = { ...modelC, id: `v/${randomUUID()}` };
    const call = intent({ model, models: [model.id] });
    assert.equal((await money.authorize(call, signal)).allowed, true);
    const second = money.authorize(intent({ model, models: [model.id] }), AbortSignal.timeout(200));
    await assert.rejects(second, /abort|timeout/i, 'of a model without known costs one call at a time');
    await money.settle(call, { model: model.id, usage: usage({ inputTokens: 100, reportedUsd: '0.5' }) });
    const cut = intent({ model, models: [model.id] });
    assert.equal((await money.authorize(cut, signal)).allowed, true);
    await money.settle(cut, { model: model.id, usage: usage({ inputTokens: 10, estimated: true }) });
    assert.equal((await sum()).costUsd, '0.55');
  });

  test('a session that cuts every answer before its cost is told is stopped', async () => {
    await setCaps({ monthlyUsd: '100' });
    const model = { ...modelC, id: `v/${randomUUID()}` };
    const cut = async () => {
      const call = intent({ model, models: [model.id] });
      const verdict = await money.authorize(call, signal);
      if (!verdict.allowed) return verdict.code;
      return money.settle(call, { model: model.id, usage: usage({ inputTokens: 10, estimated: true }) });
    };
    assert.deepEqual([await cut(), await cut(), await cut(), await cut()], [null, null, null, 'cost-unknown']);
    assert.equal((await sum()).unpricedCalls, 3);
  });

  test('what a dead host left in flight is entered as an estimate, once', async () => {
    const call = intent();
    await money.authorize(call, signal);
    await money.takeOver(randomUUID());
    assert.equal((await sum()).calls, 0, 'another session does not take it');
    await Promise.all([money.takeOver(spender.sessionId), money.takeOver(spender.sessionId)]);
    // The dead host was not so dead.
    await money.settle(call, { model: 'm', usage: usage({ inputTokens: 5 }) });
    const { calls, inputTokens, costUsd } = await sum();
    assert.deepEqual({ calls, inputTokens, costUsd }, { calls: 1, inputTokens: 1_000, costUsd: '0.001' });
  });

  test('without caps a call is two small statements before it is sent', async () => {
    const from = t.db.statements();
    await money.authorize(intent(), signal);
    assert.equal(t.db.statements() - from, 2);
  });
});
