import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { howMany } from '../../base/testkit/long.ts';
import type { Json } from '../../words/json.ts';
import type { Where, WhereClause } from '../../words/spec.ts';
import { createTriggerIndex, explain, type MatchEvent, type MatchTrigger, matchEach, readPayload } from './match.ts';

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

test('the index answers what reading every trigger does, and so does explaining; nothing throws', () => {
  fc.assert(
    fc.property(fleet, fc.array(event, { minLength: 1, maxLength: 4 }), (triggers, events) => {
      const index = createTriggerIndex(triggers);
      for (const each of events) {
        const naive = matchEach(triggers, each);
        assert.deepEqual(index.match(each), naive);
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
