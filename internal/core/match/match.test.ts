import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { parseJson } from '../../domain/json-text.ts';
import type { Where } from '../../domain/spec.ts';
import {
  compileWhere,
  createTriggerIndex,
  exactText,
  readPrintable,
  explain,
  isExactNumber,
  type MatchEvent,
  type MatchTrigger,
  matchEach,
  matchesAll,
  readPayload,
} from './match.ts';

const text = readFileSync(new URL('../../../testdata/match/clauses.json', import.meta.url), 'utf8');
// Read by the room's own reader: some payloads hold numbers that a double does not.
const cases = readPayload(text) as unknown as readonly {
  readonly says: string;
  readonly payload: MatchEvent['payload'];
  readonly true: readonly Where[];
  readonly false: readonly Where[];
}[];

describe('clauses', () => {
  for (const { says, payload, true: matching, false: failing } of cases) {
    test(says, () => {
      for (const [expected, wheres] of [
        [true, matching],
        [false, failing],
      ] as const) {
        for (const where of wheres) {
          assert.equal(matchesAll(compileWhere(where), payload), expected, JSON.stringify(where));
          const trigger = { ...base, where };
          const event = { key: base.event, scope: null, payload };
          assert.equal(createTriggerIndex([trigger]).match(event).length === 1, expected, JSON.stringify(where));
        }
      }
    });
  }
});

const base: MatchTrigger = { agent: 'a', ordinal: 0, event: 'webhook.x', scope: null, where: {}, fallback: false };
const labels = (triggers: readonly MatchTrigger[]): string[] => triggers.map((each) => `${each.agent}#${each.ordinal}`);

test('a long list holds what it holds, asked often', () => {
  const list = [...Array.from({ length: 99 }, (_, at) => at), { a: 1 }, 'last'] as MatchEvent['payload'];
  const asks = (operand: unknown): boolean =>
    matchesAll(compileWhere({ n: { contains: operand } } as Where), { n: list });
  for (const [operand, isThere] of [
    [0, true],
    [98, true],
    ['last', true],
    [99, false],
    ['0', false],
    [null, false],
  ] as const) {
    assert.equal(asks(operand), isThere, String(operand));
  }
});

describe('event keys, scopes and fallbacks', () => {
  const both = (triggers: readonly MatchTrigger[], event: MatchEvent): string[] => {
    const found = labels(createTriggerIndex(triggers).match(event));
    assert.deepEqual(found, labels(matchEach(triggers, event)));
    return found;
  };

  test('an event meets the triggers of its key, by agent and ordinal', () => {
    const triggers = [
      { ...base, agent: 'b' },
      { ...base, ordinal: 10 },
      { ...base, ordinal: 2 },
      { ...base, event: 'webhook.y' },
    ];
    assert.deepEqual(both(triggers, { key: 'webhook.x', scope: null, payload: {} }), ['a#2', 'a#10', 'b#0']);
    assert.deepEqual(both(triggers, { key: 'webhook.z', scope: null, payload: {} }), []);
  });

  test('both spellings of a review are one event', () => {
    const triggers = [
      { ...base, event: 'codehost.review.submitted' },
      { ...base, agent: 'b', event: 'codehost.pull_request_review.submitted' },
      { ...base, agent: 'c', event: 'codehost.pull_request_review_comment.created' },
    ];
    for (const key of ['codehost.review.submitted', 'codehost.pull_request_review.submitted']) {
      assert.deepEqual(both(triggers, { key, scope: null, payload: {} }), ['a#0', 'b#0']);
    }
  });

  test('an event through an endpoint or connection meets only triggers of it, and those that need none', () => {
    const triggers = [
      { ...base, scope: 'one' },
      { ...base, agent: 'b', scope: 'two' },
      { ...base, agent: 'c' },
    ];
    assert.deepEqual(both(triggers, { key: 'webhook.x', scope: 'one', payload: {} }), ['a#0', 'c#0']);
    assert.deepEqual(both(triggers, { key: 'webhook.x', scope: null, payload: {} }), ['c#0']);
    assert.deepEqual(both(triggers, { key: 'webhook.x', scope: 'three', payload: {} }), ['c#0']);
  });

  test('a fallback fires only where no other trigger of the key and endpoint matched, and its own where still holds', () => {
    const triggers = [
      { ...base, scope: 'one', where: { n: 1 } },
      { ...base, agent: 'b', scope: 'one', fallback: true },
      { ...base, agent: 'c', scope: 'one', where: { n: 2 }, fallback: true },
      { ...base, agent: 'd', scope: 'two' },
    ];
    assert.deepEqual(both(triggers, { key: 'webhook.x', scope: 'one', payload: { n: 1 } }), ['a#0']);
    assert.deepEqual(both(triggers, { key: 'webhook.x', scope: 'one', payload: { n: 2 } }), ['b#0', 'c#0']);
    assert.deepEqual(both(triggers, { key: 'webhook.x', scope: 'one', payload: { n: 3 } }), ['b#0']);
  });

  test("an agent's triggers are replaced and removed as one, and nothing is left of them", () => {
    const index = createTriggerIndex([
      { ...base, where: { n: 1 } },
      { ...base, ordinal: 1, where: { n: { in: [1, 2] } }, fallback: true },
      { ...base, agent: 'b', where: { n: { exists: true } } },
    ]);
    const at = (n: number): string[] => labels(index.match({ key: 'webhook.x', scope: null, payload: { n } }));
    assert.equal(index.size, 3);
    assert.deepEqual(at(1), ['a#0', 'b#0']);
    index.setAgent('a', [{ ...base, where: { n: 3 } }]);
    assert.deepEqual([at(1), at(3)], [['b#0'], ['a#0', 'b#0']]);
    index.removeAgent('b');
    index.removeAgent('never there');
    assert.deepEqual([at(1), at(3), index.size], [[], ['a#0'], 1]);
    index.removeAgent('a');
    assert.deepEqual([at(3), index.size], [[], 0]);
  });
});

describe('explaining', () => {
  test('each trigger on the key says what each clause read; an idle fallback did not match', () => {
    const triggers = [
      { ...base, where: { n: 1, '$.o.x': { exists: false } } },
      { ...base, agent: 'b', where: { n: 2 } },
      { ...base, agent: 'c', where: { n: { in: [1] } }, fallback: true },
      { ...base, agent: 'd', event: 'webhook.y' },
    ];
    const found = explain(triggers, { key: 'webhook.x', scope: null, payload: { n: 1, o: {} } });
    assert.deepEqual(
      found.map(({ trigger, ...rest }) => ({ agent: trigger.agent, ...rest })),
      [
        {
          agent: 'a',
          matched: true,
          clauses: [
            { path: 'n', clause: 1, value: 1, matched: true },
            { path: '$.o.x', clause: { exists: false }, value: undefined, matched: true },
          ],
        },
        { agent: 'b', matched: false, clauses: [{ path: 'n', clause: 2, value: 1, matched: false }] },
        {
          agent: 'c',
          matched: false,
          clauses: [{ path: 'n', clause: { in: [1] }, value: 1, matched: true }],
          standsBackFor: [triggers[0]],
        },
      ],
    );
  });
});

describe('what explaining quotes', () => {
  const clauseOf = (value: MatchEvent['payload'], json = JSON.stringify({ n: value })) => {
    const [found] = explain([{ ...base, where: { n: { exists: true } } }], {
      key: base.event,
      scope: null,
      payload: readPayload(json),
    });
    const [clause] = found?.clauses ?? [];
    assert.ok(clause?.matched);
    return clause;
  };

  test('a value of up to 4 KiB stands whole, a longer one is cut there and says so', () => {
    for (const whole of ['z'.repeat(4_096), 'é'.repeat(2_048), [1, { a: [null] }], 7, null]) {
      const clause = clauseOf(whole);
      assert.deepEqual(clause.value, whole);
      assert.ok(!('truncated' in clause));
    }
    for (const [long, shown] of [
      ['z'.repeat(4_097), 'z'.repeat(4_096)],
      ['é'.repeat(2_049), 'é'.repeat(2_048)],
      [`z${'é'.repeat(2_048)}`, `z${'é'.repeat(2_047)}`],
    ] as const) {
      const clause = clauseOf(long);
      assert.equal(clause.value, shown);
      assert.equal(clause.truncated, true);
    }
  });

  test('of an object, a list or a number of many digits it is the beginning of its JSON', () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 6 }), fc.integer({ min: 0, max: 4_200 }), (value, pad) => {
        const list = ['z'.repeat(pad), { '"': [value, value] }, value] as MatchEvent['payload'];
        const text = JSON.stringify(list);
        const clause = clauseOf(list, `{"n":${text}}`);
        if (Buffer.byteLength(text) <= 4_096) return assert.equal(JSON.stringify(clause.value), text);
        assert.equal(clause.truncated, true);
        assert.ok(text.startsWith(clause.value as string));
        const size = Buffer.byteLength(clause.value as string);
        assert.ok(size <= 4_096 && size > 4_092, String(size));
      }),
    );
    const empty = [[], {}, { a: undefined, b: [{}] }, 'z'.repeat(5_000)] as unknown as MatchEvent['payload'];
    const [found] = explain([{ ...base, where: { n: { exists: true } } }], {
      key: base.event,
      scope: null,
      payload: { n: empty },
    });
    assert.equal(found?.clauses[0]?.value, JSON.stringify(empty).slice(0, 4_096));
    const digits = '9'.repeat(5_000);
    assert.equal(clauseOf(0, `{"n":${digits}}`).value, digits.slice(0, 4_096));
    const nested = `${'['.repeat(5_000)}${']'.repeat(5_000)}`;
    assert.equal(clauseOf(0, `{"n":${nested}}`).value, nested.slice(0, 4_096));
  });

  test('many triggers through as many scopes cost each their own reading', () => {
    const triggers = Array.from({ length: 20_000 }, (_, at) => ({
      ...base,
      ordinal: at,
      scope: `s${at}`,
      fallback: at % 2 === 0,
      where: { n: 1 },
    }));
    let reads = 0;
    const payload = Object.defineProperty({}, 'n', { enumerable: true, get: () => ((reads += 1), 1) });
    const found = explain(triggers, { key: base.event, scope: undefined, payload: payload as MatchEvent['payload'] });
    assert.equal(found.filter((one) => one.matched).length, 20_000);
    assert.ok(reads <= 3 * 20_000, String(reads));
  });
});

describe('explaining without a scope', () => {
  test('every endpoint is read by itself: a match on one leaves the fallback of another alone', () => {
    const triggers = [
      { ...base, scope: 'one' },
      { ...base, agent: 'b', scope: 'two', where: { n: 1 } },
      { ...base, agent: 'c', scope: 'two', fallback: true },
      { ...base, agent: 'd', scope: 'one', fallback: true },
      { ...base, agent: 'e', event: 'webhook.y' },
    ];
    const found = explain(triggers, { key: 'webhook.x', scope: undefined, payload: { n: 2 } });
    assert.deepEqual(
      found.map(({ trigger, matched }) => [trigger.agent, matched]),
      [
        ['a', true],
        ['b', false],
        ['c', true],
        ['d', false],
      ],
    );
    assert.equal(explain(triggers, { key: 'webhook.x', scope: 'two', payload: {} }).length, 2);
    assert.equal(explain(triggers, { key: 'webhook.x', scope: null, payload: {} }).length, 0);
  });

  test('triggers come by agent and ordinal, those of no scope among them, and ten are told of one that stands back', () => {
    const firm = Array.from({ length: 11 }, (_, at) => ({ ...base, agent: 'b', ordinal: 10 - at }));
    const found = explain([{ ...base, agent: 'c', scope: 'one', fallback: true }, ...firm, base], {
      key: 'webhook.x',
      scope: 'one',
      payload: {},
    });
    const inOrder = ['a#0', ...Array.from({ length: 11 }, (_, at) => `b#${at}`), 'c#0'];
    assert.deepEqual(labels(found.map(({ trigger }) => trigger)), inOrder);
    assert.deepEqual(labels(found.at(-1)?.standsBackFor ?? []), inOrder.slice(0, 10));
  });
});

describe('numbers', () => {
  test('what a double holds is a number, and what it does not keeps its digits through parsing and printing', () => {
    const held = [
      '0',
      '-0',
      '1',
      '0.1',
      '1e5',
      '123456789012345',
      '9007199254740992',
      '1.7976931348623157e308',
      '5e-324',
    ];
    const exact = [
      '9007199254740993',
      '-9007199254740993',
      '12345678901234567890',
      '1e400',
      '-1E+400',
      '1e-400',
      '9007199254740992.5',
      `1${'0'.repeat(30)}1`,
      `0.${'1'.repeat(200)}`,
    ];
    for (const number of held)
      assert.equal((readPayload(`[${number}]`) as readonly unknown[])[0], Number(number), number);
    for (const number of exact) {
      const parsed = readPayload(`{"a": ${number}}`) as { a: MatchEvent['payload'] };
      assert.ok(isExactNumber(parsed.a), number);
      assert.equal(exactText(parsed.a), number);
      assert.equal(JSON.stringify(parsed), `{"a":${number}}`);
    }
    assert.equal(readPayload('9007199254740993') !== 9007199254740992, true);
    assert.equal(exactText('9007199254740993'), undefined);
  });

  test('a large integer that a double holds and prints otherwise keeps its digits, and compares as that double', () => {
    const number = '1152921504606846976';
    const parsed = readPayload(`{"a": ${number}, "b": [-${number}]}`);
    assert.equal(JSON.stringify(parsed), `{"a":${number},"b":[-${number}]}`);
    const matches = (where: Where): boolean => matchesAll(compileWhere(where), parsed as MatchEvent['payload']);
    assert.ok(matches({ a: Number(number) }) && matches({ a: { in: [Number(number)] } }));
    assert.ok(matches({ b: { contains: -Number(number) } }) && matches({ '$.a.rawJSON': { exists: false } }));
    assert.ok(!matches({ a: number }) && !matches({ a: { notIn: [Number(number)] } }));
    const trigger = { agent: 'a', ordinal: 0, event: 'k', scope: null, where: { a: Number(number) }, fallback: false };
    assert.equal(createTriggerIndex([trigger]).match({ key: 'k', scope: null, payload: parsed }).length, 1);
  });

  test('long digits inside strings are text, and keys that name prototypes stay keys', () => {
    const parsed = readPayload('{"a": "x:9007199254740993", "__proto__": {"n": 9007199254740993}, "b": 1e2}');
    assert.equal(Object.getPrototypeOf(parsed), Object.prototype);
    const { value: _, ...plain } = Object.getOwnPropertyDescriptor(parsed, '__proto__') ?? {};
    assert.deepEqual(plain, { writable: true, enumerable: true, configurable: true });
    assert.equal(JSON.stringify(parsed), '{"a":"x:9007199254740993","__proto__":{"n":9007199254740993},"b":100}');
  });

  test('a key that is written with an escape is that key, whatever else was read before', () => {
    const slash = String.raw`\\`;
    for (const [before, text, expected] of [
      [`{"a":0,"${slash}u0":0}`, String.raw`{"a":1,"\u00e9t\u00e9" : {"b":2}}`, '{"a":1,"été":{"b":2}}'],
      [`{"b":[],"${slash}":0}`, String.raw`{"b":"\\","\"":2,"\n" :3}`, String.raw`{"b":"\\","\"":2,"\n":3}`],
      [`{"c":0,"d${slash}":0}`, String.raw`[{"c":1,"d\t":"x"}]`, String.raw`[{"c":1,"d\t":"x"}]`],
      [`{"${slash}":{"e":0}}`, String.raw`{"\u0061":"\"a\":","a":2}`, '{"a":2}'],
    ] as const) {
      for (const read of [readPayload, readPrintable, parseJson]) {
        read(before);
        assert.equal(JSON.stringify(read(text)), expected);
      }
    }
  });

  test('for printing, every number comes as it was written, and what prints so by itself is a number', () => {
    for (const text of ['[1e5]', '{"a":1.0}', '[12e400,[1e400],{"b":1e400}]', '[0.10,-0,100000]']) {
      assert.equal(JSON.stringify(readPrintable(text)), text);
    }
    assert.deepEqual(readPrintable('[1, "a\\n", -2.5]'), [1, 'a\n', -2.5]);
    for (const text of ['[1e400]', '[12e400]', '{"a":1e400}', '-1e400'])
      assert.equal(JSON.stringify(readPayload(text)), text);
    assert.deepEqual(readPayload('[1.0, 1.50, 12345678901234567890]')?.[0 as never], 1);
  });

  test('what is no JSON is refused on either way of reading', () => {
    for (const bad of ['', '{', '{"a":1e}', '[12345678901234567890', '{"a":01234567890123456789}']) {
      assert.throws(() => readPayload(bad), SyntaxError);
      assert.throws(() => readPrintable(bad), SyntaxError);
    }
  });
});
