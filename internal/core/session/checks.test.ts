import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { type SessionCheck, type CheckSignal, createCheck, nextDeadlineOf, signalCheck } from './session.ts';

const spec = {
  beginTimeout: { seconds: 10, conclusion: 'skipped' },
  completeTimeout: { seconds: 60, conclusion: 'failure' },
} as const;
const queued = createCheck(spec, 'abc', 1_000, null);
const begin: CheckSignal = { kind: 'begin' };
const success: CheckSignal = { kind: 'success', title: 'Fine', summary: 'All good' };
const failure: CheckSignal = { kind: 'failure', title: 'Bad', summary: 'Not good' };
const tick: CheckSignal = { kind: 'tick' };
const supersede: CheckSignal = { kind: 'supersede' };
const running = signalCheck(spec, queued, begin, 2_000).check;
const concluded = signalCheck(spec, running, success, 3_000).check;
const aside = signalCheck(spec, concluded, supersede, 4_000).check;

test('a check is queued on the head, with the deadline to begin', () => {
  assert.deepEqual([queued.state, queued.cycle, queued.headSha, nextDeadlineOf(queued)], ['queued', 1, 'abc', 11_000]);
  assert.equal(nextDeadlineOf(createCheck({}, 'abc', 1_000, null)), null);
});

test('begin starts the deadline to complete; success and failure conclude with title and summary', () => {
  assert.deepEqual([running.state, nextDeadlineOf(running)], ['in_progress', 62_000]);
  for (const signal of [success, failure]) {
    const { check, changed, refused } = signalCheck(spec, running, signal, 3_000);
    const { kind, title, summary } = signal as typeof success & { title: string; summary: string };
    assert.deepEqual(check, {
      cycle: 1,
      headSha: 'abc',
      state: 'concluded',
      conclusion: kind,
      title,
      summary,
      timedOut: false,
    });
    assert.deepEqual([changed, refused, nextDeadlineOf(check)], [true, null, null]);
  }
});

test('deadlines conclude at their millisecond with the configured conclusion and the titles of the spec', () => {
  assert.equal(signalCheck(spec, queued, tick, 10_999).changed, false);
  const late = signalCheck(spec, queued, tick, 11_000).check;
  assert.deepEqual(late.state === 'concluded' && [late.conclusion, late.title, late.summary, late.timedOut], [
    'skipped',
    'Check begin timed out',
    'Nobody began it within 10 s.',
    true,
  ]);
  assert.equal(signalCheck(spec, running, tick, 61_999).changed, false);
  const never = signalCheck(spec, running, tick, 62_000).check;
  assert.deepEqual(never.state === 'concluded' && [never.conclusion, never.title, never.summary, never.timedOut], [
    'failure',
    'Check completion timed out',
    'It was not completed within 60 s.',
    true,
  ]);
});

test('a call behind its deadline is refused, and the check is concluded by the clock', () => {
  for (const [check, signal, title] of [
    [queued, begin, 'Check begin timed out'],
    [running, success, 'Check completion timed out'],
  ] as const) {
    const result = signalCheck(spec, check, signal, 100_000);
    assert.deepEqual([result.changed, result.refused], [true, 'The check is concluded already.']);
    assert.equal(result.check.state === 'concluded' && result.check.title, title);
  }
});

test('every other cell is refused with the reason and changes nothing', () => {
  for (const [check, signals, reason] of [
    [queued, [success, failure], /call checks.begin first/],
    [running, [begin], /has begun already/],
    [concluded, [begin, success, failure], /concluded already/],
    [aside, [begin, success, failure], /next cycle/],
  ] as const) {
    for (const signal of signals) {
      const { refused, ...rest } = signalCheck(spec, check, signal, 5_000);
      assert.match(refused ?? '', reason);
      assert.deepEqual(rest, { check, changed: false });
    }
  }
});

test('a new qualifying event supersedes any cycle and queues the next on its head', () => {
  for (const check of [queued, running, concluded]) {
    assert.deepEqual(signalCheck(spec, check, supersede, 200_000), {
      check: { cycle: 1, headSha: 'abc', state: 'superseded' },
      changed: true,
      refused: null,
    });
    const next = createCheck(spec, 'def', 5_000, check);
    assert.deepEqual([next.cycle, next.headSha, next.state, nextDeadlineOf(next)], [2, 'def', 'queued', 15_000]);
  }
  assert.equal(signalCheck(spec, aside, supersede, 5_000).changed, false);
});

test('whatever is signalled whenever, a check only moves on, and what is refused is what stands', () => {
  const order: SessionCheck['state'][] = ['queued', 'in_progress', 'concluded', 'superseded'];
  const steps = fc.array(fc.tuple(fc.constantFrom(begin, success, failure, tick, supersede), fc.nat({ max: 40_000 })), {
    maxLength: 12,
  });
  const deadlines = fc.constantFrom<Partial<typeof spec>>(spec, {}, { beginTimeout: spec.beginTimeout });
  fc.assert(
    fc.property(deadlines, steps, (limits, signals) => {
      let check = createCheck(limits, 'abc', 0, null);
      let nowMs = 0;
      for (const [signal, passed] of signals) {
        nowMs += passed;
        const result = signalCheck(limits, check, signal, nowMs);
        assert.ok(order.indexOf(result.check.state) >= order.indexOf(check.state));
        assert.equal(result.changed, result.check !== check);
        assert.ok((nextDeadlineOf(result.check) ?? Number.POSITIVE_INFINITY) > nowMs);
        check = result.check;
      }
    }),
    { numRuns: 1_000 },
  );
});
