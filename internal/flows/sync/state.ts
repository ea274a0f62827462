// What a plan compares with, read so that a fleet's specs are never in memory together. Writes nothing.

import { mapInSlices } from '../../base/concurrency.ts';
import { sha256 } from '../../base/hash.ts';
import { passed } from '../../base/passing.ts';
import { readAgentSpecs, readCurrent, type ReadOptions } from '../../adapters/store/resources/agents.ts';
import { readGeneratedSpecs } from '../../adapters/store/resources/generated.ts';
import { readTriggerSpecs } from '../../adapters/store/resources/triggers.ts';
import type { Sql } from '../../adapters/store/store.ts';
import { drifted, specsNeeded } from '../../core/plan/plan.ts';
import type { Current, Desired } from '../../core/plan/types.ts';
import { canonicalJson, type Json } from '../../domain/json.ts';

interface Scope extends ReadOptions {
  /** Compare every row with what it should be, not only its hash. */
  readonly verify: boolean;
}

/** The stored state, with the specs that the plan has to look into: those that differ, or all where drift is looked for. */
export async function readState(tx: Sql, scope: Scope, desired: Desired): Promise<Current> {
  const { projectId, verify } = scope;
  const state = await readCurrent(tx, scope);
  const needed = verify ? { agents: null, generated: null } : specsNeeded(desired, state);
  const wanted = new Map(desired.resources.map(({ kind, name, hash }) => [`${kind}/${name}`, hash]));
  const triggers = verify ? await readTriggerSpecs(tx, projectId) : undefined;
  return {
    ...state,
    agents: await lookedInto(state.agents, {
      ...{ verify, ids: needed.agents, wanted: ({ name }) => wanted.get(`Agent/${name}`) },
      read: (ids) => readAgentSpecs(tx, projectId, ids, specBytes),
    }),
    generated: await lookedInto(state.generated, {
      ...{ verify, ids: needed.generated, wanted: ({ kind, name }) => wanted.get(`${kind}/${name}`) },
      read: (ids) => readGeneratedSpecs(tx, projectId, ids, specBytes),
    }),
    triggers: await mapInSlices(state.triggers, (row) => {
      const spec = triggers?.get(`${row.agentId}/${row.ordinal}`);
      return spec === undefined ? row : { ...row, hash: actualHash(row.hash, spec) };
    }),
  };
}

/** Bytes of specs that are read at a time. */
const specBytes = 8 * 1024 * 1024;

/**
 * The rows, with the spec of those with these ids, all for null. Where drift is looked for each has the hash of its spec as
 * it is, and one that is as it is wanted has no spec: those of a fleet are not in memory together.
 */
async function lookedInto<T extends { readonly id: string; readonly hash: string }>(
  rows: readonly T[],
  look: {
    readonly verify: boolean;
    readonly ids: readonly string[] | null;
    readonly wanted: (row: T) => string | undefined;
    readonly read: (ids: readonly string[]) => Promise<ReadonlyMap<string, Json>>;
  },
): Promise<readonly T[]> {
  const ids = new Set(look.ids ?? rows.map((row) => row.id));
  if (ids.size === 0) return rows;
  const looked = new Map<string, T>();
  let left = rows.filter((row) => ids.has(row.id));
  while (left.length > 0) {
    const specs = await look.read(left.map((row) => row.id));
    if (specs.size === 0) break;
    const some = left.filter((row) => specs.has(row.id));
    left = left.filter((row) => !specs.has(row.id));
    await mapInSlices(some, (row) => {
      const spec = specs.get(row.id) as Json;
      const hash = look.verify ? actualHash(row.hash, spec) : row.hash;
      const isWanted = look.verify && hash === look.wanted(row);
      looked.set(row.id, { ...row, hash, ...(!isWanted && { spec }) });
    });
  }
  return rows.map((row) => looked.get(row.id) ?? row);
}

/** The hash of a row as it is; a row whose stored hash is not that of its text equals nothing. */
function actualHash(stored: string, spec: Json): string {
  const text = canonicalJson(spec);
  const actual = sha256(text);
  // As it came, what it was read into, and its canonical text.
  passed(2 * text.length);
  return actual === stored ? actual : `${drifted}${actual}`;
}
