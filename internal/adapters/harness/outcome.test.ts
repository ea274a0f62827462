import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { classifyTurn, errorOf, failureOfStatus, type TurnAnswer, type TurnFacts, usageOfResponse } from './outcome.ts';

const good: TurnFacts = { active: true, cancelRequested: false };
const silent: TurnFacts = { active: false, cancelRequested: false };
const cancelled: TurnFacts = { active: true, cancelRequested: true };
const upstream = (lastStatus: number, facts = good): TurnFacts => ({ ...facts, evidence: { calls: 2, lastStatus } });

const ended = (stopReason: unknown, more: object = {}): TurnAnswer => ({ response: { stopReason, ...more } });
const failedMeta = (category: string, actions: string[] = [], severity = 'error', title = 'it failed') => ({
  _meta: { jetbrains: { air: { version: 1, sessionFailure: { category, severity, title, actions } } } },
});
const rpc = (code: number, errorKind?: string): TurnAnswer => ({
  error: { code, message: 'no', ...(errorKind !== undefined && { data: { errorKind } }) },
});
const usageTable = { usage: { inputTokens: 3, outputTokens: 4, totalTokens: 7 } };
const zeros = { usage: { inputTokens: 0, outputTokens: 0, totalTokens: 0 } };

/** name, answer, facts, the outcome in short: kind, or kind cause retry?. */
const cases: readonly (readonly [string, TurnAnswer, TurnFacts, string])[] = [
  ['text and an end', ended('end_turn'), good, 'finished'],
  ['tokens and an end', ended('end_turn', usageTable), silent, 'finished'],
  ['the gateway saw a good call', ended('end_turn'), upstream(200, silent), 'finished'],
  ['nothing at all', ended('end_turn'), silent, 'failed silent retry'],
  ['nothing and zeros', ended('end_turn', zeros), silent, 'failed silent retry'],
  [
    'nothing and an evidence of no call',
    ended('end_turn'),
    { ...silent, evidence: { calls: 0 } },
    'failed silent retry',
  ],
  ['a model that failed, told as text', ended('end_turn'), upstream(500), 'failed server retry'],
  ['zero tokens and a model that failed', ended('end_turn', zeros), upstream(529, silent), 'failed overloaded retry'],
  ['a model that broke off', ended('end_turn'), upstream(0), 'failed connection retry'],
  ['the spend cap', ended('end_turn'), upstream(402), 'failed spend_cap'],
  ['the spend cap in a cancelled turn', rpc(-32603), upstream(402, cancelled), 'failed spend_cap'],
  ['the spend cap told as cancelled by nobody', ended('cancelled'), upstream(402), 'failed spend_cap'],
  ['a wrong key', ended('end_turn'), upstream(401), 'failed authentication'],
  ['too many', ended('end_turn'), upstream(429), 'failed rate_limit retry'],
  ['typed: service', ended('end_turn', failedMeta('service')), good, 'failed server retry'],
  [
    'typed: the cap, quoted by one',
    ended('end_turn', failedMeta('service', [], 'error', 'API Error: 402 cap')),
    good,
    'failed spend_cap',
  ],
  [
    'typed: the cap, quoted by the other',
    ended('end_turn', failedMeta('connection', ['retry'], 'error', 'unexpected status 402 Payment Required')),
    good,
    'failed spend_cap',
  ],
  ['typed: access', ended('end_turn', failedMeta('access')), good, 'failed authentication'],
  ['typed: limit', ended('end_turn', failedMeta('limit', ['new_session'])), good, 'failed context'],
  ['typed: rate limit', ended('end_turn', failedMeta('limit', ['retry'])), good, 'failed rate_limit retry'],
  ['typed: request', ended('end_turn', failedMeta('request')), good, 'failed bad_request'],
  ['typed: connection', ended('end_turn', failedMeta('connection')), good, 'failed connection retry'],
  ['typed: a category of tomorrow', ended('end_turn', failedMeta('weather')), good, 'failed unknown'],
  ['typed: only a warning', ended('end_turn', failedMeta('service', [], 'warning')), good, 'finished'],
  [
    'typed, but no object',
    ended('end_turn', { _meta: { jetbrains: { air: { sessionFailure: true } } } }),
    good,
    'failed unknown',
  ],
  [
    'told in an update that nothing followed',
    ended('end_turn'),
    { ...good, told: { category: 'service', severity: 'error', title: 'x', actions: [] } },
    'failed server retry',
  ],
  ['a typed failure after our cancel', ended('end_turn', failedMeta('service')), cancelled, 'cancelled by us'],
  ['an end that our cancel came too late for', ended('end_turn'), cancelled, 'finished'],
  ['cancelled by us', ended('cancelled', { usage: null }), cancelled, 'cancelled by us'],
  ['cancelled by the harness', ended('cancelled'), good, 'cancelled'],
  ['an error after our cancel', rpc(-32603, 'server_error'), cancelled, 'cancelled by us'],
  ['a request cancelled by the harness', rpc(-32800), good, 'cancelled'],
  ['authentication required', rpc(-32000), good, 'failed authentication'],
  ['error kind: rate_limit', rpc(-32603, 'rate_limit'), good, 'failed rate_limit retry'],
  ['error kind: server_error', rpc(-32603, 'server_error'), good, 'failed server retry'],
  ['error kind: billing_error', rpc(-32603, 'billing_error'), good, 'failed spend_cap'],
  ['error kind of tomorrow', rpc(-32603, 'moon_phase'), good, 'failed unknown'],
  ['error kind that is a name of every object', rpc(-32603, 'constructor'), good, 'failed unknown'],
  ['refusal', ended('refusal'), good, 'refused'],
  ['max_tokens', ended('max_tokens'), good, 'cut'],
  ['max_turn_requests', ended('max_turn_requests'), good, 'cut'],
  ['a stop reason of tomorrow', ended('sleepy'), good, 'failed unknown'],
  ['no stop reason', { response: {} }, good, 'failed unknown'],
  ['no answer to speak of', { response: null }, good, 'failed unknown'],
];

for (const [name, answer, facts, expected] of cases) {
  test(`a turn with ${name} is: ${expected}`, () => {
    const outcome = classifyTurn(answer, facts);
    const short = [
      outcome.kind,
      outcome.kind === 'failed' ? outcome.cause : '',
      outcome.kind === 'failed' && outcome.retryable ? 'retry' : '',
      outcome.kind === 'cancelled' && outcome.byClient ? 'by us' : '',
    ];
    assert.equal(short.filter((word) => word !== '').join(' '), expected);
  });
}

test('no answer whatsoever is taken for a good one but a normal end', () => {
  fc.assert(
    fc.property(fc.anything(), fc.boolean(), (response, active) => {
      const outcome = classifyTurn({ response }, { active, cancelRequested: false });
      const isEnd = Object(response).stopReason === 'end_turn';
      assert.ok(outcome.kind !== 'finished' || isEnd);
    }),
  );
});

test('whatever the harness says, a model whose last call failed makes no good turn', () => {
  fc.assert(
    fc.property(
      fc.anything(),
      fc.integer({ min: 400, max: 599 }),
      fc.boolean(),
      (response, status, cancelRequested) => {
        const facts = { ...upstream(status), cancelRequested };
        assert.notEqual(classifyTurn({ response }, facts).kind, 'finished');
        assert.notEqual(
          classifyTurn({ response: { ...Object(response), stopReason: 'end_turn' } }, facts).kind,
          'finished',
        );
      },
    ),
  );
});

test('every status says whether to try again, and success is no failure', () => {
  for (const status of [200, 204, 304]) assert.equal(failureOfStatus(status), undefined);
  const retryable = [0, 408, 425, 429, 500, 502, 503, 504, 529];
  for (const status of retryable) assert.equal(failureOfStatus(status)?.retryable, true, String(status));
  for (const status of [400, 401, 402, 403, 404, 413, 422]) assert.equal(failureOfStatus(status)?.retryable, false);
});

test('usage that is null, absent or all zeros says nothing', () => {
  for (const usage of [null, undefined, {}, zeros.usage, { inputTokens: -1, outputTokens: Number.NaN }, 'x']) {
    assert.equal(usageOfResponse({ usage }), undefined);
  }
  assert.deepEqual(usageOfResponse({ usage: { inputTokens: 3, outputTokens: 4, cachedReadTokens: 1 } }), {
    inputTokens: 3,
    outputTokens: 4,
    totalTokens: 7,
    cachedReadTokens: 1,
  });
});

test('an error says why where it says that beside its message', () => {
  const said = (more: object) => errorOf({ code: -32_603, message: 'Internal error', ...more }).message;
  assert.equal(said({ data: { details: 'no such file' } }), 'Internal error: no such file');
  for (const data of [undefined, null, 'x', {}, { details: '' }, { details: 7 }, { details: 'Internal error' }])
    assert.equal(said({ data }), 'Internal error');
  // Neither is looked for in the other as a whole: that would take hours.
  const [message, details] = ['a'.repeat(30_000), `${'a'.repeat(9_000)}b${'a'.repeat(9_000)}`];
  assert.ok(said({ message, data: { details } }).length < 10_000);
});

test('whatever an answer has in place of an error, it is a failure', () => {
  for (const given of [null, 5, 'x', [], {}, { code: 'x', message: { toString: 1 } }, { code: -32_603 }]) {
    const outcome = classifyTurn({ error: errorOf(given) }, good);
    assert.deepEqual([outcome.kind, 'message' in outcome && outcome.message], ['failed', 'Invalid request']);
  }
});
