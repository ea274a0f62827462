import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { databaseUnavailable, openDatabase } from '../../adapters/store/store.ts';
import { listCalls } from '../../adapters/store/outbox/calls.ts';
import { startTestDaemon, type TestDaemon } from '../../base/testkit/daemon.ts';
import { silent } from '../../base/testkit/postgres.ts';
import { Fault } from '../../domain/fault.ts';
import type { Json } from '../../domain/json.ts';
import { OutcomeUnknown, outsideFault } from '../../domain/outside.ts';
import type { FlowContext, OutboxPorts } from '../context.ts';
import { limitReached, performRead, performWrite, resolveAbandoned, takeSlot, type Write } from './outbox.ts';

describe('writes to the outside', () => {
  let daemon: TestDaemon;
  let ctx: FlowContext;
  let project: { id: string; orgId: string };
  let sessionId: string;
  let connectionId: string;
  /** What the provider has, by the key that a step planted. */
  const there = new Map<string, number>();
  let looks = 0;
  /** Looks that the database breaks off. */
  let broken = 0;
  before(async () => {
    daemon = await startTestDaemon();
    ctx = daemon.ctx;
    const readers = ctx.outbox?.readers as { [provider: string]: OutboxPorts['readers'][string] };
    readers['toy'] = async (_, { probe }) => {
      looks += 1;
      broken -= 1;
      if (broken >= 0) throw databaseUnavailable();
      const at = there.get(String(probe['key']));
      return at === undefined ? { found: false } : { found: true, answer: { id: at }, url: `https://toy/${at}` };
    };
    const files = [
      {
        path: '.svc/agents/a.yaml',
        content: JSON.stringify({
          name: 'a',
          harness: 'harness-a',
          environment: { name: 'base', image: { kind: 'preset', name: 'base' } },
        }),
      },
    ];
    await daemon.api('POST', 'P/apply', { files });
    sessionId = String((await daemon.api('POST', 'P/agents/a/sessions', { message: 'go' })).body['id']);
    const { rows } = await ctx.db.query<{ id: string; orgId: string }>(
      'select id, org_id as "orgId" from svc.projects',
    );
    project = rows[0] ?? assert.fail();
    const made = await daemon.api('POST', 'P/connections', {
      provider: 'codehost',
      name: 'code',
      credentials: { webhookSecret: 'a-secret-of-the-hook' },
    });
    connectionId = String(made.body['id']);
  });
  after(() => daemon.stop());

  const write = (send: (key: string) => Promise<Json>, more: Partial<Write> = {}): Write => ({
    project,
    sessionId,
    provider: 'toy',
    connectionId,
    alias: 'toy',
    tool: 'put',
    actor: { kind: 'session', id: sessionId, name: 'a' },
    input: { a: 1 },
    run: async (step, id) => ({ answer: await step({ probe: { key: id }, last: true }, () => send(id)) }),
    ...more,
  });
  const arrives = async (key: string): Promise<Json> => {
    there.set(key, there.size + 1);
    return { id: there.size };
  };
  const lost = async (key: string): Promise<never> => {
    await arrives(key);
    throw new OutcomeUnknown('the answer was lost');
  };
  const never = async (): Promise<never> => {
    throw new OutcomeUnknown('a time-out');
  };
  const newest = async () =>
    (await listCalls(ctx.db, { projectId: project.id, sessionId, before: undefined, limit: 1 }))[0] ?? assert.fail();
  const failsWith = (code: string) => (error: unknown) => error instanceof Fault && error.code === code;

  it('stands as a row, in the list of the session and in the audit', async () => {
    const answer = await performWrite(ctx, write(arrives));
    await performRead(ctx, { ...write(arrives), tool: 'get' }, async () => 1);
    const { body } = await daemon.api('GET', `P/sessions/${sessionId}/calls`);
    const [read, wrote] = body['items'] as unknown as Record<string, unknown>[];
    assert.deepEqual([read?.['tool'], read?.['write'], read?.['status']], ['get', false, 'done']);
    assert.deepEqual([wrote?.['tool'], wrote?.['write'], wrote?.['status']], ['put', true, 'done']);
    assert.deepEqual(answer, { id: there.size });
    const audit = await daemon.api('GET', 'P/audit?limit=5');
    const entries = audit.body['items'] as unknown as { action: string; subject: { name: string } }[];
    assert.ok(entries.some((one) => one.action === 'call.write' && one.subject.name === wrote?.['id']));
    assert.equal((await daemon.api('GET', `P/sessions/${randomUUID()}/calls`)).status, 404);
    await performWrite(ctx, write(arrives, { sessionId: null, actor: { kind: 'system', id: null, name: 'plans' } }));
    const own = await daemon.api('GET', 'P/calls');
    assert.deepEqual(
      (own.body['items'] as unknown as { session: null }[]).map((one) => one.session),
      [null],
    );
  });

  it('is done also where its answer or what it aims at holds what the database cannot keep', async () => {
    const [odd, kept] = ['a\0b\ud83d', 'a\ufffdb\ufffd'];
    const answer = await performWrite(
      ctx,
      write(arrives, {
        run: async (step, id) => {
          const made = await step({ probe: { key: id, aim: odd }, last: true }, () => arrives(id));
          return { answer: { made, name: odd }, url: `https://toy/${odd}` };
        },
      }),
    );
    // As a repeat would be answered.
    assert.deepEqual(answer, { made: { id: there.size }, name: kept });
    const { status, url } = await newest();
    assert.deepEqual([status, url], ['done', `https://toy/${kept}`]);
  });

  it('of calls under one key one is sent, the others wait for its answer; another input is a conflict', async () => {
    const before = there.size;
    const slow = async (key: string): Promise<Json> => {
      await sleep(300);
      return arrives(key);
    };
    const calls = [1, 2, 3].map(() => performWrite(ctx, write(slow, { idempotencyKey: 'one' })));
    const answers = await Promise.all(calls);
    assert.equal(there.size, before + 1);
    assert.deepEqual(new Set(answers.map((one) => JSON.stringify(one))).size, 1);
    const other = write(arrives, { idempotencyKey: 'one', input: { a: 2 } });
    await assert.rejects(performWrite(ctx, other), failsWith('idempotency-conflict'));
  });

  it('a refused write frees its key', async () => {
    const refuse = async (): Promise<never> => {
      throw outsideFault('refused', 'title: missing');
    };
    await assert.rejects(performWrite(ctx, write(refuse, { idempotencyKey: 'two' })), failsWith('refused'));
    assert.equal((await newest()).status, 'refused');
    assert.deepEqual(await performWrite(ctx, write(arrives, { idempotencyKey: 'two' })), { id: there.size });
  });

  it('what was sent is not called refused because the database broke off behind it; its key is not free', async () => {
    const before = there.size;
    const broken = (more: Partial<Write>): Write =>
      write(arrives, {
        run: async (step, id) => {
          await step({ probe: { key: id }, last: true }, () => arrives(id));
          // Such as the note of whose message it is.
          throw databaseUnavailable();
        },
        ...more,
      });
    // Who has no key is not asked to try again: that would be a second call.
    await assert.rejects(performWrite(ctx, broken({})), failsWith('outcome-unknown'));
    await assert.rejects(performWrite(ctx, broken({ idempotencyKey: 'four' })), failsWith('unavailable'));
    const row = await newest();
    assert.equal(row.status, 'sending');
    // As if the time of both were over.
    await ctx.db.query(`update svc.calls set lease_until = now() - interval '1 second' where status = 'sending'`);
    assert.deepEqual(await performWrite(ctx, write(arrives, { idempotencyKey: 'four' })), { id: before + 2 });
    assert.equal(there.size, before + 2);
    // Of what was never handed over that is said at once, and its key is free.
    const unsent = write(arrives, { idempotencyKey: 'five', run: () => Promise.reject(databaseUnavailable()) });
    await assert.rejects(performWrite(ctx, unsent), failsWith('unavailable'));
    assert.equal((await newest()).status, 'refused');
  });

  it('a lost answer is looked for once: what is found is done', async () => {
    const seen = looks;
    assert.deepEqual(await performWrite(ctx, write(lost)), { id: there.size });
    const row = await newest();
    assert.deepEqual([row.status, looks - seen], ['done', 1]);
  });

  it('a look that the database broke off is none: it is begun anew, and what was done is told as done', async () => {
    broken = 2;
    assert.deepEqual(await performWrite(ctx, write(lost, { idempotencyKey: 'six' })), { id: there.size });
    assert.equal((await newest()).status, 'done');
    await assert.rejects(performWrite(ctx, write(never, { idempotencyKey: 'seven' })), failsWith('outcome-unknown'));
    broken = 1;
    const again = write(never, { idempotencyKey: 'seven' });
    await assert.rejects(performWrite(ctx, again), failsWith('unavailable'), 'nobody has looked');
    await assert.rejects(performWrite(ctx, again), failsWith('outcome-unknown'));
  });

  it('what is not found is outcome-unknown; its repeat looks again and never writes', async () => {
    const of = write(never, { idempotencyKey: 'three' });
    await assert.rejects(performWrite(ctx, of), failsWith('outcome-unknown'));
    const row = await newest();
    assert.equal(row.status, 'unknown');
    const seen = looks;
    await assert.rejects(performWrite(ctx, of), failsWith('outcome-unknown'));
    assert.equal(looks, seen + 1);
    await arrives(row.id);
    const sent = there.size;
    assert.deepEqual(await performWrite(ctx, write(arrives, { idempotencyKey: 'three' })), { id: sent });
    assert.equal(there.size, sent);
    assert.equal((await newest()).status, 'done');
  });

  it('rows of a daemon that is gone end: what was not handed over as not-sent, any other by looking once', async () => {
    const row = async (handed: boolean, probe: object | null): Promise<string> => {
      const id = randomUUID();
      await ctx.db.query(
        `insert into svc.calls (id, project_id, session_id, provider, alias, tool, write, status, created_at, probe,
             handed_at, daemon_id, lease_until)
           values ($1::uuid, $2::uuid, null, 'toy', 'toy', 'put', true, 'sending', now() - interval '1 hour', $3::jsonb,
             case when $4::boolean then now() end, $5::uuid, now() + interval '1 hour')`,
        [id, project.id, probe === null ? null : JSON.stringify(probe), handed, randomUUID()],
      );
      return id;
    };
    there.set('found', 7);
    const ids = [
      await row(false, null),
      await row(true, { key: 'found', last: true }),
      await row(true, { key: 'found', last: false }),
      await row(true, { key: 'not found', last: true }),
    ];
    for (let sending = 1; sending > 0; ) {
      await sleep(50);
      sending = (await ctx.db.query(`select from svc.calls where status = 'sending'`)).rowCount;
    }
    const { rows } = await ctx.db.query<{ id: string; status: string; code: string | null; url: string | null }>(
      'select id, status, code, url from svc.calls where id = any($1::uuid[])',
      [ids],
    );
    const of = new Map(rows.map(({ id, ...rest }) => [id, rest]));
    assert.deepEqual(
      ids.map((id) => of.get(id)),
      [
        { status: 'refused', code: 'not-sent', url: null },
        { status: 'done', code: null, url: 'https://toy/7' },
        { status: 'unknown', code: 'outcome-unknown', url: null },
        { status: 'unknown', code: 'outcome-unknown', url: null },
      ],
    );
  });

  it('that is still under way stays its daemon’s, though it takes longer than a lease', async (t) => {
    t.mock.timers.enable({ apis: ['setInterval'] });
    const handed = Promise.withResolvers<void>();
    const over = Promise.withResolvers<void>();
    const sent = performWrite(
      ctx,
      write(async (key) => {
        handed.resolve();
        await over.promise;
        return arrives(key);
      }),
    );
    await handed.promise;
    // A lease is all but over, as behind most of a large push.
    await ctx.db.query(`update svc.calls set lease_until = now() + interval '1 second' where status = 'sending'`);
    t.mock.timers.tick(30_000);
    await sleep(1_500);
    await resolveAbandoned(ctx);
    over.resolve();
    assert.deepEqual(await sent, { id: there.size });
    assert.equal((await newest()).status, 'done');
  });
});

describe('limits of a provider', () => {
  let daemon: TestDaemon;
  let connectionId: string;
  before(async () => {
    daemon = await startTestDaemon();
    const made = await daemon.api('POST', 'P/connections', {
      provider: 'codehost',
      name: 'code',
      credentials: { webhookSecret: 'a-secret-of-the-hook' },
    });
    connectionId = String(made.body['id']);
  });
  after(() => daemon.stop());

  it('a limit of one resource blocks that resource until its time, and says how long that is', async () => {
    const { ctx } = daemon;
    const told = await limitReached(ctx, { connectionId, resource: 'search', seconds: 90 });
    assert.match(told.message, /; retry after 90 seconds$/);
    await takeSlot(ctx, { connectionId, resources: ['core'] });
    await assert.rejects(
      takeSlot(ctx, { connectionId, resources: ['search', 'core'] }),
      /retry after (8\d|90) seconds$/,
    );
    const begun = ctx.runtime.now().getTime();
    await limitReached(ctx, { connectionId, resource: 'core', seconds: 1 });
    await takeSlot(ctx, { connectionId, resources: ['core'] });
    assert.ok(ctx.runtime.now().getTime() - begun >= 900);
    const first = await limitReached(ctx, { connectionId, resource: 'graphql', seconds: undefined });
    assert.match(first.message, /retry after 60 seconds$/);
    const second = await limitReached(ctx, { connectionId, resource: 'graphql', seconds: undefined });
    assert.match(second.message, /retry after 120 seconds$/);
  });

  it('is waited for no longer than half a minute, also where the clock is set back meanwhile', async () => {
    const { ctx } = daemon;
    let wallMs = Date.now();
    const now = (): Date => new Date((wallMs -= 3_600_000));
    await limitReached(ctx, { connectionId, resource: 'contents', seconds: 45 });
    const slot = takeSlot({ ...ctx, runtime: { ...ctx.runtime, now } }, { connectionId, resources: ['contents'] });
    const waits = sleep(20_000, undefined, { ref: false }).then(() => assert.fail('it waits'));
    await assert.rejects(Promise.race([slot, waits]), /retry after \d+ seconds$/);
    waits.catch(() => undefined);
  });

  it('holds for every daemon: writes of all go out one after the other, and a limit that one meets stops the others', async () => {
    const { ctx } = daemon;
    const db = openDatabase({ url: daemon.database.url, log: silent });
    const other = { ...ctx, db, daemonId: randomUUID() };
    const times: number[] = [];
    const go = async (of: FlowContext): Promise<void> => {
      await takeSlot(of, { connectionId, resources: ['write'], spacingMs: 200 });
      times.push(performance.now() - begun);
    };
    const begun = performance.now();
    await Promise.all([go(ctx), go(other), go(ctx), go(other)]);
    // Each may be late on its own, and none is early.
    for (const [index, ms] of times.toSorted((a, b) => a - b).entries())
      assert.ok(ms >= index * 200 - 20, String(times));
    // What the provider says of writes to one of them.
    await limitReached(ctx, { connectionId, resource: 'write', seconds: 90 });
    await assert.rejects(go(other), /retry after (8\d|90) seconds$/);
    await takeSlot(other, { connectionId, resources: ['actions'] });
    await db.close();
  });
});
