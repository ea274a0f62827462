// A tree of files → the resources that it declares, or every finding about it at once (docs/reference/compile.md#files; docs/reference/compile.md#output).
// It decides which files are agents, how imports, variables, `remove` and merging make one document of
// several, and hands merged documents to their checks. It never reads a clock, a disk or the network: what it lacks
// (files outside `.svc/`, templates) it names in `needs`, and the caller supplies it and compiles again. Equal input
// gives equal output, byte for byte, in whatever order the files come and whatever a cache holds; it never throws on
// what an author wrote, and what it spends is bounded (limits.ts).

import type { Diagnostic, Finding, Origin, Origins, Place, Places, Range } from '../../domain/diagnostic.ts';
import { canonicalJson } from '../../domain/json.ts';
import type { TemplateLock } from '../../domain/bundle.ts';
import { LineStarts, printDiagnostics } from '../source/source.ts';
import { type AgentRecord, Cache, passingCache } from './cache.ts';
import { Budget } from './budget.ts';
import { type AgentContext, compileAgentFile } from './agent-file.ts';
import { assemble } from './assemble.ts';
import { Files, pathState, templateState } from './files.ts';
import { brokenBytesMax, diagnosticsMax, importDepthMax, outsidePathsMax } from './limits.ts';
import { ignoredFile, classifyTree } from './tree.ts';
import type { CompileCache, CompileInput, CompileOutput } from './types.ts';
import { createScope } from './variables.ts';

/** Each round can show needs one import deeper, and no import is deeper than the limit. */
export const needRoundsMax = importDepthMax + 1;

/** A cache for `CompileInput.cache`; bounded, and safe to share between trees. */
export function createCompileCache(): CompileCache {
  return new Cache();
}

/** Compiles a tree. Never throws on what an author wrote; see `CompileOutput` for what it gives. */
export function compile(input: CompileInput): CompileOutput {
  const cache = isKept(input) && input.cache instanceof Cache ? input.cache : passingCache();
  const files = new Files(input, cache);
  const survey = classifyTree(input.bundle);
  const findings = new Set<Finding>(survey.findings);
  const { origins } = input;
  const wanted = typeof origins === 'object' ? survey.agents.filter((path) => origins.includes(path)) : survey.agents;
  const tables: Tables = new Map();
  const { records, unread } = compileAgents(input, wanted, { files, cache, tables });
  for (const record of records) for (const finding of record.findings) findings.add(finding);
  for (const finding of ignoredFiles(survey.unnamed, records)) findings.add(finding);
  if (files.outside.size > outsidePathsMax) findings.add(tooManyOutside(files.outside.size));
  const needs = { paths: [...files.neededPaths].sort(), templates: [...files.neededTemplates].sort() };
  const isWaiting = needs.paths.length > 0 || needs.templates.length > 0;
  const assembled = isWaiting ? { resources: [], assets: [] } : assembleRecords(records, input, findings);
  const diagnostics = bounded(
    printDiagnostics(once(findings), (file) => files.textOf(file)),
    unread,
  );
  const ok = !isWaiting && diagnostics.every(({ severity }) => severity !== 'error');
  return {
    ok,
    resources: ok ? assembled.resources : [],
    diagnostics,
    needs,
    templateLock: lockOf(input, records),
    outside: [...files.outside].sort(),
    ...(ok && { places: placesOf(records) }),
    ...(origins !== undefined && { origins: originsIn(records, tables, (file) => files.textOf(file)) }),
    assets: ok ? assembled.assets : [],
  };
}

/** Bytes of a tree of which something is kept, whoever sent it. */
const keptBytesMax = 8 * 1024 * 1024;

/** Every file of a tree kept as well takes twice its memory, and whoever asks where all its values come from asks once. */
function isKept({ bundle, isSent, origins }: CompileInput): boolean {
  if (origins === 'all') return false;
  if (isSent !== true) return true;
  let bytes = 0;
  for (const entry of bundle.entries.values()) bytes += entry.bytes?.length ?? 0;
  return bytes <= keptBytesMax;
}

interface Compiled {
  readonly records: readonly AgentRecord[];
  /** Agent files behind the one that brought too many errors. */
  readonly unread: number;
}

/** Where the lines of files begin, by file; undefined for a file that is not there. */
type Tables = Map<string, LineStarts | undefined>;

interface Shared {
  readonly files: Files;
  readonly cache: Cache;
  readonly tables: Tables;
}

function compileAgents(input: CompileInput, paths: readonly string[], { files, cache, tables }: Shared): Compiled {
  const context: AgentContext = {
    input,
    files,
    shared: new Map(),
    budget: new Budget(),
    scope: createScope(new Map(Object.entries(input.context))),
    salt: input.sha256(canonicalJson([{ ...input.context }, JSON.parse(JSON.stringify(input.catalog))])),
  };
  const records: AgentRecord[] = [];
  const broken = { errors: 0, bytes: 0 };
  for (const path of paths) {
    const key = `${path}\0${input.bundle.entries.get(path)?.oid ?? ''}\0${context.salt}`;
    // What is kept has let its documents go, and with them what came from where.
    const kept = input.origins === undefined ? cache.agents.get(key) : undefined;
    if (kept !== undefined && isCurrent(kept, input)) {
      for (const { kind, name } of kept.dependencies) if (kind === 'path') files.named(name);
      for (const cost of kept.costs) context.budget.pay(cost);
      records.push(kept);
    } else {
      const record = placed(compileAgentFile(path, context, kept !== undefined), tables, (file) => files.textOf(file));
      if (record.isKeepable && !context.budget.isSpent && input.origins === undefined) cache.agents.set(key, record);
      records.push(record);
      input.passed?.(input.bundle.entries.get(path)?.bytes?.length ?? 0);
    }
    if (context.budget.isSpent) return { records: [...records.slice(0, -1), tooLargeTree(path)], unread: 0 };
    const errors = records.at(-1)?.findings.filter(({ severity }) => severity === 'error') ?? [];
    broken.errors += errors.length;
    // What is wrong in a fragment says nothing of the size of those who import it.
    if (errors.some((error) => (error.range?.file ?? error.file) === path))
      broken.bytes += input.bundle.entries.get(path)?.bytes?.length ?? 0;
    // Whoever has so many to mend reads no more of them, and each further file takes time and memory.
    if (broken.errors > diagnosticsMax || broken.bytes > brokenBytesMax)
      return { records, unread: paths.length - records.length };
  }
  return { records, unread: 0 };
}

/** Stands for the file at which a tree has become too large; those after it are not read. */
function tooLargeTree(path: string): AgentRecord {
  const finding: Finding = {
    severity: 'error',
    code: 'tree-too-large',
    message: 'The agents up to this file are too large together, with all that they import',
    file: path,
    hint: 'Import smaller files, or split the tree into several repositories.',
  };
  return { dependencies: [], findings: [finding], drafts: [], costs: [], isWhole: false, isKeepable: false };
}

/** True while everything that a record rests on is as it was. */
function isCurrent(record: AgentRecord, input: CompileInput): boolean {
  return record.dependencies.every(({ kind, name, state }) =>
    kind === 'path' ? pathState(input.bundle, name) === state : templateState(input, name) === state,
  );
}

/** Findings of the tree as a whole. What rests on a document that is not whole is not blamed on the others. */
function assembleRecords(records: readonly AgentRecord[], input: CompileInput, findings: Set<Finding>) {
  const isWhole = records.every((record) => record.isWhole);
  return assemble(
    records.flatMap((record) => record.drafts),
    input,
    (finding) => {
      if (isWhole || !(finding.code === 'environment-unknown' || finding.code === 'identity-unknown'))
        findings.add(finding);
    },
  );
}

function ignoredFiles(unnamed: readonly string[], records: readonly AgentRecord[]): Finding[] {
  if (unnamed.length === 0) return [];
  const used = new Set(records.flatMap(({ dependencies }) => dependencies.map(({ name }) => name)));
  return unnamed.filter((path) => !used.has(path)).map(ignoredFile);
}

/** Of the findings that name one cause by `once`, the first; `once` itself stays inside. */
function once(findings: Iterable<Finding & { readonly once?: string }>): Finding[] {
  const kept: Finding[] = [];
  const seen = new Set<string>();
  for (const finding of findings) {
    if (finding.once !== undefined) {
      const cause = `${finding.code} ${finding.once}`;
      if (seen.has(cause)) continue;
      seen.add(cause);
    }
    kept.push(finding);
  }
  return kept;
}

/** At most so many diagnostics, errors before warnings, and one that counts what is left out. */
function bounded(diagnostics: Diagnostic[], unread: number): Diagnostic[] {
  if (diagnostics.length <= diagnosticsMax && unread === 0) return diagnostics;
  const errors = diagnostics.filter(({ severity }) => severity === 'error');
  const warnings = diagnostics.filter(({ severity }) => severity !== 'error');
  const kept = new Set([...errors, ...warnings].slice(0, diagnosticsMax));
  const severity = errors.length > 0 ? 'error' : 'warning';
  const more = Math.max(0, diagnostics.length - diagnosticsMax);
  const files = `${unread} agent ${unread === 1 ? 'file was' : 'files were'} not read after so many errors`;
  const message = [...(more > 0 ? [`${more} more findings are not shown`] : []), ...(unread > 0 ? [files] : [])].join(
    '; ',
  );
  return [{ severity, code: 'too-many-findings', message }, ...diagnostics.filter((one) => kept.has(one))];
}

function tooManyOutside(count: number): Finding {
  return {
    severity: 'error',
    code: 'too-many-files',
    message: `The tree names ${count} files outside .svc/; at most ${outsidePathsMax} are read`,
    hint: 'Move shared files into .svc/fragments/.',
  };
}

function lockOf(input: CompileInput, records: readonly AgentRecord[]): TemplateLock {
  const names = new Set<string>();
  for (const { dependencies } of records) {
    for (const { kind, name } of dependencies) if (kind === 'template') names.add(name);
  }
  const lock: { [specifier: string]: { version: string; integrity: string } } = {};
  for (const name of [...names].sort()) {
    const template = input.templates.get(name);
    if (template !== undefined && !('error' in template)) {
      lock[name] = { version: template.version, integrity: template.integrity };
    }
  }
  return lock;
}

// What the records of agent files tell of places, offsets as lines and columns: where the parts stand that an apply may have
// to point at, and where the values come from.

/** The origins of the agents of records that were made to tell them, offsets as lines. */
export function originsIn(
  records: readonly AgentRecord[],
  tables: Tables,
  textOf: (file: string) => string | undefined,
): { readonly [agent: string]: Origins } {
  const lineOf = ({ file, start }: Range): number | null => {
    if (!tables.has(file)) {
      const text = textOf(file);
      tables.set(file, text === undefined ? undefined : new LineStarts(text));
    }
    return tables.get(file)?.at(start).line ?? null;
  };
  const agents: { [agent: string]: Origins } = Object.create(null);
  for (const { name, origins } of records.flatMap(({ drafts }) => drafts)) {
    if (name === undefined || origins === undefined) continue;
    const paths: { [path: string]: Origin } = Object.create(null);
    for (const { path, range, layer } of origins)
      paths[path] = { file: range?.file ?? null, line: range === undefined ? null : lineOf(range), layer };
    agents[name.name] = paths;
  }
  return agents;
}

/** Turns the offsets of one file's parts into lines and columns; done once and kept with the record. */
export function placed(record: AgentRecord, tables: Tables, textOf: (file: string) => string | undefined): AgentRecord {
  if (!record.isKeepable) return record;
  const places: { [resource: string]: { [path: string]: Place } } = {};
  for (const { resource, path, range } of record.drafts.flatMap((draft) => draft.parts)) {
    const group = (places[resource] ??= {});
    group[path] ??= placeOf(range, tables, textOf);
  }
  return { ...record, drafts: record.drafts.map((draft) => ({ ...draft, parts: [] })), places };
}

function placeOf(range: Range, tables: Tables, textOf: (file: string) => string | undefined): Place {
  if (!tables.has(range.file)) {
    const text = textOf(range.file);
    tables.set(range.file, text === undefined ? undefined : new LineStarts(text));
  }
  const table = tables.get(range.file);
  if (table === undefined) return { file: range.file };
  const [from, to] = [table.at(range.start), table.at(range.end)];
  return { file: range.file, line: from.line, column: from.column, endLine: to.line, endColumn: to.column };
}

/** The places of a whole tree; of a resource that several documents generate, those of the first. */
export function placesOf(records: readonly AgentRecord[]): Places {
  const all: { [resource: string]: { readonly [path: string]: Place } } = {};
  for (const { places } of records) {
    for (const [resource, group] of Object.entries(places ?? {})) all[resource] ??= group;
  }
  return all;
}
