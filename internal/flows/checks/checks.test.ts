import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, beforeEach, test } from 'node:test';
import { beginChecks, type CheckRow, listChecks, type NewCycle } from '../../adapters/store/sessions/checks.ts';
import { listAudit } from '../../adapters/store/tenancy/audit.ts';
import { Fault } from '../../domain/fault.ts';
import type { CheckPort, CheckReport, Reported } from '../ports.ts';
import { type Bench, createBench, joinBench } from '../sync/apply-testkit.ts';
import { beginCheck, concludeCheck, reportChecks, sweepChecks } from './checks.ts';

let bench: Bench;
before(async () => {
  bench = await createBench();
});
after(() => bench.close());

const running = new AbortController().signal;
const start = Date.parse('2026-11-21T12:00:00Z');
const at = (seconds: number): Date => new Date(start + seconds * 1_000);
const setNow = (seconds: number): void => bench.setNow(at(seconds).toISOString());

const lint = {
  name: 'lint',
  displayName: 'Lint',
  description: 'Reads',
  beginTimeout: { seconds: 10, conclusion: 'skipped' },
  completeTimeout: { seconds: 60, conclusion: 'failure' },
} as const;
const unit = { name: 'unit', displayName: 'Unit', description: 'Runs' };

beforeEach(async () => {
  setNow(0);
  await bench.db.query('truncate svc.checks');
  await live(bench);
});

const live = ({ ctx }: Bench): Promise<unknown> =>
  bench.db.query(
    `insert into svc.daemons (id, roles, host, pid) values ($1::uuid, '{}', 'here', 1) on conflict (id) do nothing`,
    [ctx.daemonId],
  );
const bury = (): Promise<unknown> => bench.db.query('delete from svc.daemons');
/** Lets so many seconds of the database pass for what is to be told. */
const pass = (seconds: number): Promise<unknown> =>
  bench.db.query(
    `update svc.checks set report_after = report_after - make_interval(secs => $1::int),
       reporting_until = reporting_until - make_interval(secs => $1::int)`,
    [seconds],
  );

const pull = (more: Partial<NewCycle> = {}): NewCycle => ({
  projectId: bench.projectId,
  agentId: '11111111-1111-4111-8111-111111111111',
  agent: 'reviewer',
  ordinal: 0,
  eventId: randomUUID(),
  connectionId: null,
  targetKey: 'acme/site#7',
  headSha: 'abc',
  sessionId: session,
  checks: [lint, unit],
  ...more,
});
const queue = (...cycles: readonly NewCycle[]): Promise<void> =>
  bench.db.tx((tx) => beginChecks(tx, bench.ctx.runtime.now(), cycles));
const session = '22222222-2222-4222-8222-222222222222';
const concluded = { conclusion: 'success', title: 'Fine', summary: 'All good' } as const;

const shown = (row: CheckRow) => `${row.name} ${row.cycle} ${row.state} ${row.headSha}`;
async function all(): Promise<string[]> {
  const { rows } = await bench.db.query<CheckRow>(`select name, cycle, state, head_sha as "headSha" from svc.checks`);
  // Cycles of several agents and pull requests share a name and a number; only the text orders them.
  return rows.map(shown).sort();
}
const fault = (code: string, text?: RegExp) => (error: unknown) =>
  error instanceof Fault && error.code === code && (text === undefined || text.test(error.message));

test('a qualifying event queues each declared check on the head, with the deadline to begin', async () => {
  await queue(pull());
  const rows = await listChecks(bench.db, session);
  assert.deepEqual(rows.map(shown), ['lint 1 queued abc', 'unit 1 queued abc']);
  assert.deepEqual(
    rows.map((row) => row.deadlineAt),
    [at(10), null],
  );
  assert.deepEqual(rows[0]?.spec, lint);
});

test('the next event begins the next cycle and supersedes the one before, whatever it had come to', async () => {
  await queue(pull());
  await beginCheck(bench.ctx, session, 'lint');
  await beginCheck(bench.ctx, session, 'unit');
  await concludeCheck(bench.ctx, session, 'unit', concluded);
  const successor = randomUUID();
  await queue(pull({ ordinal: 1, headSha: 'def', sessionId: successor }));
  assert.deepEqual(await all(), [
    'lint 1 superseded abc',
    'lint 2 queued def',
    'unit 1 superseded abc',
    'unit 2 queued def',
  ]);
  await assert.rejects(concludeCheck(bench.ctx, session, 'lint', concluded), fault('check-refused', /next cycle/));
  assert.equal((await beginCheck(bench.ctx, successor, 'lint')).state, 'in_progress');
});

test('an event begins its cycle once; of several in one batch the last is current; other agents and pull requests stay', async () => {
  const [first, second] = [pull(), pull({ headSha: 'def' })];
  const other = pull({ targetKey: 'acme/site#8', checks: [unit] });
  const stranger = pull({ agentId: randomUUID(), checks: [unit] });
  await queue(first, second, other, stranger);
  await queue(first);
  await queue(second, pull({ checks: [] }));
  assert.deepEqual(await all(), [
    'lint 1 superseded abc',
    'lint 2 queued def',
    'unit 1 queued abc',
    'unit 1 queued abc',
    'unit 1 superseded abc',
    'unit 2 queued def',
  ]);
});

test('a check that its trigger declares no more goes aside with its cycle', async () => {
  await queue(pull());
  await queue(pull({ headSha: 'def', checks: [lint] }));
  assert.deepEqual(await all(), ['lint 1 superseded abc', 'lint 2 queued def', 'unit 1 superseded abc']);
});

test('a session begins, then concludes with title and summary; each step is audited in its name', async () => {
  await queue(pull());
  setNow(5);
  const begun = await beginCheck(bench.ctx, session, 'lint');
  assert.deepEqual([begun.state, begun.deadlineAt], ['in_progress', at(65)]);
  setNow(6);
  const done = await concludeCheck(bench.ctx, session, 'lint', {
    conclusion: 'failure',
    title: 'Two\0\ud800',
    summary: 'found',
  });
  assert.deepEqual([done.state, done.conclusion, done.deadlineAt], ['concluded', 'failure', null]);
  const [row] = await listChecks(bench.db, session);
  assert.deepEqual([row?.title, row?.summary, row?.timedOut], ['Two\uFFFD\uFFFD', 'found', false]);
  const { rows: entries } = await listAudit(bench.db, { orgId: bench.orgId }, { limit: 2, subject: 'lint' });
  assert.deepEqual(
    entries.map((entry) => [entry.action, entry.principalKind, entry.principalId, entry.detail['conclusion']]),
    [
      ['check.concluded', 'session', session, 'failure'],
      ['check.begun', 'session', session, undefined],
    ],
  );
});

test('what cannot be is refused with the reason: an unknown name, a wrong order, an empty title', async () => {
  await queue(pull());
  await assert.rejects(beginCheck(bench.ctx, session, 'lin'), fault('check-not-found', /it has lint, unit/));
  await assert.rejects(beginCheck(bench.ctx, randomUUID(), 'lint'), fault('check-not-found', /it has none/));
  await assert.rejects(concludeCheck(bench.ctx, session, 'lint', concluded), fault('check-refused', /checks.begin/));
  for (const wrong of [{ title: ' ' }, { title: 'x'.repeat(257) }, { summary: '' }, { summary: 'x'.repeat(65_536) }]) {
    assert.throws(
      () => concludeCheck(bench.ctx, session, 'lint', { ...concluded, ...wrong }),
      fault('invalid-check', /1 to/),
    );
  }
  assert.deepEqual(await all(), ['lint 1 queued abc', 'unit 1 queued abc']);
});

test('of pull requests with a check of one name the session reaches each, also once another one is concluded', async () => {
  await queue(pull({ checks: [lint] }), pull({ targetKey: 'acme/site#8', checks: [lint] }));
  const reached = new Set<string>();
  for (let turn = 0; turn < 2; turn += 1) {
    const { targetKey } = await beginCheck(bench.ctx, session, 'lint');
    assert.equal((await concludeCheck(bench.ctx, session, 'lint', concluded)).targetKey, targetKey);
    reached.add(targetKey);
  }
  assert.deepEqual([...reached].sort(), ['acme/site#7', 'acme/site#8']);
  await assert.rejects(beginCheck(bench.ctx, session, 'lint'), fault('check-refused', /concluded already/));
  await queue(pull({ checks: [lint] }), pull({ targetKey: 'acme/site#8', checks: [lint] }));
  await beginCheck(bench.ctx, session, 'lint');
  await beginCheck(bench.ctx, session, 'lint');
  await assert.rejects(beginCheck(bench.ctx, session, 'lint'), fault('check-refused', /begun already/));
});

test('deadlines conclude set-wise with the titles of the spec, in the name of the clock', async () => {
  const pulls = Array.from({ length: 700 }, (_, index) => pull({ targetKey: `acme/site#${index}`, checks: [lint] }));
  await queue(...pulls);
  await queue(pull({ targetKey: 'acme/site#900', sessionId: randomUUID() }));
  const begun = randomUUID();
  await queue(pull({ targetKey: 'acme/site#901', sessionId: begun }));
  await beginCheck(bench.ctx, begun, 'lint');
  setNow(9);
  assert.equal(await sweepChecks(bench.ctx, running), 1_000);
  setNow(9.5);
  assert.equal(await sweepChecks(bench.ctx, running), 500, 'awake at the deadline');
  setNow(10);
  await sweepChecks(bench.ctx, running);
  const count = async (title: string): Promise<unknown> =>
    (
      await bench.db.query<{ n: number; conclusions: string }>(
        `select count(*)::int as n, string_agg(distinct conclusion, ',') as conclusions from svc.checks
          where state = 'concluded' and timed_out and title = $1::text`,
        [title],
      )
    ).rows[0];
  assert.deepEqual(await count('Check begin timed out'), { n: 701, conclusions: 'skipped' });
  assert.deepEqual(await count('Check completion timed out'), { n: 0, conclusions: null });
  setNow(60);
  await sweepChecks(bench.ctx, running);
  assert.deepEqual(await count('Check completion timed out'), { n: 1, conclusions: 'failure' });
  const { rows: entries } = await listAudit(bench.db, { orgId: bench.orgId }, { limit: 1, action: 'check.concluded' });
  assert.deepEqual([entries[0]?.principalName, entries[0]?.detail['timedOut']], ['check-deadlines', true]);
});

test('a late call meets what the deadline has made, also before anybody swept', async () => {
  await queue(pull());
  setNow(11);
  await assert.rejects(beginCheck(bench.ctx, session, 'lint'), fault('check-refused', /concluded already/));
  const [row] = await listChecks(bench.db, session);
  assert.deepEqual([row?.state, row?.title], ['concluded', 'Check begin timed out']);
});

test('of calls at once one is taken; a deadline and a call at once leave one conclusion', async () => {
  for (let round = 0; round < 20; round += 1) {
    setNow(0);
    await bench.db.query('truncate svc.checks');
    await queue(pull());
    const begins = await Promise.allSettled([1, 2, 3, 4].map(() => beginCheck(bench.ctx, session, 'lint')));
    assert.equal(begins.filter((one) => one.status === 'fulfilled').length, 1);
    const other = joinBench(bench);
    other.setNow(at(60).toISOString());
    setNow(59.999);
    const [call] = await Promise.allSettled([
      concludeCheck(bench.ctx, session, 'lint', concluded),
      sweepChecks(other.ctx, running),
      sweepChecks(other.ctx, running),
    ]);
    await sweepChecks(other.ctx, running);
    await other.close();
    const [row] = await listChecks(bench.db, session);
    assert.equal(row?.title, call.status === 'fulfilled' ? 'Fine' : 'Check completion timed out');
    assert.equal(row?.timedOut, call.status === 'rejected');
  }
});

test('events routed at once on one pull request make one current cycle each after the other', async () => {
  const other = joinBench(bench);
  const cycles = Array.from({ length: 16 }, (_, index) => pull({ headSha: `sha${index}` }));
  await Promise.all(
    cycles.map((one, index) =>
      (index % 2 === 0 ? bench : other).db.tx((tx) => beginChecks(tx, bench.ctx.runtime.now(), [one])),
    ),
  );
  await other.close();
  const { rows } = await bench.db.query(
    `select name, count(*)::int as n, max(cycle) as top, count(*) filter (where state = 'queued')::int as current
       from svc.checks group by name order by name`,
  );
  assert.deepEqual(rows, [
    { name: 'lint', n: 16, top: 16, current: 1 },
    { name: 'unit', n: 16, top: 16, current: 1 },
  ]);
});

/** A code host that answers as told, and keeps what it heard. */
function codehost(answer: (report: CheckReport) => Reported | Promise<Reported>): CheckPort & { heard: CheckReport[] } {
  const heard: CheckReport[] = [];
  return {
    heard,
    async report(report) {
      heard.push(report);
      return answer(report);
    },
  };
}

test('every change is told to the code host once, in its latest state, under the id that it gave', async () => {
  const connectionId = randomUUID();
  const port = codehost(() => ({ outcome: 'done', externalId: 'run-1' }));
  await queue(pull({ connectionId, checks: [lint] }), pull({ targetKey: 'acme/site#9', checks: [unit] }));
  await reportChecks(bench.ctx, port);
  await reportChecks(bench.ctx, port);
  assert.deepEqual(
    port.heard.map(({ state, externalId, displayName, headSha }) => [state, externalId, displayName, headSha]),
    [['queued', null, 'Lint', 'abc']],
  );
  await beginCheck(bench.ctx, session, 'lint');
  await concludeCheck(bench.ctx, session, 'lint', concluded);
  await reportChecks(bench.ctx, port);
  const { state, externalId, conclusion, title, summary } = port.heard[1] as CheckReport;
  assert.deepEqual(
    [state, externalId, conclusion, title, summary],
    ['concluded', 'run-1', 'success', 'Fine', 'All good'],
  );
  await queue(pull({ connectionId, headSha: 'def', checks: [lint] }));
  await reportChecks(bench.ctx, port);
  assert.deepEqual(
    port.heard
      .slice(2)
      .map((one) => one.state)
      .sort(),
    ['queued', 'superseded'],
  );
  assert.equal(port.heard.length, 4);
});

test('a change during the call is told as well; a later time is waited for; a failure waits for the next change', async () => {
  const connectionId = randomUUID();
  let answer: Reported = { outcome: 'later', afterMs: 30_000 };
  let meanwhile: (() => Promise<unknown>) | undefined;
  const port = codehost(async () => {
    await meanwhile?.();
    meanwhile = undefined;
    return answer;
  });
  const calm = { ...unit };
  await queue(pull({ connectionId, checks: [calm] }));
  await reportChecks(bench.ctx, port);
  await pass(20);
  // The clock of the daemon says nothing: the next one's may be another.
  setNow(30);
  await reportChecks(bench.ctx, port);
  assert.equal(port.heard.length, 1);
  await pass(10);
  answer = { outcome: 'done', externalId: 'run-2' };
  meanwhile = () => beginCheck(bench.ctx, session, 'unit');
  await reportChecks(bench.ctx, port);
  await reportChecks(bench.ctx, port);
  assert.deepEqual(
    port.heard.map((one) => one.state),
    ['queued', 'queued', 'in_progress'],
  );
  answer = { outcome: 'failed', reason: 'the pull request is gone' };
  await concludeCheck(bench.ctx, session, 'unit', concluded);
  await reportChecks(bench.ctx, port);
  await pass(10_000);
  await reportChecks(bench.ctx, port);
  assert.equal(port.heard.length, 4);
});

test('two daemons tell a change once; one that dies with a claim leaves it to the next, and one that only hangs does after its lease', async () => {
  const cycles = Array.from({ length: 15 }, (_, index) =>
    pull({ connectionId: randomUUID(), targetKey: `acme/site#${index}`, checks: [unit] }),
  );
  await queue(...cycles);
  const port = codehost(() => ({ outcome: 'done', externalId: 'run' }));
  const other = joinBench(bench);
  await live(other);
  await Promise.all([reportChecks(bench.ctx, port), reportChecks(other.ctx, port)]);
  await other.close();
  assert.equal(port.heard.length, 15);
  await queue(pull({ connectionId: randomUUID(), targetKey: 'acme/site#99', checks: [unit] }));
  const dying = codehost(() => {
    throw new Error('its process died');
  });
  await assert.rejects(reportChecks(bench.ctx, dying));
  await reportChecks(bench.ctx, port);
  assert.equal(port.heard.length, 15);
  await pass(61);
  await reportChecks(bench.ctx, port);
  assert.equal(port.heard.length, 16);
  await queue(pull({ connectionId: randomUUID(), targetKey: 'acme/site#100', checks: [unit] }));
  await assert.rejects(reportChecks(bench.ctx, dying));
  await bury();
  const next = joinBench(bench);
  await reportChecks(next.ctx, port);
  await next.close();
  assert.equal(port.heard.length, 17);
});

test('while a check is being told about, its change is told by nobody else: the code host would make it twice', async () => {
  await queue(pull({ connectionId: randomUUID(), checks: [unit] }));
  const second = codehost(() => ({ outcome: 'done', externalId: 'made twice' }));
  const other = joinBench(bench);
  await live(other);
  const first = codehost(async () => {
    await beginCheck(bench.ctx, session, 'unit');
    await reportChecks(other.ctx, second);
    return { outcome: 'done', externalId: 'run-3' };
  });
  await reportChecks(bench.ctx, first);
  assert.equal(second.heard.length, 0);
  await reportChecks(other.ctx, second);
  await other.close();
  assert.deepEqual(
    second.heard.map(({ state, externalId }) => [state, externalId]),
    [['in_progress', 'run-3']],
  );
});
