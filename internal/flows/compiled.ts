// The last answer of the compiler for each repository, kept in memory by what went in: a sync whose files, context and
// templates are those of the last one neither reads the files nor asks the worker. Bounded; what is dropped is made
// again. Only whole answers are kept, and what went in is compared in full, never by the commit.

import { createHash } from 'node:crypto';
import { sha256 } from '../base/hash.ts';
import type { StoredSnapshot } from '../adapters/store/repositories/snapshots.ts';
import type { CompileOutput } from '../core/compile/types.ts';
import type { Action } from '../core/plan/types.ts';
import type { ResolvedTemplate, UnresolvedTemplate } from '../domain/bundle.ts';
import type { Diagnostic } from '../domain/diagnostic.ts';
import { canonicalJson } from '../domain/json.ts';

/** Characters of canonical JSON that are kept, of all repositories together. */
const charactersMax = 32 * 1024 * 1024;
/** What an entry of a snapshot counts: its path, its id and what holds them. */
const entryCharacters = 160;

export type Templates = ReadonlyMap<string, ResolvedTemplate | UnresolvedTemplate>;

export interface Cached {
  /** Of the files and the context. */
  readonly inputs: string;
  /** Specifiers that compile asked for, and what they resolved to. */
  readonly specifiers: readonly string[];
  readonly templates: string;
  readonly output: CompileOutput;
  readonly size: number;
  /** What was compiled, which is never changed where it is stored. */
  readonly snapshot: StoredSnapshot & { readonly id: string };
}

/** What the last apply of a compiled tree left behind. */
export interface KeptPlan {
  /** Project, owner and options: whatever besides tree and state decides a plan. */
  readonly settings: string;
  readonly orgId: string;
  /** Of the state that it left, made by the database: it stands for all that a plan would compare. */
  readonly digest: string;
  readonly actions: readonly Action[];
  readonly webhooks: readonly unknown[];
  /** Of the plan itself: warnings, since one with an error leaves nothing behind. */
  readonly diagnostics: readonly Diagnostic[];
}

export interface CompiledAnswers {
  /** The last answer, where files and context are those of `inputs`. */
  find(repositoryId: string, inputs: string): Cached | undefined;
  /** The stored snapshot of that id, where it is the last answer's. */
  snapshotOf(repositoryId: string, snapshotId: string): Cached['snapshot'] | undefined;
  keep(repositoryId: string, kept: Cached): void;
  forget(repositoryId: string): void;
  /** What the last apply of an answer that is kept left behind, and what one did; nothing where it is not kept. */
  planOf(repositoryId: string, output: CompileOutput): KeptPlan | undefined;
  keepPlan(repositoryId: string, output: CompileOutput, plan: KeptPlan): void;
}

/** Answers of the repositories used last, `maxCharacters` in all; those used longest ago go first. */
export function createCompiledAnswers(maxCharacters = charactersMax): CompiledAnswers {
  // The one used last stands last.
  const answers = new Map<string, Cached>();
  const plans = new WeakMap<CompileOutput, KeptPlan>();
  let characters = 0;
  const forget = (id: string): void => {
    characters -= answers.get(id)?.size ?? 0;
    answers.delete(id);
  };
  return {
    find(id, inputs) {
      const found = answers.get(id);
      if (found === undefined || found.inputs !== inputs) return undefined;
      answers.delete(id);
      answers.set(id, found);
      return found;
    },
    snapshotOf(id, snapshotId) {
      const snapshot = answers.get(id)?.snapshot;
      return snapshot?.id === snapshotId ? snapshot : undefined;
    },
    keep(id, given) {
      forget(id);
      const kept = { ...given, size: given.size + given.snapshot.entries.length * entryCharacters };
      if (kept.size > maxCharacters / 2) return;
      answers.set(id, kept);
      characters += kept.size;
      for (const oldest of answers.keys()) {
        if (characters <= maxCharacters) break;
        forget(oldest);
      }
    },
    forget,
    planOf: (id, output) => (answers.get(id)?.output === output ? plans.get(output) : undefined),
    keepPlan(id, output, plan) {
      if (answers.get(id)?.output === output) plans.set(output, plan);
    },
  };
}

/** One text for the files of a tree and the context that it is compiled with. */
export function inputsKey(record: StoredSnapshot, context: { readonly [name: string]: string }): string {
  const files = filesKeys.get(record) ?? filesKey(record);
  filesKeys.set(record, files);
  return sha256(JSON.stringify([files, canonicalJson(context)]));
}

/** Of records that are kept: the same one is asked for with every sync that changes nothing. */
const filesKeys = new WeakMap<StoredSnapshot, string>();

function filesKey(record: StoredSnapshot): string {
  const hash = createHash('sha256');
  const lines = record.entries.map(({ path, kind, oid, tooLarge }) => JSON.stringify([path, kind, oid, tooLarge]));
  hash.update(lines.sort().join('\n'));
  hash.update(JSON.stringify([record.absent.toSorted(), record.hasSvc]));
  return hash.digest('hex');
}

/** One text for what templates resolved to; undefined where one did not. */
export function templatesKey(templates: Templates): string | undefined {
  const lines: string[] = [];
  for (const [specifier, template] of templates) {
    if ('error' in template) return undefined;
    lines.push(JSON.stringify([specifier, template.name, template.version, template.integrity]));
  }
  return lines.sort().join('\n');
}
