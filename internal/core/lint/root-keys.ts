// Unknown root keys are ignored (docs/reference/compile.md#files); one within edit distance 2 of a known key is most likely a slip.

import { ROOT_KEYS } from '../../../schemas/agent.ts';
import type { Finding, Range } from '../../domain/diagnostic.ts';
import { editDistance, nearest } from '../../domain/nearest.ts';

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
