import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, beforeEach, describe, it } from 'node:test';
import { createTestDatabase, insertProject, type TestDatabase } from '../../../base/testkit/postgres.ts';
import {
  abandonedCalls,
  currentCaps,
  dearestToken,
  dropCall,
  type LedgerEntry,
  openCall,
  recordCall,
  spendings,
  usageOf,
} from './ledger.ts';

describe('the ledger', () => {
  let t: TestDatabase;
  const projectId = randomUUID();
  let spender: { projectId: string; agentId: string; agentName: string; sessionId: string };
  before(async () => {
    t = await createTestDatabase();
    await insertProject(t.db, projectId);
  });
  beforeEach(() => {
    spender = { projectId, agentId: randomUUID(), agentName: 'a', sessionId: randomUUID() };
  });
  after(() => t.close());

  const entry = (changes: Partial<LedgerEntry> = {}): LedgerEntry => ({
    ...spender,
    requestId: randomUUID(),
    at: new Date('2026-03-15T12:00:00Z'),
    provider: 'provider-a',
    model: 'm',
    inputTokens: 10,
    outputTokens: 5,
    cacheReadTokens: 3,
    cacheWriteTokens: 2,
    costUsd: '0.000000000000000001',
    estimated: false,
    priceDate: '2026-01-01',
    ...changes,
  });
  const open = (changes: { sessionId?: string; startedAt?: Date; reservedUsd?: string | null } = {}) => ({
    ...spender,
    requestId: randomUUID(),
    startedAt: new Date('2026-03-15T12:00:00Z'),
    provider: 'provider-a' as const,
    model: 'm',
    inputTokens: 100,
    reservedUsd: '0.5',
    ...changes,
  });

  it('loses no update of parallel calls, to the last decimal', async () => {
    const entries = Array.from({ length: 60 }, () => entry());
    await Promise.all(entries.map((one) => recordCall(t.db, one)));
    const sums = {
      calls: 60,
      unpricedCalls: 0,
      inputTokens: 600,
      outputTokens: 300,
      cacheReadTokens: 180,
      cacheWriteTokens: 120,
      costUsd: '0.000000000000000060',
    };
    assert.deepEqual(await usageOf(t.db, { sessionId: spender.sessionId }), sums);
    assert.deepEqual(await usageOf(t.db, { agentId: spender.agentId }), sums);
  });

  it('counts a request once, however often and at whatever time it is recorded', async () => {
    const one = entry({ costUsd: '1' });
    const counted = await Promise.all(Array.from({ length: 8 }, () => recordCall(t.db, one)));
    assert.equal(counted.filter(Boolean).length, 1);
    assert.equal(await recordCall(t.db, { ...one, at: new Date('2026-03-16T00:00:00Z'), costUsd: '7' }), false);
    assert.equal((await usageOf(t.db, { agentId: spender.agentId })).costUsd, '1');
  });

  it('keeps UTC days and months apart, and sessions', async () => {
    const at = (text: string, costUsd: string, sessionId = spender.sessionId) =>
      recordCall(t.db, entry({ at: new Date(text), costUsd, sessionId }));
    await at('2026-02-28T23:59:59.999Z', '1');
    await at('2026-03-01T00:00:00Z', '2');
    await at('2026-03-14T23:59:59.999Z', '4', randomUUID());
    await at('2026-03-15T00:00:00Z', '8');
    await at('2026-03-16T00:00:00Z', '16');
    const spent = await spendings(t.db, spender, new Date('2026-03-15T23:59:59Z'));
    assert.deepEqual(spent, {
      session: '27',
      day: '8',
      month: '14',
      unpricedCalls: 0,
      reservedSession: '0',
      reserved: '0',
      unreservedCalls: 0,
    });
    assert.equal((await usageOf(t.db, { agentId: spender.agentId }, '2026-03-15')).costUsd, '24');
  });

  it('is read by one statement', async () => {
    const from = t.db.statements();
    await spendings(t.db, spender, new Date('2026-03-15T12:00:00Z'));
    assert.equal(t.db.statements() - from, 1);
  });

  it('knows which costs are not known', async () => {
    await recordCall(t.db, entry({ costUsd: null, priceDate: null, estimated: true }));
    await recordCall(t.db, entry({ costUsd: '2', priceDate: null }));
    const { unpricedCalls, costUsd } = await usageOf(t.db, { sessionId: spender.sessionId });
    assert.deepEqual({ unpricedCalls, costUsd }, { unpricedCalls: 1, costUsd: '2' });
    assert.equal((await spendings(t.db, spender, new Date('2026-03-15'))).unpricedCalls, 1);
  });

  it('tells the dearest token that a provider spoke of', async () => {
    const model = randomUUID();
    const told = { provider: 'provider-c', model, priceDate: null } as const;
    assert.equal(await dearestToken(t.db, 'provider-c', model), null);
    await recordCall(t.db, entry({ ...told, costUsd: '0.2' }));
    await recordCall(t.db, entry({ ...told, costUsd: '0.4' }));
    await recordCall(t.db, entry({ ...told, costUsd: '100', estimated: true }));
    await recordCall(t.db, entry({ ...told, costUsd: null, estimated: true }));
    assert.equal(await dearestToken(t.db, 'provider-c', model), '0.020000000000000000');
  });

  it('holds reservations until a call ends, or is an hour old', async () => {
    const now = new Date('2026-03-15T12:30:00Z');
    const [first, second, other] = [open(), open(), open({ sessionId: randomUUID() })];
    await openCall(t.db, open({ sessionId: other.sessionId, reservedUsd: null }));
    assert.equal((await spendings(t.db, spender, now)).unreservedCalls, 1);
    for (const call of [first, second, other, open({ startedAt: new Date('2026-03-15T11:29:59Z') })]) {
      await openCall(t.db, call);
    }
    const held = async () => {
      const { reserved, reservedSession } = await spendings(t.db, spender, now);
      return [reserved, reservedSession].map(Number);
    };
    assert.deepEqual(await held(), [1.5, 1]);
    await recordCall(t.db, entry({ requestId: first.requestId }));
    assert.deepEqual(await held(), [1, 0.5]);
    await dropCall(t.db, second.requestId);
    assert.deepEqual(await held(), [0.5, 0]);
    const left = await abandonedCalls(t.db, spender.sessionId, now);
    assert.equal(left.length, 1, 'that of the other session is in flight');
    assert.equal((await abandonedCalls(t.db, other.sessionId, now)).length, 3);
    assert.deepEqual(
      (await abandonedCalls(t.db, other.sessionId, now)).filter((one) => one.requestId === other.requestId),
      [other],
    );
  });

  it('cannot be rewritten, and goes with its project', async () => {
    const one = entry();
    await recordCall(t.db, one);
    await assert.rejects(
      t.db.query('update svc.usage_ledger set cost_usd = 0 where request_id = $1::uuid', [one.requestId]),
      /append-only/,
    );
    for (const bad of [{ inputTokens: -1 }, { costUsd: '-1' }, { costUsd: 'NaN' }, { costUsd: 'Infinity' }]) {
      await assert.rejects(recordCall(t.db, entry(bad)), /violates check constraint/);
    }
  });

  it('reads the caps that the agent has now', async () => {
    assert.equal(await currentCaps(t.db, spender.agentId), undefined);
    const insert = (spec: object) =>
      t.db.query(
        `insert into svc.agents (id, project_id, name, revision, spec, spec_hash, source)
         values ($1::uuid, $2::uuid, $3::text, 1, $4::jsonb, 'h', '{}')
         on conflict (id) do update set spec = excluded.spec`,
        [spender.agentId, projectId, spender.agentId, JSON.stringify(spec)],
      );
    await insert({});
    assert.deepEqual(await currentCaps(t.db, spender.agentId), {});
    await insert({ spendCaps: { dailyUsd: '2.5' } });
    assert.deepEqual(await currentCaps(t.db, spender.agentId), { dailyUsd: '2.5' });
  });

  it('sums a project over its agents, and goes with it', async () => {
    const sums = await usageOf(t.db, { projectId });
    assert.ok(sums.calls > 60);
    assert.equal((await usageOf(t.db, { projectId: randomUUID() })).costUsd, '0');
    await t.db.query('delete from svc.projects where id = $1::uuid', [projectId]);
    assert.equal((await usageOf(t.db, { projectId })).calls, 0);
    assert.equal((await t.db.query('select 1 from svc.usage_ledger')).rowCount, 0);
  });
});
