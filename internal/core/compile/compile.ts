// A tree of files → the resources that it declares, or every finding about it at once (docs/reference/compile.md). It decides
// which files are agents, how imports, variables, `remove` and merging make one document of several, and hands merged
// documents to their checks. It never reads a clock, a disk or the network: what it lacks (files outside `.svc/`, templates)
// it names in `needs`, and the caller supplies it and compiles again. Equal input gives equal output, byte for byte, in
// whatever order the files come and whatever a cache holds; it never throws on what an author wrote, and what it spends is
// bounded (limits.ts).

import type { Diagnostic, Finding, Origin, Origins, Place, Places, Range } from '../../domain/diagnostic.ts';
import { canonicalJson } from '../../domain/json.ts';
import type { BundleEntry, TemplateLock } from '../../domain/bundle.ts';
import { LineStarts, printDiagnostics } from '../source/source.ts';
import { type AgentRecord, Cache, lostRecord, passingCache } from './cache.ts';
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
  const wanted =
    typeof origins === 'object' ? survey.agents.filter(({ path }) => origins.includes(path)) : survey.agents;
  const lines = new LineTables((file) => files.textOf(file));
  const { records, unread } = compileAgents(input, wanted, { files, cache, lines });
  for (const record of records) for (const finding of record.findings) findings.add(finding);
  for (const finding of ignoredFiles(survey.unnamed, records)) findings.add(finding);
  if (files.outside.size > outsidePathsMax) findings.add(tooManyOutside(files.outside.size));
  const needs = { paths: [...files.neededPaths].sort(), templates: [...files.neededTemplates].sort() };
  const isWaiting = needs.paths.length > 0 || needs.templates.length > 0;
  const assembled = isWaiting ? undefined : assembleRecords(records, input, findings);
  const diagnostics = bounded(
    printDiagnostics(once(findings), (file) => files.textOf(file)),
    unread,
  );
  const sound = diagnostics.every(({ severity }) => severity !== 'error') ? assembled : undefined;
  return {
    ok: sound !== undefined,
    resources: sound?.resources ?? [],
    diagnostics,
    needs,
    templateLock: lockOf(input, records),
    outside: [...files.outside].sort(),
    ...(sound !== undefined && { places: placesOf(records) }),
    ...(origins !== undefined && { origins: originsIn(records, lines) }),
    assets: sound?.assets ?? [],
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

interface Shared {
  readonly files: Files;
  readonly cache: Cache;
  readonly lines: LineTables;
}

function compileAgents(input: CompileInput, agents: readonly BundleEntry[], { files, cache, lines }: Shared): Compiled {
  const context: AgentContext = {
    input,
    files,
    shared: new Map(),
    budget: new Budget(),
    scope: createScope(new Map(Object.entries(input.context))),
  };
  // What all agents depend on; half of a hash tells as well what is the same.
  const salt = input
    .sha256(canonicalJson([{ ...input.context }, JSON.parse(JSON.stringify(input.catalog)), input.root ?? '']))
    .slice(0, 32);
  const states = new States(input);
  const records: AgentRecord[] = [];
  const broken = { errors: 0, bytes: 0 };
  for (const { path, oid, bytes } of agents) {
    const size = bytes?.length ?? 0;
    const key = `${path}\0${oid}\0${salt}`;
    // What is kept has let its documents go, and with them what came from where.
    const kept = input.origins === undefined && bytes !== undefined ? cache.agents.get(key) : undefined;
    let record = kept;
    if (record !== undefined && states.isCurrent(record, path)) {
      for (const { kind, name } of record.dependencies) if (kind === 'path') files.named(name);
      for (const cost of record.costs) context.budget.pay(cost);
    } else {
      record = placed(compileAgentFile(path, context, kept !== undefined), lines);
      if (record.isKeepable && !context.budget.isSpent && input.origins === undefined) cache.agents.set(key, record);
      input.passed?.(size);
    }
    if (context.budget.isSpent) return { records: [...records, tooLargeTree(path)], unread: 0 };
    records.push(record);
    if (record.findings.length === 0) continue;
    const errors = record.findings.filter(({ severity }) => severity === 'error');
    broken.errors += errors.length;
    // What is wrong in a fragment says nothing of the size of those who import it.
    if (errors.some((error) => (error.range?.file ?? error.file) === path)) broken.bytes += size;
    // Whoever has so many to mend reads no more of them, and each further file takes time and memory.
    if (broken.errors > diagnosticsMax || broken.bytes > brokenBytesMax)
      return { records, unread: agents.length - records.length };
  }
  return { records, unread: 0 };
}

/** Stands for the file at which a tree has become too large; those after it are not read. */
function tooLargeTree(path: string): AgentRecord {
  return lostRecord({
    severity: 'error',
    code: 'tree-too-large',
    message: 'The agents up to this file are too large together, with all that they import',
    file: path,
    hint: 'Import smaller files, list fewer events in one trigger, or split the tree into several repositories.',
  });
}

/** What records rest on, as it is in one tree: most of it many of them rest on. */
class States {
  readonly #input: CompileInput;
  readonly #paths = new Map<string, string | null>();

  constructor(input: CompileInput) {
    this.#input = input;
  }

  /** True while everything that a record rests on is as it was, but for its own file, by whose content it was found. */
  isCurrent({ dependencies }: AgentRecord, own: string): boolean {
    for (const { kind, name, state } of dependencies) {
      if (kind === 'path' && name === own) continue;
      const now = kind === 'path' ? this.#pathState(name) : templateState(this.#input, name);
      if (now !== state) return false;
    }
    return true;
  }

  #pathState(path: string): string | null {
    const known = this.#paths.get(path);
    if (known !== undefined) return known;
    const made = pathState(this.#input.bundle, path);
    this.#paths.set(path, made);
    return made;
  }
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

/** Where the lines of files begin, looked for once in each. */
class LineTables {
  readonly #tables = new Map<string, LineStarts>();
  readonly #textOf: (file: string) => string | undefined;

  constructor(textOf: (file: string) => string | undefined) {
    this.#textOf = textOf;
  }

  of(file: string): LineStarts {
    const known = this.#tables.get(file);
    if (known !== undefined) return known;
    const made = new LineStarts(this.#textOf(file) ?? '');
    this.#tables.set(file, made);
    return made;
  }
}

/** The origins of the agents of records that were made to tell them, offsets as lines. */
function originsIn(records: readonly AgentRecord[], lines: LineTables): { readonly [agent: string]: Origins } {
  const agents: { [agent: string]: Origins } = Object.create(null);
  for (const { name, origins } of records.flatMap(({ drafts }) => drafts)) {
    if (name === undefined || origins === undefined) continue;
    const paths: { [path: string]: Origin } = Object.create(null);
    for (const { path, range, layer } of origins) {
      const line = range === undefined ? null : lines.of(range.file).at(range.start).line;
      paths[path] = { file: range?.file ?? null, line, layer };
    }
    agents[name.name] = paths;
  }
  return agents;
}

/** Turns the offsets of one file's parts into lines and columns; done once and kept with the record. */
function placed(record: AgentRecord, lines: LineTables): AgentRecord {
  const places: { [resource: string]: { [path: string]: Place } } = {};
  for (const { resource, path, range } of record.drafts.flatMap((draft) => draft.parts)) {
    const group = (places[resource] ??= {});
    group[path] ??= placeOf(range, lines.of(range.file));
  }
  return { ...record, drafts: record.drafts.map((draft) => ({ ...draft, parts: [] })), places };
}

function placeOf({ file, start, end }: Range, lines: LineStarts): Place {
  const [from, to] = [lines.at(start), lines.at(end)];
  return { file, line: from.line, column: from.column, endLine: to.line, endColumn: to.column };
}

/** The places of a whole tree; of a resource that several documents generate, those of the first. */
function placesOf(records: readonly AgentRecord[]): Places {
  const all: { [resource: string]: { readonly [path: string]: Place } } = {};
  for (const { places } of records) {
    if (places === undefined) continue;
    for (const resource of Object.keys(places)) all[resource] ??= places[resource] as Places[string];
  }
  return all;
}
