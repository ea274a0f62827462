// One agent file → the drafts of its documents, with everything that it read written down, so that the result can be
// kept until one of those changes.

import type { Finding } from '../../domain/diagnostic.ts';
import type { SourceDocument } from '../source/source.ts';
import { tooLarge } from '../source/source.ts';
import { type Budget, type Cost, triggersWeight, weightOf } from './budget.ts';
import { type AgentRecord, type Dependency, lostRecord } from './cache.ts';
import { type AgentDraft, checkAgent } from './check-agent.ts';
import { envelopeOf } from './envelope.ts';
import type { Files } from './files.ts';
import { baseOf, Layering, type Loaded, type SharedLayers } from './layers.ts';
import { findingsMax } from './limits.ts';
import { appendWithoutBase } from './merge.ts';
import { treeFile } from './paths.ts';
import { written } from './strings.ts';
import type { CompileInput, MergedDocument } from './types.ts';
import { boundedReport, declareVariables, type LayerFinding, type Scope, Substituter } from './variables.ts';

/** What the agents of one compile share. */
export interface AgentContext {
  readonly input: CompileInput;
  readonly files: Files;
  readonly shared: SharedLayers;
  readonly budget: Budget;
  /** The context variables. */
  readonly scope: Scope;
}

/** What a field that may be in a missing import would be blamed for; left out while an import is missing. */
const absences: ReadonlySet<string> = new Set([
  'missing-field',
  'missing-harness',
  'missing-environment',
  'event-missing',
  'replace-requires-concurrency',
  'on-replace-requires-replace',
  'deliver-without-slot',
  'binding-held',
  'tool-capability',
  'attributions-exclusive',
]);

/** Errors of reading that leave nothing where a value was. */
const leftOut: ReadonlySet<string> = new Set([
  'yaml-alias',
  'non-string-key',
  'invalid-value',
  'nul-byte',
  'invalid-utf8',
]);

const fileBytesMax = 1024 * 1024;

/**
 * Compiles the documents of one agent file. Its parse is remembered only for one that was compiled before, from the same text:
 * what it makes is, and of a fleet that nobody changes the parses are never asked for.
 */
export function compileAgentFile(path: string, context: AgentContext, isKnown: boolean): AgentRecord {
  const ref = treeFile(path);
  const dependencies: Dependency[] = [];
  const found = context.files.find(ref, dependencies);
  if (found.kind !== 'file') return lostRecord(tooLarge(path, fileBytesMax));
  const source = context.files.source(ref, found.entry, found.bytes, isKnown);
  const record: Draft = { dependencies, findings: [...source.findings], drafts: [], costs: [] };
  let isWhole = !source.broken;
  for (const document of source.documents) {
    isWhole = compileDocument(path, document, source.findings, record, context) && isWhole;
  }
  const isKeepable = isWhole && record.findings.every(({ severity }) => severity !== 'error');
  return { ...record, dependencies: distinct(dependencies), isWhole, isKeepable };
}

/** What the documents of a file are gathered in. */
interface Draft {
  readonly dependencies: Dependency[];
  readonly findings: Finding[];
  readonly drafts: AgentDraft[];
  readonly costs: Cost[];
}

/** Adds a document to the record of its file; false where it is not whole. */
function compileDocument(
  path: string,
  document: SourceDocument,
  unread: readonly Finding[],
  record: Draft,
  context: AgentContext,
): boolean {
  const { root, index } = document;
  const envelope = envelopeOf(root);
  if (envelope !== null) {
    record.findings.push(envelope);
    return false;
  }
  const findings: LayerFinding[] = [];
  const report = boundedReport(findings, findingsMax * 5);
  const scope = declareVariables(written(root, 'variables'), context.scope, report);
  const name = `${path}#${index}`;
  const layering = new Layering(context, new Substituter(scope), name);
  const loaded = layering.entry(treeFile(path), document, baseOf(root));
  const costs = closure(loaded, report, record.dependencies);
  for (const [field, waiting] of loaded.layer.pending) {
    if (!loaded.isIncomplete && !loaded.lostTexts.has(field)) report(appendWithoutBase(field, waiting));
  }
  const merged: MergedDocument = {
    file: path,
    document: index,
    root: { kind: 'map', entries: loaded.layer.entries, range: root.range },
    own: root,
  };
  costs.push({ name, work: weightOf(merged.root) + triggersWeight(merged.root) });
  for (const cost of costs) context.budget.pay(cost);
  // A value in which a variable is left, or that could not be read, has been reported; what it is not besides would
  // only repeat that.
  const told = [...unread, ...findings].filter(({ code }) => code.startsWith('variable-') || leftOut.has(code));
  const blamed = new Set(told.map(placeOf));
  // What is too large is refused as a whole by who pays for the tree.
  const draft = context.budget.isSpent
    ? null
    : checkBounded(merged, context.input, (finding) => {
        if (loaded.isIncomplete && absences.has(finding.code)) return;
        if (!blamed.has(placeOf(finding))) report(finding);
      });
  record.findings.push(...findings);
  record.costs.push(...costs);
  if (draft !== null) record.drafts.push(draft);
  return !loaded.isIncomplete && draft !== null;
}

const placeOf = ({ range }: Finding): string => (range === undefined ? '' : `${range.file} ${range.start}`);

/** Ends the checks of a document that is nothing but errors; caught where it is thrown for. */
class TooManyErrors extends Error {}

/** Checks a document; null where it was given up because its errors are too many to be of use. */
function checkBounded(
  merged: MergedDocument,
  input: CompileInput,
  report: (finding: Finding) => void,
): AgentDraft | null {
  let errors = 0;
  try {
    return checkAgent(merged, input, (finding) => {
      report(finding);
      if (finding.severity === 'error' && ++errors > findingsMax * 10) throw new TooManyErrors();
    });
  } catch (error) {
    if (error instanceof TooManyErrors) return null;
    throw error;
  }
}

/**
 * Reports the findings of a document and of all that it imports, each document once; adds what they rest on, and gives what
 * they cost.
 */
function closure(loaded: Loaded, report: (finding: LayerFinding) => void, dependencies: Dependency[]): Cost[] {
  const costs: Cost[] = [];
  const seen = new Set<Loaded>([loaded]);
  for (const one of seen) {
    for (const finding of one.findings) report(finding);
    dependencies.push(...one.dependencies);
    costs.push(one.cost);
    for (const next of one.imports) seen.add(next);
  }
  return costs;
}

function distinct(dependencies: readonly Dependency[]): Dependency[] {
  return [...new Map(dependencies.map((one) => [`${one.kind} ${one.name}`, one])).values()];
}
