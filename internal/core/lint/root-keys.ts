// Unknown root keys are ignored (spec, File rules); one within edit distance 2 of a known key is most likely a slip.

import type { Finding, Range } from '../../domain/diagnostic.ts';
import { editDistance, nearest } from '../../domain/nearest.ts';

/** Every key that the root of an agent document may have. */
export const ROOT_KEYS: readonly string[] = [
  'name',
  'labels',
  'annotations',
  'imports',
  'import',
  'variables',
  'remove',
  'harness',
  'model',
  'reasoningEffort',
  'systemPrompt',
  'initialPrompt',
  'displayTitle',
  'environment',
  'env',
  'identity',
  'mounts',
  'tools',
  'triggers',
  'session',
  'spendCaps',
  'concurrency',
  'replace',
  'onReplace',
  'manages',
  'bindings',
  'workingDirectory',
];

/** Unknown keys of one document that are held against the known ones: past so many, that costs more than reading them. */
const MAX_KEYS = 1_000;

export function lintRootKeys(keys: readonly { readonly key: string; readonly range: Range }[]): Finding[] {
  const findings: Finding[] = [];
  let unknown = 0;
  for (const { key, range } of keys) {
    if (ROOT_KEYS.includes(key)) continue;
    if (++unknown > MAX_KEYS) break;
    const near = nearest(key, ROOT_KEYS);
    if (near === undefined) continue;
    const message = `Unknown root key ${key} is ignored`;
    findings.push({
      severity: 'warning',
      code: 'unknown-root-key',
      message,
      range,
      path: key,
      // Of a short word, half of it changed is another word.
      ...(editDistance(key, near, 2) * 2 < key.length ? { hint: `Did you mean ${near}?` } : {}),
    });
  }
  return findings;
}
