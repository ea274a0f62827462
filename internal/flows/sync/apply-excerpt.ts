// The text of the line that a diagnostic is about, so that whoever shows it can draw a caret without the file.

import type { Diagnostic } from '../../words/diagnostic.ts';

const EXCERPT_LENGTH = 200;

/** Fills in `excerpt` where the tree has the file; a file of a template is not in the tree. */
export function withExcerpts(
  diagnostics: readonly Diagnostic[],
  fileBytes: (path: string) => Uint8Array | undefined,
): Diagnostic[] {
  const files = new Map<string, readonly string[] | undefined>();
  return diagnostics.map((item) => {
    const { file, line, excerpt } = item;
    if (file === undefined || line === undefined || excerpt !== undefined) return item;
    if (!files.has(file)) files.set(file, linesOf(fileBytes(file)));
    const text = files.get(file)?.[line - 1];
    return text === undefined ? item : { ...item, excerpt: text.slice(0, EXCERPT_LENGTH) };
  });
}

function linesOf(bytes: Uint8Array | undefined): readonly string[] | undefined {
  return bytes === undefined ? undefined : new TextDecoder().decode(bytes).split(/\r\n|\r|\n/);
}
