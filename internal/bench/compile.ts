// Compile of 1,000 agents with shared fragments, held against what the YAML library alone needs for the same bytes; and
// the same tree again after one file has changed, with the cache of the first compile.

import { parseAllDocuments } from 'yaml';
import { compile, createCompileCache } from '../core/compile/compile.ts';
import type { CompileCache, CompileInput, CompileOutput } from '../core/compile/types.ts';
import type { Bundle } from '../domain/bundle.ts';
import { defaultCatalog } from '../base/config/default-catalog.ts';
import { sha256 } from '../base/hash.ts';
import { toBundle } from './bundle.ts';
import { fleet } from './fleet.ts';
import { type Bench, inTurns, median, ms, nothing, timed } from './harness.ts';

const agentCount = 1_000;
const runs = 5;
/** Each is a twentieth of the work of a full compile: as many as make the engine know what it runs as well. */
const changes = 25;

function run(bundle: Bundle, cache?: CompileCache): CompileOutput {
  const input: CompileInput = {
    bundle,
    context: {},
    catalog: defaultCatalog,
    templates: new Map(),
    sha256,
    ...(cache !== undefined && { cache }),
  };
  const output = compile(input);
  if (!output.ok) throw new Error(`the bench tree does not compile: ${JSON.stringify(output.diagnostics.slice(0, 3))}`);
  const agents = output.resources.filter((resource) => resource.kind === 'Agent').length;
  if (agents !== agentCount) throw new Error(`${agents} agents came out, not ${agentCount}`);
  return output;
}

function changeOne(files: Map<string, string>, turn: number): void {
  const path = `.svc/agents/agent-${turn + 100}.yaml`;
  files.set(
    path,
    (files.get(path) ?? '').replace('Look through what is open.', `Look through what is open (${turn}).`),
  );
}

export const bench: Bench = {
  name: 'compile',
  title: `compile of ${agentCount} agents with shared fragments`,
  run: async (bench) => {
    const files = fleet(agentCount);
    const texts = [...files.values()];
    const whole = toBundle(files);
    const parse = (): void => {
      for (const text of texts) parseAllDocuments(text);
    };
    const [full = nothing, parsing = nothing] = await inTurns(runs, [() => run(whole), parse]);
    // Plain files are read without the library (docs/adr/0017-plain-yaml-in-one-pass.md): what is left is all else.
    bench.ratio('full compile / parseAllDocuments', full, parsing, 2);

    const cache = createCompileCache();
    run(whole, cache);
    const changed: number[] = [];
    for (let turn = 0; turn <= changes; turn += 1) {
      changeOne(files, turn);
      const bundle = toBundle(files);
      const took = await timed(() => run(bundle, cache));
      if (turn > 0) changed.push(took);
    }
    bench.ratio('after a one-file change / full compile', ms(median(changed)), full, 1 / 20);
  },
};
