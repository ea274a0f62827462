// A directory on this machine, read and compiled as the daemon would (docs/reference/cli.md): the same folder driver, the
// same compile, the same shipped catalog and templates, and those of the configuration file where one is named.

import { existsSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { openRepository } from '../../adapters/repo/repo.ts';
import { defaultCatalog } from '../../base/config/default-catalog.ts';
import { compile, needRoundsMax } from '../../core/compile/compile.ts';
import type { CompileInput, CompileOutput } from '../../core/compile/types.ts';
import type { Bundle, ResolvedTemplate, UnresolvedTemplate } from '../../domain/bundle.ts';
import type { Catalog } from '../../domain/catalog.ts';
import type { Diagnostic } from '../../domain/diagnostic.ts';
import type { Resource } from '../../domain/spec.ts';
import { UsageError, Refusal, refusal } from './failure.ts';
import type { OfflineSettings } from './offline-config.ts';
import { usageOf } from './parse.ts';
import { contextOf } from './settings.ts';
import type { Call } from './types.ts';
import { gitId, sha256 } from '../../base/hash.ts';

export interface CompiledTree {
  readonly bundle: Bundle;
  readonly output: Pick<CompileOutput, 'ok' | 'resources' | 'diagnostics'>;
}

export interface CompileEnvironment {
  readonly catalog: Catalog;
  readonly resolveTemplates: (
    specifiers: readonly string[],
  ) => Promise<ReadonlyMap<string, ResolvedTemplate | UnresolvedTemplate>>;
}

/** Past either, a tree is compiled where its time and memory are limited, as the daemon does it; starting that takes a while. */
const inlineBytes = 16 * 1024;
const inlineFiles = 16;

type Compiling = (input: Omit<CompileInput, 'sha256'>) => CompileOutput | Promise<CompileOutput>;

/** Compiles here while the tree is small, else in a worker that is stopped at its limits. */
function compiling(): { readonly compile: Compiling; readonly stop: () => Promise<void> } {
  let worker: { readonly compile: Compiling; readonly stop: () => Promise<void> } | undefined;
  return {
    compile: async (input) => {
      let bytes = 0;
      for (const entry of input.bundle.entries.values()) bytes += entry.bytes?.length ?? 0;
      if (bytes <= inlineBytes && input.bundle.entries.size <= inlineFiles) return compile({ ...input, sha256 });
      worker ??= (await import('../../adapters/compiler/compiler.ts')).startCompiler({ workers: 1 });
      const output = await worker.compile(input);
      // Printed alike however it was compiled.
      return { ...output, resources: output.resources.map(withoutHash) };
    },
    stop: async () => worker?.stop(),
  };
}

function withoutHash(resource: Resource & { readonly hash?: string }): Resource {
  const { hash: _hash, ...rest } = resource;
  return rest;
}

/** PATH; where it is left out, here, if a tree is here. */
export function treePath(call: Call): string {
  const given = call.optionalArg('PATH');
  if (given !== undefined) return given;
  if (existsSync(join(call.io.cwd, '.svc'))) return '.';
  throw new UsageError('PATH is missing, and there is no .svc/ here', `usage: ${usageOf(call.command)}`);
}

/** Reads and compiles PATH. UsageError where it is no directory; a directory without `.svc/` is compile's error. */
export async function compileTree(call: Call): Promise<CompiledTree> {
  const given = treePath(call);
  const path = resolve(call.io.cwd, given);
  const context = contextOf(call);
  await requireDirectory(path, given);
  return compileDirectory({ path, context, surroundings: await surroundingsOf(call), now: call.io.now });
}

interface Asked {
  readonly path: string;
  readonly context: { readonly [name: string]: string };
  readonly surroundings: CompileEnvironment;
  readonly now: () => Date;
  /** Bytes in place of what lies on the disk, by path from the root. */
  readonly overlay?: ReadonlyMap<string, Uint8Array>;
}

/** Reads and compiles a directory, round by round until nothing is missing. */
export async function compileDirectory({ path, context, surroundings, now, overlay }: Asked): Promise<CompiledTree> {
  const { catalog, resolveTemplates } = surroundings;
  const compiler = compiling();
  const source = openRepository({ kind: 'folder', path, root: '' }, { now });
  try {
    let snapshot = await source.snapshot(await source.resolve());
    const templates = new Map<string, ResolvedTemplate | UnresolvedTemplate>();
    for (let round = 0; round <= needRoundsMax; round++) {
      if (snapshot.bundle === null) throw new Error('a folder that was read without a prior read has no files');
      const bundle = overlay === undefined ? snapshot.bundle : laidOver(snapshot.bundle, overlay);
      const output = await compiler.compile({ bundle, context, catalog, templates });
      const { needs } = output;
      if (needs.paths.length === 0 && needs.templates.length === 0) {
        return { bundle, output: withRemarks(output, snapshot.findings) };
      }
      for (const [name, template] of await resolveTemplates(needs.templates)) templates.set(name, template);
      if (needs.paths.length > 0) snapshot = await source.more(snapshot, needs.paths);
    }
    throw refusal('compile-needs', 'the tree asks for more files in every round');
  } catch (error) {
    throw conditionOf(error);
  } finally {
    await compiler.stop();
    await source.close();
  }
}

function laidOver(bundle: Bundle, overlay: ReadonlyMap<string, Uint8Array>): Bundle {
  const entries = new Map(bundle.entries);
  for (const [path, bytes] of overlay) {
    // What lies outside `.svc/` counts where something names it.
    const there = entries.get(path);
    if (!path.startsWith('.svc/') && there === undefined) continue;
    // What is open is what a link leads to: the tree has the link.
    if (there !== undefined && there.kind !== 'file') continue;
    entries.set(path, { path, kind: 'file', oid: gitId('blob', bytes), bytes });
  }
  return { ...bundle, entries, hasSvc: bundle.hasSvc || overlay.size > 0 };
}

/** What a tree compiles to; one that cannot be read within its bounds is the author's mistake like any other. */
export async function compileOutput(call: Call, strict = false): Promise<CompiledTree['output']> {
  const compiling = compileTree(call);
  if (!strict) return outputOf(compiling);
  const { unknownRootKeys } = await import('./strict.ts');
  return outputOf(
    compiling.then(({ bundle, output }) => ({ bundle, output: withMore(output, unknownRootKeys(bundle)) })),
  );
}

/** The output of a compile; that of a tree which cannot be read says so. */
export async function outputOf(compiling: Promise<CompiledTree>): Promise<CompiledTree['output']> {
  try {
    return (await compiling).output;
  } catch (error) {
    const diagnostic = error instanceof Refusal ? unreadable(error) : undefined;
    if (diagnostic === undefined) throw error;
    return { ok: false, resources: [], diagnostics: [diagnostic] };
  }
}

function unreadable({ problem, message }: Refusal): Diagnostic | undefined {
  if (problem.code === 'too-large') return { severity: 'error', code: 'tree-too-large', message };
  if (problem.code !== 'hostile') return undefined;
  const other = message.startsWith('.svc is a submodule') ? 'submodule-refused' : 'hostile-path';
  const code = message.includes('symbolic link') ? 'symlink-refused' : other;
  return { severity: 'error', code, message, ...(message.startsWith('.svc is ') && { file: '.svc' }) };
}

// What the folder driver says of names that cannot be in git, beside what compile found.
function withRemarks(
  output: CompileOutput,
  remarks: readonly { rule: string; path: string; message: string }[],
): CompiledTree['output'] {
  const found = remarks
    .filter((remark) => remark.rule !== 'too-large')
    .map(
      (remark): Diagnostic => ({
        severity: 'warning',
        code: 'hostile-path',
        message: remark.message,
        file: remark.path,
      }),
    );
  return withMore(output, found);
}

function withMore(output: CompiledTree['output'], found: readonly Diagnostic[]): CompiledTree['output'] {
  if (found.length === 0) return output;
  const byPlace = (a: Diagnostic, b: Diagnostic): number => {
    const [left, right] = [a.file ?? '', b.file ?? ''];
    return left < right ? -1 : left > right ? 1 : (a.line ?? 0) - (b.line ?? 0);
  };
  return { ...output, diagnostics: [...output.diagnostics, ...found].sort(byPlace) };
}

// A folder that cannot be read within its bounds is a refusal with the condition's own word.
function conditionOf(error: unknown): unknown {
  const { condition, message } = Object(error) as { condition?: unknown; message?: unknown };
  return typeof condition === 'string' ? refusal(condition, String(message)) : error;
}

async function requireDirectory(path: string, given: string): Promise<void> {
  const found = await stat(path).catch((error: NodeJS.ErrnoException) => {
    throw new UsageError(`${given} cannot be read (${error.code})`, 'PATH is the directory that holds .svc/');
  });
  if (!found.isDirectory())
    throw new UsageError(`${given} is not a directory`, 'PATH is the directory that holds .svc/');
}

/** Catalog and template sources: shipped, and extended by the configuration file (`--config`, SVC_CONFIG). */
export async function surroundingsOf(call: Call): Promise<CompileEnvironment> {
  const settings = await settingsOf(call);
  const allowPrivate =
    settings?.allowPrivateNetwork ?? /^(?:true|1)$/.test(call.io.env['SVC_ALLOW_PRIVATE_NETWORK'] ?? '');
  return {
    catalog: settings?.catalog ?? defaultCatalog,
    // Loaded only when a tree imports one: the resolver brings an HTTP client along.
    resolveTemplates: async (specifiers) => {
      if (specifiers.length === 0) return new Map();
      const { resolveTemplates } = await import('../../adapters/providers/templates/templates.ts');
      return resolveTemplates(specifiers, {
        sources: settings?.templateSources ?? [],
        network: { allowPrivate },
        signal: call.io.signal,
      });
    },
  };
}

async function settingsOf(call: Call): Promise<OfflineSettings | undefined> {
  const flag = call.text('config');
  if (flag === undefined && !call.io.env['SVC_CONFIG']) return undefined;
  const { loadOfflineConfig } = await import('./offline-config.ts');
  return loadOfflineConfig(call, flag);
}
