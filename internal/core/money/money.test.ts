import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { PriceRow } from '../../domain/price.ts';
import { roundUsd } from './decimal.ts';
import {
  costOf,
  decideCaps,
  hasCaps,
  modelIds,
  parseUsd,
  priceOf,
  printUsd,
  type SpendCaps,
  type Spent,
  unknownPrice,
  type Usage,
  utcDay,
  worstCost,
} from './money.ts';

const usd = (text: string): bigint => {
  const value = parseUsd(text);
  assert.ok(value !== undefined, text);
  return value;
};

describe('dollars', () => {
  for (const [text, printed] of [
    ['0', '0'],
    ['0.10', '0.1'],
    ['12.5000000000', '12.5'],
    ['9999999999.9999999999', '9999999999.9999999999'],
    ['0.000000000000000001', '0.000000000000000001'],
    ['1e-7', '0.0000001'],
    ['1.25E+2', '125'],
    ['1e-200', '0.000000000000000001'],
    ['0e400', '0'],
    ['0.0000000000000000011', '0.000000000000000002'],
    ['1.0000000000000000000', '1'],
    ['1e42', `1${'0'.repeat(42)}`],
  ] as const) {
    test(`${text} is ${printed}`, () => assert.equal(printUsd(usd(text)), printed));
  }
  for (const text of [
    '',
    '.5',
    '5.',
    '-1',
    '+1',
    ' 1',
    '1,0',
    'NaN',
    'Infinity',
    '1e',
    '1e99',
    '1e43',
    '0x10',
    '1'.repeat(31),
  ]) {
    test(`${JSON.stringify(text)} is no amount`, () => assert.equal(parseUsd(text), undefined));
  }

  test('printing and parsing are inverse', () => {
    fc.assert(fc.property(fc.bigInt({ min: 0n, max: 10n ** 40n }), (value) => parseUsd(printUsd(value)) === value));
    assert.equal(printUsd(-usd('1.5')), '-1.5');
  });
  test('a sum in dollars is the sum of integers', () => {
    const cents = fc.nat({ max: 1_000_000_000 });
    fc.assert(
      fc.property(cents, cents, (a, b) => {
        const text = (n: number): string => (n / 1e9 < 1e-6 ? `${n}e-9` : (n / 1e9).toFixed(9));
        return usd(text(a)) + usd(text(b)) === usd(`${a + b}e-9`);
      }),
    );
  });
  for (const [text, shown] of [
    ['0', '0'],
    ['12.3456', '12.35'],
    ['0.00012345', '0.00013'],
    ['1.001', '1.01'],
    ['3', '3'],
    ['1.5', '1.50'],
    ['12.5', '12.50'],
  ] as const) {
    test(`people read ${text} as ${shown}`, () => assert.equal(roundUsd(usd(text)), shown));
  }
  test('what is owed the other way is not rounded', () => assert.equal(roundUsd(-usd('1.234')), '-1.234'));
});

const rates = { input: '3', output: '15', cacheRead: '0.3', cacheWrite: '3.75' };
const table: PriceRow[] = [
  { provider: 'provider-a', model: 'one', from: '2026-01-01', ...rates, cacheWriteLong: '6', webSearch: '10' },
  { provider: 'provider-a', model: 'one', from: '2026-07-01', ...rates, input: '2' },
  { provider: 'provider-a', model: 'on*', from: '2026-01-01', ...rates, input: '1' },
  { provider: 'provider-a', model: 'o*', from: '2026-09-01', ...rates, input: '9' },
  {
    provider: 'provider-b',
    model: 'big',
    from: '2026-01-01',
    ...rates,
    above: { ...rates, tokens: 1_000, input: '6', output: '30' },
  },
];
const usage = (changes: Partial<Usage> = {}): Usage => ({
  inputTokens: 0,
  outputTokens: 0,
  cacheReadTokens: 0,
  cacheWriteTokens: 0,
  estimated: false,
  ...changes,
});

describe('prices', () => {
  const inputOf = (model: string, at: string): string | undefined => {
    const [price, again] = [table, table.toReversed()].map((rows) => priceOf(rows, 'provider-a', model, new Date(at)));
    assert.deepEqual(again, price, 'the order of the rows says nothing');
    return price && `${price.from} ${printUsd(price.input)}`;
  };
  test('of two rows for one day the last holds, as one of the configuration stands behind those that ship', () => {
    const own: PriceRow = { provider: 'provider-a', model: 'one', from: '2026-07-01', ...rates, input: '7' };
    assert.equal(priceOf([...table, own], 'provider-a', 'one', new Date('2026-08-01'))?.input, usd('7'));
  });
  test('the latest that has begun, by its UTC day', () => {
    assert.equal(inputOf('one', '2026-06-30T23:59:59Z'), '2026-01-01 3');
    assert.equal(inputOf('one', '2026-07-01T00:00:00Z'), '2026-07-01 2');
    assert.equal(utcDay(new Date('2026-07-01T01:00:00+02:00')), '2026-06-30');
  });
  test('the exact id goes before a beginning, the longer beginning before the shorter', () => {
    assert.equal(inputOf('one', '2026-10-01'), '2026-07-01 2');
    assert.equal(inputOf('ones', '2026-10-01'), '2026-01-01 1');
    assert.equal(inputOf('other', '2026-10-01'), '2026-09-01 9');
  });
  test('what has not begun, or belongs to another, is unknown', () => {
    assert.equal(inputOf('one', '2025-12-31'), undefined);
    assert.equal(inputOf('other', '2026-08-31'), undefined);
    assert.equal(priceOf(table, 'provider-b', 'one', new Date('2026-10-01')), undefined);
  });
  test('a price that is no amount is a bug of the table', () => {
    const broken: PriceRow[] = [{ provider: 'provider-a', model: 'm', from: '2026-01-01', ...rates, input: 'x' }];
    const refused = new RangeError('x is not an amount of US dollars');
    assert.throws(() => priceOf(broken, 'provider-a', 'm', new Date('2026-02-01')), refused);
  });
});

describe('the cost of a call', () => {
  const price = priceOf(table, 'provider-a', 'one', new Date('2026-02-01'));
  const big = priceOf(table, 'provider-b', 'big', new Date('2026-02-01'));
  const cost = (of: Partial<Usage>, at = price): string | undefined => {
    const found = costOf(usage(of), at);
    return found === undefined ? undefined : printUsd(found);
  };
  test('is exact for each kind of token', () => {
    assert.equal(cost({ inputTokens: 1 }), '0.000003');
    assert.equal(cost({ outputTokens: 1_000_000 }), '15');
    assert.equal(cost({ cacheReadTokens: 7 }), '0.0000021');
    assert.equal(cost({ cacheWriteTokens: 10, cacheWriteLongTokens: 4 }), '0.0000465');
    assert.equal(cost({ cacheWriteTokens: 10, cacheWriteLongTokens: 40 }), '0.00006');
    assert.equal(cost({ inputTokens: 3, outputTokens: 5, cacheReadTokens: 1, cacheWriteTokens: 1 }), '0.00008805');
  });
  test('searches are charged where the row says so', () => {
    assert.equal(cost({ inputTokens: 1, webSearches: 3 }), '0.030003');
    assert.equal(cost({ inputTokens: 1, webSearches: 3 }, big), '0.000003');
  });
  test('a long call has its own price', () => {
    assert.equal(cost({ inputTokens: 900, cacheReadTokens: 100 }, big), '0.00273');
    assert.equal(cost({ inputTokens: 901, cacheReadTokens: 100 }, big), '0.005436');
    assert.equal(cost({ inputTokens: 900, cacheWriteTokens: 101 }, big), '0.00577875');
  });
  test('what the provider says goes before the table, unless it is no amount', () => {
    assert.equal(cost({ inputTokens: 1, reportedUsd: '0.5' }), '0.5');
    assert.equal(cost({ inputTokens: 1, reportedUsd: 'lots' }), '0.000003');
    assert.equal(costOf(usage({ inputTokens: 1 }), undefined), undefined);
  });
  test('may come to its input at the dearest way of reading it, and all its output', () => {
    assert.equal(price && printUsd(worstCost(price, 1_000, 10)), '0.00615');
    assert.equal(big && printUsd(worstCost(big, 1_001, 0)), '0.006006');
  });
  test('never exceeds what it may come to', () => {
    const n = fc.nat({ max: 10_000_000 });
    fc.assert(
      fc.property(
        n,
        n,
        n,
        n,
        n,
        (inputTokens, cacheReadTokens, cacheWriteTokens, cacheWriteLongTokens, outputTokens) => {
          for (const each of [price, big]) {
            assert.ok(each);
            const of = usage({ inputTokens, cacheReadTokens, cacheWriteTokens, cacheWriteLongTokens, outputTokens });
            const found = costOf(of, each);
            assert.ok(found !== undefined);
            assert.ok(found <= worstCost(each, inputTokens + cacheReadTokens + cacheWriteTokens, outputTokens));
          }
        },
      ),
    );
  });
});

describe('spend caps', () => {
  const now = new Date('2026-12-31T23:30:00Z');
  const none: Spent = { session: 0n, day: 0n, month: 0n, unpricedCalls: 0 };
  const decide = (caps: SpendCaps, spent: Partial<Spent> = {}, reserved: Partial<Spent> = {}) =>
    decideCaps(caps, { ...none, ...spent }, { ...none, ...reserved }, now);

  for (const [what, caps, spent, reserved, kind] of [
    ['without caps all is allowed', {}, { session: usd('1e9'), unpricedCalls: 99 }, {}, 'allow'],
    ['below a cap', { dailyUsd: '1' }, { day: usd('0.999999999999999999') }, {}, 'allow'],
    ['at a cap', { dailyUsd: '1' }, { day: usd('1') }, {}, 'refuse'],
    ['above a cap', { monthlyUsd: '1' }, { month: usd('1.5') }, {}, 'refuse'],
    ['a cap of nothing', { maxPerSessionUsd: '0' }, {}, {}, 'refuse'],
    ['another cap is not concerned', { maxPerSessionUsd: '1' }, { day: usd('5'), month: usd('5') }, {}, 'allow'],
    ['calls in flight may fill it', { dailyUsd: '1' }, { day: usd('0.5') }, { day: usd('0.5') }, 'wait'],
    ['calls in flight may not', { dailyUsd: '1' }, { day: usd('0.5') }, { day: usd('0.4') }, 'allow'],
    ['a reached cap waits for nothing', { dailyUsd: '1' }, { day: usd('1') }, { day: usd('1') }, 'refuse'],
    ['two unknown costs', { dailyUsd: '1' }, { unpricedCalls: 2 }, {}, 'allow'],
    ['three unknown costs', { dailyUsd: '1' }, { unpricedCalls: 3 }, {}, 'unpriced'],
  ] as const) {
    test(`${what}: ${kind}`, () => assert.equal(decide(caps, spent, reserved).kind, kind));
  }

  const refusal = (caps: SpendCaps, spent: Partial<Spent>) => {
    const decision = decide(caps, spent);
    assert.equal(decision.kind, 'refuse');
    return decision.kind === 'refuse' ? decision.refusal : assert.fail();
  };
  test('a refusal says which cap, what is spent, and when it opens', () => {
    const day = refusal({ dailyUsd: '2.5' }, { day: usd('2.51234') });
    assert.deepEqual(
      { ...day, message: '' },
      {
        cap: 'dailyUsd',
        spentUsd: '2.51234',
        limitUsd: '2.5',
        resetsAt: new Date('2027-01-01T00:00:00Z'),
        message: '',
      },
    );
    assert.equal(
      day.message,
      'Spend cap reached: dailyUsd allows 2.5 USD for the day (UTC), 2.52 USD are spent; it resets at 2027-01-01T00:00:00.000Z.',
    );
    assert.equal(refusal({ maxPerSessionUsd: '1' }, { session: usd('1') }).resetsAt, null);
    assert.match(refusal({ maxPerSessionUsd: '1' }, { session: usd('1') }).message, /it does not reset/);
  });
  test('of several the one that stays closed longest is named', () => {
    const at = new Date('2026-05-10T12:00:00Z');
    const all = { session: usd('9'), day: usd('9'), month: usd('9'), unpricedCalls: 0 };
    const named = (caps: SpendCaps, when = at) => {
      const decision = decideCaps(caps, all, none, when);
      return decision.kind === 'refuse' ? `${decision.refusal.cap} ${decision.refusal.resetsAt?.toISOString()}` : '';
    };
    assert.equal(named({ dailyUsd: '1', monthlyUsd: '1' }), 'monthlyUsd 2026-06-01T00:00:00.000Z');
    const last = new Date('2026-05-31T12:00:00Z');
    assert.equal(named({ dailyUsd: '1', monthlyUsd: '1' }, last), 'dailyUsd 2026-06-01T00:00:00.000Z');
    assert.equal(named({ dailyUsd: '1', monthlyUsd: '20' }), 'dailyUsd 2026-05-11T00:00:00.000Z');
    assert.equal(named({ dailyUsd: '1', monthlyUsd: '1', maxPerSessionUsd: '1' }), 'maxPerSessionUsd undefined');
  });
  test('spending more never opens a cap', () => {
    const amount = fc.bigInt({ min: 0n, max: 3n * 10n ** 18n });
    const rank = { allow: 0, wait: 1, unpriced: 2, refuse: 3 };
    fc.assert(
      fc.property(amount, amount, amount, amount, (limit, spent, more, reserved) => {
        const caps = { dailyUsd: printUsd(limit) };
        const before = decide(caps, { day: spent }, { day: reserved });
        const after = decide(caps, { day: spent + more }, { day: reserved });
        assert.ok(rank[after.kind] >= rank[before.kind]);
      }),
    );
  });
});

describe('unknown prices', () => {
  const at = new Date('2026-10-01');
  const caps = { dailyUsd: '1' };
  test('refuse a launch under a cap, naming each model', () => {
    const model = {
      provider: 'provider-b',
      id: 'big',
      fallbacks: ['bigger', 'biggest'].map((id) => ({ id, provider: 'provider-b' as const })),
    } as const;
    assert.equal(
      unknownPrice(table, model, caps, at),
      'The price of bigger, biggest (provider-b) is not known, and a spend cap is set: ' +
        'add it under providers.model.prices of the configuration, or remove spendCaps.',
    );
    assert.equal(unknownPrice(table, model, {}, at), undefined);
    assert.equal(unknownPrice(table, model, undefined, at), undefined);
    assert.equal(unknownPrice(table, { provider: 'provider-b', id: 'big' }, caps, at), undefined);
  });
  test('a provider that tells the cost needs none', () => {
    const model = { provider: 'provider-c', id: 'v/m', gateway: { models: ['v/n'] } } as const;
    assert.deepEqual(modelIds(model), ['v/m', 'v/n']);
    assert.equal(unknownPrice(table, model, caps, at), undefined);
  });
  test('an empty object is no cap', () => {
    assert.equal(hasCaps({}), false);
    assert.equal(hasCaps({ monthlyUsd: '0' }), true);
  });
});
