// Variables: which are in scope for an agent's imports, and their substitution in imported documents
// (docs/reference/compile.md#variables).

import type { Finding, Range } from '../../domain/diagnostic.ts';
import { canonicalJson } from '../../domain/json.ts';
import type { MapEntry, MapNode, Node, PathStep } from '../source/node.ts';
import { printPath } from '../source/node.ts';
import { substituteVariables } from '../template/template.ts';
import { substitutedCharactersMax, textCharactersMax } from './limits.ts';

/** A finding of imports and merging; of several with one `once`, one is reported. */
export type LayerFinding = Finding & { readonly once?: string };
type Report = (finding: LayerFinding) => void;

/** Adds findings to a list up to a bound; past it a first error is still told, lest a broken document pass for sound. */
export function boundedReport(findings: LayerFinding[], most: number): Report {
  let errors = 0;
  return (finding) => {
    if (findings.length >= most && (finding.severity !== 'error' || errors > 0)) return;
    if (finding.severity === 'error') errors++;
    findings.push(finding);
  };
}

export interface Scope {
  readonly values: ReadonlyMap<string, string>;
  /** Names that a document declares; the others are of the context. */
  readonly declared: ReadonlySet<string>;
  /** Equal keys mean equal values from equal places. */
  readonly key: string;
}

/** A scope of these values; `declared` names those of a document, which count as others than the same of the context. */
export function createScope(values: ReadonlyMap<string, string>, declared: ReadonlySet<string> = new Set()): Scope {
  const record: { [name: string]: string } = Object.create(null);
  for (const [name, value] of values) record[`${declared.has(name) ? '$' : ''}${name}`] = value;
  return { values, declared, key: canonicalJson(record) };
}

/** What a name of letters, digits and _ alone is a hint for. */
const didYouMean = (name: string): string | undefined =>
  /^[A-Za-z_]/.test(name) ? `Did you mean ${name}?` : undefined;

/** The scope of a document's imports: its own `variables` over the context. */
export function declareVariables(node: Node | undefined, context: Scope, report: Report): Scope {
  if (node === undefined) return context;
  const fault = (message: string, range: Range, path: readonly PathStep[], hint?: string): void =>
    report({
      severity: 'error',
      code: 'variable-invalid',
      message,
      range,
      path: printPath(path),
      ...(hint !== undefined && { hint }),
    });
  if (node.kind !== 'map') {
    fault('"variables" is a map of names to strings, numbers or booleans', node.range, ['variables']);
    return context;
  }
  const values = new Map(context.values);
  const declared = new Set<string>();
  for (const [name, { keyRange, value }] of node.entries) {
    const path = ['variables', name];
    if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) {
      fault(
        `The variable name ${JSON.stringify(name.slice(0, 60).toWellFormed())} is not a letter or _ followed by letters, digits or _`,
        keyRange,
        path,
        didYouMean(name.replaceAll(/[^A-Za-z0-9_]/g, '_').slice(0, 60)),
      );
    } else if (value.kind !== 'scalar' || value.value === null) {
      fault(`The variable ${name} must be a string, a number or a boolean`, value.range, path);
    } else {
      values.set(name, String(value.value));
      declared.add(name);
    }
  }
  return createScope(values, declared);
}

/** Substitutes in one agent's imports, within a budget of characters. */
export class Substituter {
  readonly scope: Scope;
  /** Tokens met so far; a document that adds none does not depend on the scope. */
  tokens = 0;
  #left = substitutedCharactersMax;

  constructor(scope: Scope) {
    this.scope = scope;
  }

  /** An imported document with every token of its keys and values replaced; the same node where there is none. */
  document(root: MapNode, report: Report): MapNode {
    return this.#map(root, [], report);
  }

  /** A text that an imported document loads; `range` gives the place of a problem by its offsets in the text. */
  text(text: string, range: (start: number, end: number) => Range, path: readonly PathStep[], report: Report): string {
    if (!text.includes('{{')) return text;
    const { text: result, tokens, problems } = substituteVariables(text, this.scope.values);
    this.tokens += tokens;
    for (const { kind, token, name, start, end } of problems) {
      const place = range(start, end);
      report({
        severity: 'error',
        ...(kind === 'unknown' ? this.#unknown(name ?? '') : malformed(token)),
        range: place,
        path: printPath(path),
        once: `${place.file} ${place.start} ${token}`,
      });
    }
    if (result === text) return text;
    this.#left -= result.length;
    if (result.length <= textCharactersMax && this.#left >= 0) return result;
    const message = 'Substitution makes too much text here';
    report({ severity: 'error', code: 'variable-invalid', message, range: range(0, 0), path: printPath(path) });
    return text;
  }

  #unknown(name: string): { code: 'variable-unknown'; message: string; hint: string } {
    const names = [...this.scope.values.keys()].sort();
    const shown = names.slice(0, 30).join(', ') + (names.length > 30 ? ', …' : '');
    return {
      code: 'variable-unknown',
      message: `The variable $${name.slice(0, 60)} is not in scope; in scope: ${shown === '' ? 'none' : shown}`,
      hint: `The agent that imports this gives it, for example: variables: { ${name.slice(0, 60)}: value }`,
    };
  }

  #node(node: Node, path: PathStep[], report: Report): Node {
    if (node.kind === 'map') return this.#map(node, path, report);
    if (node.kind === 'seq') {
      let changed = false;
      const items = node.items.map((item, index) => {
        path.push(index);
        const made = this.#node(item, path, report);
        path.pop();
        changed ||= made !== item;
        return made;
      });
      return changed ? { ...node, items } : node;
    }
    if (typeof node.value !== 'string') return node;
    const value = this.text(node.value, () => node.range, path, report);
    if (value === node.value) return node;
    return this.#usesContext(node.value) ? { ...node, value, made: 'context' } : { ...node, value };
  }

  #usesContext(text: string): boolean {
    for (const [, name = ''] of text.matchAll(/\{\{\s*\$([A-Za-z_][A-Za-z0-9_]*)\s*\}\}/g))
      if (this.scope.values.has(name) && !this.scope.declared.has(name)) return true;
    return false;
  }

  #map(node: MapNode, path: PathStep[], report: Report): MapNode {
    let changed = false;
    const entries = new Map<string, MapEntry>();
    for (const [key, entry] of node.entries) {
      path.push(key);
      const name = this.text(key, () => entry.keyRange, path, report);
      const value = this.#node(entry.value, path, report);
      const first = entries.get(name);
      if (first !== undefined) {
        report({
          severity: 'error',
          code: 'duplicate-key',
          message: `Two keys are ${JSON.stringify(name.slice(0, 60).toWellFormed())} after substitution`,
          range: entry.keyRange,
          path: printPath(path),
          related: [{ message: 'the other key', range: first.keyRange }],
        });
      } else if (name === key && value === entry.value) {
        entries.set(key, entry);
      } else {
        changed = true;
        entries.set(name, { keyRange: entry.keyRange, value });
      }
      path.pop();
    }
    return changed || entries.size !== node.entries.size ? { ...node, entries } : node;
  }
}

function malformed(token: string): { code: 'variable-malformed'; message: string; hint: string } {
  return {
    code: 'variable-malformed',
    message: `${token} is not a variable`,
    hint: 'A variable is written {{ $name }}, with letters, digits and _ in its name.',
  };
}
