// Plan and apply of whole fleets against a real database: the number of statements must not depend on the number of
// agents, and a second apply of the same tree must write nothing.

import { compileInline } from '../adapters/compiler/compiler.ts';
import type { CompileOutput } from '../core/compile/types.ts';
import { defaultCatalog } from '../base/config/default-catalog.ts';
import { createBench } from '../flows/sync/apply-testkit.ts';
import { toBundle } from './bundle.ts';
import { fleet } from './fleet.ts';
import { rowsOf } from './rows.ts';
import { type Bench, type Bencher, ms, timed } from './harness.ts';

const fewAgents = 100;
const manyAgents = 1_000;

function compiled(agents: number): CompileOutput {
  // As the daemon gets it: each resource comes with its hash.
  const output = compileInline({
    bundle: toBundle(fleet(agents)),
    context: {},
    catalog: defaultCatalog,
    templates: new Map(),
  });
  if (!output.ok) throw new Error(`the bench tree does not compile: ${JSON.stringify(output.diagnostics.slice(0, 3))}`);
  return output;
}

interface Applied {
  readonly statements: number;
  readonly firstMs: number;
  readonly againMs: number;
  readonly againWrites: number;
}

async function applyTwice(bench: Bencher, agents: number): Promise<Applied> {
  const project = await createBench();
  bench.atEnd(() => project.close());
  const tree = compiled(agents);
  const owner = await project.addRepository('fleet');
  const apply = async (expected: string): Promise<{ took: number; statements: number }> => {
    const before = project.db.statements();
    let status = '';
    const took = await timed(async () => {
      const result = await project.apply(tree, { owner });
      status =
        `${result.status} ${result.diagnostics.filter((one) => one.severity === 'error')[0]?.message ?? ''}`.trim();
    });
    if (status !== expected) throw new Error(`an apply of ${agents} agents ended as ${status}, not ${expected}`);
    return { took, statements: project.db.statements() - before };
  };
  const first = await apply('applied');
  const before = await rowsOf(project.db, []);
  const again = await apply('unchanged');
  const third = await apply('unchanged');
  const after = await rowsOf(project.db, []);
  return {
    statements: first.statements,
    firstMs: first.took,
    againMs: (again.took + third.took) / 2,
    againWrites: before === after ? 0 : 1,
  };
}

export const bench: Bench = {
  name: 'apply',
  title: `plan and apply of ${manyAgents} agents`,
  run: async (bench) => {
    await applyTwice(bench, 10);
    const few = await applyTwice(bench, fewAgents);
    const many = await applyTwice(bench, manyAgents);
    const count = (value: number) => ({ value, unit: 'statements' }) as const;
    bench.ratio(
      `statements: ${manyAgents} agents / ${fewAgents} agents`,
      count(many.statements),
      count(few.statements),
      1,
    );
    bench.ratio('unchanged apply / first apply', ms(many.againMs), ms(many.firstMs), 1 / 14);
    bench.atMost('tables that an unchanged apply wrote to', many.againWrites, 0, 'tables');
  },
};
