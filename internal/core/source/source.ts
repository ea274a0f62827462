// Reads one file: bytes → documents with the place of every key and value, or findings that say what is wrong and where. It
// decides what a readable file is (docs/reference/compile.md#yaml: YAML 1.2 core, strict JSON, strict UTF-8) and bounds
// everything before it composes: bytes, depth, nodes, documents, alias expansion. It never throws whatever the bytes are,
// never takes more than linear time, never replaces or cuts a character, and knows nothing of agents: what the keys mean is
// compile's matter. It also prints findings: offsets become lines and columns here, at the last moment.

import type { Finding } from '../../domain/diagnostic.ts';
import { decodeText } from './decode.ts';
import { readJson } from './json.ts';
import { defaultLimits, type SourceLimits } from './limits.ts';
import type { MapNode } from './node.ts';
import { readYaml } from './yaml.ts';

export { decodeText, tooLarge } from './decode.ts';
export { LineStarts } from './lines.ts';
export type { SourceLimits } from './limits.ts';
export { printDiagnostics, renderDiagnostic } from './print.ts';

export interface SourceDocument {
  /** Index within the file, counting documents that hold something. */
  readonly index: number;
  readonly root: MapNode;
  /** True where an error left out keys or values, so that what is missing proves nothing. */
  readonly isPartial: boolean;
}

export interface Source {
  readonly file: string;
  /** The decoded text, which every range counts in; empty where the bytes are too many. */
  readonly text: string;
  /** Documents that could be read, in written order; those with a syntax error are left out. */
  readonly documents: readonly SourceDocument[];
  /** True when something in the file could not be read, so that less is here than the author wrote. */
  readonly broken: boolean;
  readonly findings: readonly Finding[];
  /** Values of all documents: with the text, what it weighs to keep them. */
  readonly nodes: number;
}

/** True for the names that hold documents: `.yaml`, `.yml` and `.json` (docs/reference/compile.md#files). */
export function isDocumentFile(file: string): boolean {
  return /\.(?:yaml|yml|json)$/.test(file);
}

/** Reads a `.json` file as strict JSON (one object) and any other as YAML 1.2, one or several documents. Never throws. */
export function readSource(file: string, bytes: Uint8Array, limits: Partial<SourceLimits> = {}): Source {
  const bounds = { ...defaultLimits, ...limits };
  const decoded = decodeText(file, bytes, bounds.maxBytes);
  if (!decoded.ok)
    return { file, text: decoded.text, documents: [], broken: true, findings: [decoded.finding], nodes: 0 };
  const read = file.endsWith('.json') ? readJson : readYaml;
  const { documents, findings, nodes } = read(file, decoded.text, bounds);
  return { file, text: decoded.text, documents, findings, nodes, broken: findings.some((f) => f.severity === 'error') };
}
