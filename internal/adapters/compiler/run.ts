// One compile with what the core does not have: a hash function, a cache that outlives the call, and a hash for each resource.

import { createHash } from 'node:crypto';
import { compile, createCompileCache } from '../../core/compile/compile.ts';
import type { CompileInput, CompileOutput } from '../../core/compile/types.ts';
import { canonicalJson } from '../../words/json.ts';
import { asJson, type Resource } from '../../words/spec.ts';

export type CompilerInput = Omit<CompileInput, 'sha256' | 'cache'>;
/** `hash` is the lower-case hex SHA-256 of the canonical JSON of `spec`: equal hashes mean an unchanged resource. */
export type CompiledResource = Resource & { readonly hash: string };
export type CompiledOutput = Omit<CompileOutput, 'resources'> & { readonly resources: readonly CompiledResource[] };

const sha256 = (data: Uint8Array | string): string => createHash('sha256').update(data).digest('hex');

/** A function that compiles, and is faster on what it has compiled before. */
export function createRunner(): (input: CompilerInput) => CompiledOutput {
  const cache = createCompileCache();
  // A spec that comes out of the cache is the same object again.
  const hashes = new WeakMap<object, string>();
  const hashOf = ({ spec }: Resource): string => {
    const hash = hashes.get(spec) ?? sha256(canonicalJson(asJson(spec)));
    hashes.set(spec, hash);
    return hash;
  };
  return (input) => {
    const output = compile({ ...input, sha256, cache });
    return { ...output, resources: output.resources.map((resource) => ({ ...resource, hash: hashOf(resource) })) };
  };
}
