// `svc validate --strict`: root keys that compile ignores without a word, because they are near no known one. What is near
// one is warned of always.

import { rootKeys } from '../../../schemas/agent.ts';
import { belongsOf } from '../../core/lint/lint.ts';
import { isDocumentFile, printDiagnostics, readSource } from '../../core/source/source.ts';
import type { Bundle } from '../../domain/bundle.ts';
import type { Diagnostic, Finding } from '../../domain/diagnostic.ts';
import { nearest } from '../../domain/nearest.ts';

const read = /^\.svc\/(?:agents|fragments)\//;
/** A warning for each such key of agents and fragments, by file and place. */
export function unknownRootKeys(bundle: Bundle): Diagnostic[] {
  const texts = new Map<string, string>();
  const findings: Finding[] = [];
  for (const { path, bytes } of bundle.entries.values()) {
    if (!read.test(path) || !isDocumentFile(path) || bytes === undefined) continue;
    const source = readSource(path, bytes);
    texts.set(path, source.text);
    for (const { root } of source.documents) {
      // A legacy envelope is an error as a whole.
      if (root.entries.has('kind') && root.entries.has('spec')) continue;
      for (const [key, { keyRange }] of root.entries) {
        if (rootKeys.includes(key) || nearest(key, rootKeys) !== undefined) continue;
        const hint = belongsOf(key);
        const message = `Unknown root key ${key} is ignored`;
        findings.push({
          severity: 'warning',
          code: 'unknown-root-key',
          message,
          range: keyRange,
          path: key,
          ...(hint !== undefined && { hint }),
        });
      }
    }
  }
  return printDiagnostics(findings, (file) => texts.get(file));
}
