// What the tests of checks share: a catalog of their own, and documents whose wrong places are marked with `§`.

import type { BundleEntry } from '../../domain/bundle.ts';
import type { Catalog } from '../../domain/catalog.ts';
import type { Finding, Range, Severity } from '../../domain/diagnostic.ts';
import type { AgentSpec } from '../../domain/spec.ts';
import type { MapNode } from '../source/node.ts';
import { readSource } from '../source/source.ts';
import type { AgentDraft } from './check-agent.ts';
import { checkAgent } from './check-agent.ts';
import type { CompileInput, MergedDocument } from './types.ts';

export const testCatalog: Catalog = {
  presets: ['base', 'node24'],
  models: {
    'provider-a': { ids: ['alpha-1', 'alpha-2', 'alpha-3'], pattern: 'alpha-x-[0-9]+' },
    'provider-b': { ids: ['beta-1', 'beta-2'] },
    'provider-c': { ids: ['listed'] },
  },
  harnesses: {
    'harness-a': {
      defaultProvider: 'provider-a',
      providers: ['provider-a'],
      defaultModel: 'alpha-1',
      efforts: ['low', 'medium', 'high', 'xhigh', 'max'],
      defaultEffort: 'high',
    },
    'harness-b': {
      defaultProvider: 'provider-b',
      providers: ['provider-b', 'provider-c'],
      defaultModel: 'beta-2',
      efforts: ['minimal', 'low', 'medium', 'high', 'xhigh'],
      defaultEffort: 'medium',
    },
  },
  effortsByModel: { 'provider-b': { 'beta-2': ['medium', 'high'] }, 'provider-c': { 'v/narrow': ['high', 'xhigh'] } },
  codehostTools: {
    pull_request_read: { default: true },
    add_issue_comment: { default: true },
    merge_pull_request: { needs: 'merge' },
    list_secrets: { needs: 'secrets' },
  },
  avatars: [],
};

const agentFile = '.svc/agents/a.yaml';
const mark = '§';

/** A document that holds whatever a test does not speak of. */
export const agentHead = 'name: a\nharness: harness-a\nenvironment: {name: e, image: {kind: preset, name: base}}\n';

export function mergedFrom(text: string, file = agentFile): MergedDocument {
  const source = readSource(file, new TextEncoder().encode(text));
  const root: MapNode | undefined = source.documents[0]?.root;
  if (root === undefined)
    throw new Error(`not a document: ${source.findings.map((f) => f.message).join('; ')}\n${text}`);
  return { file, document: 0, root, own: root };
}

export interface Checked {
  readonly draft: AgentDraft;
  readonly findings: readonly Finding[];
  /** Findings of one severity, in order of place, as `code` and message. */
  readonly of: (severity: Severity) => readonly Finding[];
}

export function checkText(text: string, catalog = testCatalog): Checked {
  const findings: Finding[] = [];
  const draft = checkAgent(mergedFrom(text), { catalog }, (finding) => findings.push(finding));
  const start = (finding: Finding): number => finding.range?.start ?? -1;
  const sorted = findings.toSorted((a, b) => start(a) - start(b));
  return { draft, findings: sorted, of: (severity) => sorted.filter((finding) => finding.severity === severity) };
}

/** The canonical spec of a body under HEAD; throws with what was reported where there is none. */
export function specOf(body: string, head = agentHead): AgentSpec {
  const { draft, of } = checkText(head + body);
  if (draft.spec === undefined)
    throw new Error(
      of('error')
        .map((f) => `${f.code}: ${f.message}`)
        .join('\n'),
    );
  return JSON.parse(JSON.stringify(draft.spec)) as AgentSpec;
}

/**
 * Checks a body under HEAD whose wrong places are marked: gives what is expected and what was found, line for line,
 * as `offset code`. `codes` has one entry for each mark, or one for all.
 */
export function marked(body: string, codes: string, severity: Severity = 'error', head = agentHead) {
  const whole = head + body;
  const parts = whole.split(mark);
  const list = codes.split(' ');
  const expected: string[] = [];
  let offset = 0;
  for (const [index, part] of parts.slice(0, -1).entries()) {
    offset += part.length;
    expected.push(`${offset} ${list[index] ?? list[0]}`);
  }
  const { of } = checkText(parts.join(''));
  const found = of(severity);
  return { expected, found: found.map((f) => `${f.range?.start} ${f.code}`), messages: found.map((f) => f.message) };
}

/** Text that is repeated many times, once, and how often. */
const short = (text: string): string =>
  text.replace(/(.{1,9}?)\1{29,}/gs, (run, unit: string) => `${unit}×${run.length / unit.length}`);

/** What is told of a body under HEAD, in full: a line for each finding, with its place in the body, and what it adds below. */
function told(body: string, head: string, catalog?: Catalog): string {
  const at = ({ start, end }: Range): string => `${start - head.length}-${end - head.length}`;
  const lines = checkText(head + body, catalog).findings.flatMap((one) => [
    `  ${one.severity} ${one.code} ${one.range === undefined ? '' : at(one.range)} ${one.path ?? ''}: ${one.message}`,
    ...(Object.hasOwn(one, 'hint') ? [`    ${one.hint}`] : []),
    ...(one.related ?? []).map(({ message, range }) => `    ${message} ${at(range)}`),
    ...(one.hides === undefined ? [] : [`    hides ${at(one.hides)}`]),
  ]);
  return [JSON.stringify(body), ...lines].map(short).join('\n');
}

/** What is told of bodies under a head, word by word, as testdata/messages keeps it; marks are left out. */
export const toldOf = (rows: readonly (readonly [body: string, head?: string, catalog?: Catalog])[]): string =>
  rows
    .map(
      ([body, head = agentHead, catalog]) => `${told(body.replaceAll(mark, ''), head.replaceAll(mark, ''), catalog)}\n`,
    )
    .join('');

const u16 = (value: number): number[] => [value >> 8, value & 0xff];
const u32 = (value: number): number[] => [...u16(value >>> 16), ...u16(value & 0xffff)];

/** The first bytes of a PNG of that size: all that is ever read of one. */
export function png(width: number, height: number): Uint8Array<ArrayBuffer> {
  const magic = [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a];
  return Uint8Array.from([
    ...magic,
    ...u32(13),
    0x49,
    0x48,
    0x44,
    0x52,
    ...u32(width),
    ...u32(height),
    8,
    2,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
  ]);
}

interface JpegParts {
  /** The marker of the frame. */
  readonly frame?: number;
  /** What the first application segment holds. */
  readonly application?: readonly number[];
  /** Bytes between the application segment and the frame. */
  readonly before?: readonly number[];
}

/** The beginning of a JPEG of that size, down to its frame header. */
export function jpeg(width: number, height: number, parts: JpegParts = {}): Uint8Array<ArrayBuffer> {
  const { frame = 0xc0, application = [0x4a, 0x46], before = [] } = parts;
  const segment = [0xff, 0xe1, ...u16(application.length + 2), ...application];
  const header = [0xff, frame, ...u16(11), 8, ...u16(height), ...u16(width), 1, 1, 0x11, 0];
  return Uint8Array.from([0xff, 0xd8, ...segment, ...before, ...header]);
}

/** An input with the test catalog and the given files, hashed by their length so that a test can say what to expect. */
export function inputWith(files: { readonly [path: string]: Uint8Array | Partial<BundleEntry> } = {}): CompileInput {
  const entries = new Map<string, BundleEntry>();
  for (const [path, file] of Object.entries(files)) {
    const entry: BundleEntry = { path, kind: 'file', oid: path };
    entries.set(path, file instanceof Uint8Array ? { ...entry, bytes: file } : { ...entry, ...file });
  }
  return {
    bundle: { entries, absent: new Set(), hasSvc: true },
    context: {},
    catalog: testCatalog,
    templates: new Map(),
    sha256: (bytes) => bytes.length.toString(16).padStart(64, '0'),
  };
}
