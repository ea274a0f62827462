import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { type GoldenCase, print, routeCase } from './fixture.ts';
import { route, triggerKey } from './route.ts';

const directory = new URL('../../../testdata/route/', import.meta.url);
const files = readdirSync(directory).filter((name) => name.endsWith('.json'));
const casesOf = (name: string): readonly GoldenCase[] =>
  JSON.parse(readFileSync(new URL(name, directory), 'utf8')) as readonly GoldenCase[];

test('there are cases for every part of the rules', () => {
  assert.deepEqual(files.map((name) => name.replace('.json', '')).sort(), [
    'attributed',
    'bind',
    'deliver',
    'mention',
    'observed',
    'release',
    'spawn',
  ]);
});

for (const file of files) {
  describe(file.replace('.json', ''), () => {
    for (const one of casesOf(file)) {
      test(one.says, () => {
        const { event, triggers, snapshot } = routeCase(one);
        assert.deepEqual(print(route(event, triggers, snapshot)), one.gives);
      });
    }
  });
}

const all = files.flatMap(casesOf);

test('deciding is a function: the same world gives the same decisions, and what was routed is never decided again', () => {
  const subset = fc.record({ at: fc.nat({ max: all.length - 1 }), mask: fc.nat({ max: 7 }) });
  fc.assert(
    fc.property(subset, ({ at, mask }) => {
      const { event, triggers, snapshot } = routeCase(all[at] as GoldenCase);
      assert.deepEqual(route(event, triggers, snapshot), route(event, triggers, snapshot));
      const routed = new Set(triggers.filter((_, index) => (mask >> index) & 1).map(triggerKey));
      const { decisions } = route(event, triggers, { ...snapshot, routed });
      assert.equal(new Set(decisions.map((one) => one.trigger)).size, decisions.length);
      for (const { trigger } of decisions) assert.ok(!routed.has(trigger));
    }),
    { numRuns: 500 },
  );
});

test('whatever the triggers, an event makes one session per trigger at most, one per slot and thread, one binding per target', () => {
  const many = fc.record({
    world: fc.constantFrom(...all),
    routings: fc.array(fc.constantFrom(...all.flatMap((one) => one.triggers)), { maxLength: 6 }),
  });
  fc.assert(
    fc.property(many, ({ world, routings }) => {
      const mixed: GoldenCase = {
        ...world,
        triggers: routings.map((one, ordinal) => ({
          agent: 'a',
          ordinal,
          routing: 'routing' in one ? one.routing : one,
        })),
      };
      const { event, triggers, snapshot } = routeCase(mixed);
      const { autoBinds, decisions } = route(event, triggers, snapshot);
      const spawns = decisions.filter((one) => one.spawn !== null);
      for (const claim of ['slot', 'thread'] as const) {
        assert.ok(spawns.filter((one) => one.spawn?.[claim]).length <= 1, claim);
      }
      const made = new Set(spawns.map((one) => one.trigger));
      for (const one of decisions) {
        const isReached = one.deliverTo.length > 0;
        if (one.decision === 'unmatched-spawn' || !one.decision.startsWith('unmatched')) {
          assert.ok(isReached || one.decision === 'released', one.decision);
        } else {
          assert.ok(!isReached && one.spawn === null, one.decision);
        }
        for (const ref of one.deliverTo) if ('spawnedBy' in ref) assert.ok(made.has(ref.spawnedBy));
      }
      const held = new Set(snapshot.bindings.map((one) => `${one.agentId} ${one.target.type} ${one.target.key}`));
      for (const effect of [...autoBinds, ...decisions.flatMap((one) => one.effects)]) {
        const key = `${effect.agentId} ${effect.target.type} ${effect.target.key}`;
        if (effect.kind === 'release') assert.ok(held.delete(key), 'what is released is bound');
        else assert.equal(effect.takesOver, held.has(key), 'a second binding takes the first over');
        if (effect.kind === 'bind') held.add(key);
      }
    }),
    { numRuns: 3_000 },
  );
});
