import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Json } from '../../domain/json.ts';
import { createImpactCounter, type MatchTrigger } from './match.ts';

const trigger = (
  ordinal: number,
  where: MatchTrigger['where'] = {},
  more: Partial<MatchTrigger> = {},
): MatchTrigger => ({
  agent: 'a',
  ordinal,
  event: 'webhook.received',
  scope: 'in',
  where,
  fallback: false,
  ...more,
});
const high = { severity: 'high' };
const low = { severity: 'low' };
const payloads: readonly Json[] = [{ severity: 'high' }, { severity: 'high' }, { severity: 'low' }, {}];

function told(before: readonly MatchTrigger[], after: readonly MatchTrigger[], events = payloads): string[] {
  const counter = createImpactCounter(before, after);
  events.forEach((payload, at) => counter.take(`e${at}`, { key: 'webhook.received', scope: 'in', payload }));
  return counter
    .result()
    .map(
      ({ agent, ordinal, newly, stopped }) =>
        `${agent}#${ordinal} +${newly.count} ${newly.eventIds.join(',')} -${stopped.count} ${stopped.eventIds.join(',')}`,
    );
}

test('what a trigger gains and loses is counted, with a few events named', () => {
  assert.deepEqual(told([trigger(0, high)], [trigger(0, low)]), ['a#0 +1 e2 -2 e0,e1']);
  assert.deepEqual(told([], [trigger(0)]), ['a#0 +4 e0,e1,e2 -0 ']);
  assert.deepEqual(told([trigger(0, high)], []), ['a#0 +0  -2 e0,e1']);
  assert.deepEqual(told([trigger(0, high)], [trigger(0, high)]), []);
});

test('a trigger that another one pushed to a later place is no change', () => {
  assert.deepEqual(told([trigger(0, high)], [trigger(0, low), trigger(1, high)]), ['a#0 +1 e2 -0 ']);
  assert.deepEqual(told([trigger(0, low), trigger(1, high)], [trigger(0, high)]), ['a#0 +0  -1 e2']);
  assert.deepEqual(told([trigger(0, high), trigger(1, high)], [trigger(0, high)]), ['a#1 +0  -2 e0,e1']);
});

test('a fallback of another agent that stands back or comes in is told of', () => {
  const fallback = trigger(0, {}, { agent: 'b', fallback: true });
  assert.deepEqual(told([fallback], [fallback, trigger(0, high)]), ['a#0 +2 e0,e1 -0 ', 'b#0 +0  -2 e0,e1']);
});

test('changes of several triggers stay apart, in their order, under the place that they have afterwards', () => {
  const of = (agent: string, ordinal: number, where: MatchTrigger['where'], fallback = false): MatchTrigger =>
    trigger(ordinal, where, { agent, fallback });
  const [first, second] = [of('b', 0, {}, true), of('c', 0, {}, true)];
  const rows: (readonly [before: MatchTrigger[], after: MatchTrigger[], events: Json[], said: string[]])[] = [
    [[], [of('a', 0, low), of('b', 0, high)], [high, low], ['a#0 +1 e1 -0 ', 'b#0 +1 e0 -0 ']],
    [
      [of('a', 0, high), of('b', 0, low)],
      [of('a', 0, low), of('b', 0, high)],
      [high, low],
      ['a#0 +1 e1 -1 e0', 'b#0 +1 e0 -1 e1'],
    ],
    [[of('a', 0, high), of('a', 1, high)], [of('a', 1, high)], [high], ['a#0 +0  -1 e0']],
    [[first, second], [first, second, of('d', 0, {})], [high], ['b#0 +0  -1 e0', 'c#0 +0  -1 e0', 'd#0 +1 e0 -0 ']],
    [
      [of('a', 0, high), first],
      [of('b', 0, low), of('b', 1, {}, true)],
      [low, high, low],
      ['a#0 +0  -1 e1', 'b#0 +2 e0,e2 -0 ', 'b#1 +1 e1 -2 e0,e2'],
    ],
  ];
  for (const [before, after, events, said] of rows) assert.deepEqual(told(before, after, events), said);
});

test('a trigger keeps to its scope, and both spellings of a key are one', () => {
  assert.deepEqual(told([], [trigger(0, {}, { scope: 'other' })]), []);
  const review = (event: string): MatchTrigger => trigger(0, {}, { event, scope: null });
  const counter = createImpactCounter([], [review('codehost.pull_request_review.submitted')]);
  counter.take('e', { key: 'codehost.review.submitted', scope: null, payload: {} });
  assert.equal(counter.result()[0]?.newly.count, 1);
});
