import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { AgentSpec, EnvironmentSpec, IdentitySpec } from '../../domain/spec.ts';
import { agent, applied, emptyState, environment, identity, options, tree, type World } from './fixture.ts';
import { plan } from './plan.ts';
import type { Desired, DesiredAsset, PlanOptions } from './types.ts';

// testdata/plan/<case>/case.json holds trees applied one after the other; plan.json beside it is what the last gives.
interface Step {
  readonly owner?: string | null;
  readonly options?: Partial<PlanOptions>;
  readonly agents?: { readonly [name: string]: Partial<AgentSpec> };
  readonly environments?: { readonly [name: string]: Partial<EnvironmentSpec> };
  readonly identities?: { readonly [name: string]: IdentitySpec };
  readonly assets?: readonly DesiredAsset[];
  readonly places?: Desired['places'];
  readonly noSvc?: true;
}
interface Case {
  readonly title: string;
  readonly world?: World;
  readonly steps: readonly Step[];
}

const root = join(import.meta.dirname, '../../../testdata/plan');

function treeOf(step: Step): Desired {
  const resources = [
    ...Object.entries(step.agents ?? {}).map(([name, spec]) => agent(name, spec)),
    ...Object.entries(step.environments ?? {}).map(([name, spec]) => environment(name, spec)),
    ...Object.entries(step.identities ?? {}).map(([name, spec]) => identity(name, spec)),
  ];
  const base = tree(resources, step.assets);
  return { ...base, hasSvc: step.noSvc !== true, ...(step.places === undefined ? {} : { places: step.places }) };
}

/** Rows to write are shown without the specs that the case itself gives. */
const withoutSpecs = (set: unknown): string =>
  JSON.stringify(set, (key, value: unknown) => (key === 'spec' ? undefined : value), 2);

const cases = readdirSync(root).sort();
assert.ok(cases.length >= 10, 'the golden cases are there');

for (const name of cases) {
  const given = JSON.parse(readFileSync(join(root, name, 'case.json'), 'utf8')) as Case;
  test(given.title, (t) => {
    let current = emptyState(given.world);
    given.steps.forEach((step, index) => {
      const owner = step.owner === undefined ? 'one' : step.owner;
      const set = plan(treeOf(step), current, options({ owner, ...step.options }));
      if (index === given.steps.length - 1) {
        t.assert.fileSnapshot(set, join(root, name, 'plan.json'), { serializers: [withoutSpecs] });
        return;
      }
      assert.deepEqual(set.diagnostics, [], `step ${index} applies`);
      current = applied(current, set, owner);
    });
  });
}
