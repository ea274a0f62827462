// The text of the line that a diagnostic is about, so that whoever shows it can draw a caret without the file. What looks
// like a credential, or stands where one belongs, is starred: a run is kept, and whoever may read it may not read that.

import { setImmediate as yieldToEventLoop } from 'node:timers/promises';
import { maskLine } from '../../domain/credential.ts';
import { type Diagnostic, excerptOf } from '../../domain/diagnostic.ts';
import type { ApplyRequest } from './plan-types.ts';

const EXCERPT_LENGTH = 200;

/** Fills in `excerpt` where the tree has the file; a file of a template is not in the tree. One file is one slice. */
export async function withExcerpts(
  diagnostics: readonly Diagnostic[],
  fileBytes: ApplyRequest['fileBytes'],
): Promise<Diagnostic[]> {
  const files = new Map<string, readonly string[] | undefined>();
  const filled: Diagnostic[] = [];
  for (const item of diagnostics) {
    const { file, line, excerpt } = item;
    if (file === undefined || line === undefined || excerpt !== undefined) {
      filled.push(item);
      continue;
    }
    if (!files.has(file)) {
      files.set(file, linesOf(await fileBytes(file)));
      await yieldToEventLoop();
    }
    const text = files.get(file)?.[line - 1];
    const shown =
      text === undefined ? undefined : excerptOf([maskLine(text.slice(0, EXCERPT_LENGTH).toWellFormed())], line, item);
    filled.push(shown === undefined ? item : { ...item, excerpt: shown });
  }
  return filled;
}

function linesOf(bytes: Uint8Array | undefined): readonly string[] | undefined {
  return bytes === undefined ? undefined : new TextDecoder().decode(bytes).split(/\r\n|\r|\n/);
}
