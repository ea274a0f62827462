// One compile with what the core does not have: a hash function, a cache that outlives the call, and a hash for each resource.

import { compile, createCompileCache } from '../../core/compile/compile.ts';
import type { CompileInput, CompileOutput } from '../../core/compile/types.ts';
import { canonicalJson } from '../../domain/json.ts';
import { asJson, type Resource } from '../../domain/spec.ts';
import { sha256 } from '../../base/hash.ts';

export type CompilerInput = Omit<CompileInput, 'sha256' | 'cache' | 'passed'>;
/** `hash` is the lower-case hex SHA-256 of the canonical JSON of `spec`: equal hashes mean an unchanged resource. */
export type CompiledResource = Resource & { readonly hash: string };
export type CompiledOutput = Omit<CompileOutput, 'resources'> & {
  readonly resources: readonly CompiledResource[];
  /** Characters of the canonical JSON of all resources. */
  readonly size: number;
};

/** Compiles, and is faster on what it has compiled before. */
export interface Runner {
  readonly run: (input: CompilerInput) => CompiledOutput;
  /** Characters of the canonical JSON of a resource that it gave. */
  readonly sizeOf: (resource: CompiledResource) => number;
}

/** A runner with a cache of its own. */
export function createRunner(passed?: CompileInput['passed']): Runner {
  const cache = createCompileCache();
  // A spec that comes out of the cache is the same object again.
  const known = new WeakMap<object, { readonly hash: string; readonly size: number }>();
  const measure = ({ spec }: Resource): { readonly hash: string; readonly size: number } => {
    const found = known.get(spec);
    if (found !== undefined) return found;
    const text = canonicalJson(asJson(spec));
    const made = { hash: sha256(text), size: text.length };
    known.set(spec, made);
    passed?.(text.length);
    return made;
  };
  return {
    run: (input) => {
      const output = compile({ ...input, sha256, cache, ...(passed !== undefined && { passed }) });
      let size = 0;
      const resources = output.resources.map((resource) => {
        const measured = measure(resource);
        size += measured.size;
        return { ...resource, hash: measured.hash };
      });
      return { ...output, resources, size };
    },
    sizeOf: (resource) => measure(resource).size,
  };
}
