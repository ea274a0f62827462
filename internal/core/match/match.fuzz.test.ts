import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { howMany } from '../../base/testkit/long.ts';
import type { Json, JsonScalar } from '../../domain/json.ts';
import { parseJson } from '../../domain/json-text.ts';
import { isHeld, isPrinted } from '../../domain/number.ts';
import type { Where, WhereClause } from '../../domain/spec.ts';
import {
  createTriggerIndex,
  exactText,
  explain,
  type MatchEvent,
  type MatchTrigger,
  matchEach,
  readPayload,
  readPrintable,
} from './match.ts';

/** Each takes one to four events: over a million in the long form. */
const runs = howMany(3_000, 450_000);

// Few words, so that clauses and payloads meet often.
const name = fc.constantFrom('a', 'b', 'previous', '__proto__', 'length', '0');
const scalar = fc.constantFrom<string | number | boolean | null>(
  'x',
  '1',
  '',
  1,
  0,
  -0,
  true,
  false,
  null,
  '9007199254740993',
);
const exact = readPayload('{"n":9007199254740993}') as { readonly n: Json };
const { value: payload } = fc.letrec<{ value: Json }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'medium', withCrossShrink: true },
    scalar,
    fc.constant(exact.n),
    fc.array(tie('value'), { maxLength: 3 }),
    fc.array(fc.tuple(name, tie('value')), { maxLength: 4 }).map((entries) => fromEntries(entries)),
  ),
}));
/** As JSON.parse makes it: `__proto__` is an own key. */
function fromEntries(entries: readonly (readonly [string, Json])[]): Json {
  return Object.fromEntries(entries) as Json;
}
const path = fc.oneof(
  name,
  fc.array(name, { minLength: 1, maxLength: 4 }).map((segments) => `$.${segments.join('.')}`),
);
const list = fc.array(scalar, { minLength: 1, maxLength: 3 });
const clause: fc.Arbitrary<WhereClause> = fc.oneof(
  scalar,
  scalar.map((contains) => ({ contains })),
  fc.boolean().map((exists) => ({ exists })),
  list.map((values) => ({ in: values })),
  list.map((values) => ({ notIn: values })),
  scalar.map((changedTo) => ({ changedTo })),
);
const where: fc.Arbitrary<Where> = fc
  .array(fc.tuple(path, clause), { maxLength: 3 })
  .map((entries) => Object.fromEntries(entries));
const scope = fc.constantFrom<string | null>(null, 'one', 'two');
const key = fc.constantFrom('k.a', 'k.b', 'codehost.review.edited', 'codehost.pull_request_review.edited');
const trigger = fc.record({ agent: fc.constantFrom('p', 'q', 'r'), event: key, scope, where, fallback: fc.boolean() });
const fleet = fc
  .array(trigger, { maxLength: 12 })
  .map((all) => all.map((one, ordinal): MatchTrigger => ({ ...one, ordinal })));
const event: fc.Arbitrary<MatchEvent> = fc.record({ key, scope, payload });

// The tables of docs/reference/where.md#clauses and docs/reference/routing.md#matching once more, word by word, and nothing
// compiled.
function byTheTable(triggers: readonly MatchTrigger[], each: MatchEvent): MatchTrigger[] {
  const alike = (one: string): string => one.replace('codehost.pull_request_review.', 'codehost.review.');
  const found = triggers.filter(
    (one) =>
      alike(one.event) === alike(each.key) &&
      (one.scope === null || one.scope === each.scope) &&
      Object.entries(one.where).every(([at, asks]) => holds(at, asks, each.payload)),
  );
  const firm = found.filter((one) => !one.fallback);
  const firing = firm.length === 0 ? found : firm;
  return firing.toSorted((a, b) => (a.agent === b.agent ? a.ordinal - b.ordinal : a.agent < b.agent ? -1 : 1));
}
function holds(at: string, asks: WhereClause, root: Json): boolean {
  const steps = at.startsWith('$.') ? at.slice(2).split('.') : [at];
  const found = walk(root, steps);
  const equals = (scalar: JsonScalar): boolean => found !== undefined && same(found, scalar);
  if (typeof asks !== 'object' || asks === null) return equals(asks);
  if ('contains' in asks) return Array.isArray(found) && found.some((item) => same(item, asks.contains));
  if ('exists' in asks) return asks.exists ? found !== undefined : found === undefined;
  if ('in' in asks) return asks.in.some(equals);
  if ('notIn' in asks) return found === undefined || (isScalar(found) && !asks.notIn.some(equals));
  const before = walk(root, [...steps.slice(0, -1), 'previous', ...steps.slice(-1)]);
  return equals(asks.changedTo) && before !== undefined && !same(before, asks.changedTo);
}
function walk(from: Json, [step, ...rest]: readonly string[]): Json | undefined {
  if (step === undefined) return from;
  if (isScalar(from) || Array.isArray(from)) return undefined;
  const next = Object.entries(from as { [key: string]: Json }).find(([own]) => own === step);
  return next === undefined ? undefined : walk(next[1], rest);
}
/** A number that no double holds is one, by its digits. */
const isScalar = (one: Json): boolean => one === null || typeof one !== 'object' || exactText(one) !== undefined;
const same = (one: Json, scalar: JsonScalar): boolean => isScalar(one) && (exactText(one) ?? one) === scalar;

test('the index answers what reading every trigger does, and so does explaining; nothing throws', () => {
  fc.assert(
    fc.property(fleet, fc.array(event, { minLength: 1, maxLength: 4 }), (triggers, events) => {
      const index = createTriggerIndex(triggers);
      for (const each of events) {
        const naive = matchEach(triggers, each);
        assert.deepEqual(index.match(each), naive);
        assert.deepEqual(byTheTable(triggers, each), naive);
        const explained = explain(triggers, each).filter((one) => one.matched);
        assert.deepEqual(
          explained.map((one) => one.trigger),
          naive,
        );
      }
    }),
    { numRuns: runs },
  );
});

test('an index that agents came to and left is the one that is built at once from those that stay', () => {
  const change = fc.record({ agent: fc.constantFrom('p', 'q', 'r'), keep: fc.boolean(), own: fleet });
  fc.assert(
    fc.property(fc.array(change, { maxLength: 8 }), event, (changes, each) => {
      const index = createTriggerIndex<MatchTrigger>();
      const agents = new Map<string, MatchTrigger[]>();
      for (const { agent, keep, own } of changes) {
        const mine = own.map((one) => ({ ...one, agent }));
        if (keep) index.setAgent(agent, mine);
        else index.removeAgent(agent);
        agents.set(agent, keep ? mine : []);
      }
      const staying = [...agents.values()].flat();
      assert.equal(index.size, staying.length);
      assert.deepEqual(index.match(each), matchEach(staying, each));
    }),
    { numRuns: 1_000 },
  );
});

test('any JSON that is read prints as the same JSON, and no filter throws on it', () => {
  fc.assert(
    fc.property(fc.json({ maxDepth: 6 }), where, (text, filters) => {
      const read = readPayload(text);
      assert.deepEqual(JSON.parse(JSON.stringify(read)), JSON.parse(JSON.stringify(JSON.parse(text))));
      const one: MatchTrigger = { agent: 'a', ordinal: 0, event: 'k', scope: null, where: filters, fallback: false };
      assert.ok(matchEach([one], { key: 'k', scope: null, payload: read }).length <= 1);
    }),
    { numRuns: 2_000 },
  );
});

/** JSON as it is written, and its value, made without a parser but for the texts in it. */
interface Written {
  readonly text: string;
  value(isKept: (written: string, value: number) => boolean): unknown;
}
const { rawJSON } = JSON as unknown as { rawJSON(of: string): unknown };

const writtenAs = (text: string): Written => ({ text, value: () => JSON.parse(text) });
const writtenNumber = (text: string): Written => ({
  text,
  value: (isKept) => (isKept(text, Number(text)) ? Number(text) : rawJSON(text)),
});
const writtenList = (gap: string, all: readonly Written[]): Written => ({
  text: `[${gap}${all.map(({ text }) => text).join(`${gap},${gap}`)}${gap}]`,
  value: (isKept) => all.map((one) => one.value(isKept)),
});
const writtenObject = (gap: string, all: readonly (readonly [string, Written])[]): Written => ({
  text: `{${gap}${all.map(([key, { text }]) => `${key}${gap}:${gap}${text}`).join(`${gap},`)}${gap}}`,
  value: (isKept) => {
    const made = {};
    for (const [key, of] of all) {
      const value = of.value(isKept);
      Object.defineProperty(made, JSON.parse(key), { value, writable: true, enumerable: true, configurable: true });
    }
    return made;
  },
});

test('numbers and keys come out as they were written, and all else as the parser of the language reads it', () => {
  const digits = fc.stringMatching(/^(?:0|[1-9][0-9]{0,24})$/);
  const number = fc
    .tuple(fc.constantFrom('', '-'), digits, fc.stringMatching(/^(?:\.[0-9]{1,20})?(?:[eE][-+]?[0-9]{1,3})?$/))
    .map((parts) => writtenNumber(parts.join('')));
  const key = fc.oneof(
    fc.constantFrom('"__proto__"', '"a"', '"\\u0061"', '"\\\\"', '"\\n"', '"\\u00e9t"', '"\\\\u"'),
    fc.string().map((one) => JSON.stringify(one)),
  );
  const space = fc.constantFrom('', ' ', '\n\t');
  const { json } = fc.letrec<{ json: Written }>((tie) => ({
    json: fc.oneof(
      { maxDepth: 4 },
      number,
      fc.oneof(key, fc.constantFrom('true', 'false', 'null', '"1e400"', '"\\\\"')).map(writtenAs),
      fc.tuple(space, fc.array(tie('json'), { maxLength: 4 })).map(([gap, all]) => writtenList(gap, all)),
      fc
        .tuple(space, fc.array(fc.tuple(key, tie('json')), { maxLength: 4 }))
        .map(([gap, all]) => writtenObject(gap, all)),
    ),
  }));
  fc.assert(
    fc.property(json, (then) => {
      const { text, value } = writtenObject('', [['"first"', writtenNumber('1e400')] as const, ['"then"', then]]);
      const kept = (written: string, of: number): boolean => isHeld(written, of) && isPrinted(written, of);
      assert.equal(JSON.stringify(readPayload(text)), JSON.stringify(value(kept)));
      assert.equal(JSON.stringify(readPrintable(text)), JSON.stringify(value((written, of) => String(of) === written)));
      assert.equal(JSON.stringify(parseJson(text)), JSON.stringify(value(() => true)));
    }),
    { numRuns: howMany(3_000, 300_000) },
  );
});
