// Texts by their size in UTF-8, as bounds are given in bytes.

/** Bytes of a text in UTF-8; half of a surrogate pair counts as what it is replaced by. */
export const utf8Size = (text: string): number => Buffer.byteLength(text, 'utf8');

/** The longest beginning of a text that has at most `bytesMax` bytes in UTF-8 and cuts no character in two. */
export function utf8Prefix(text: string, bytesMax: number): string {
  if (bytesMax <= 0) return '';
  if (text.length * 3 <= bytesMax) return text;
  const { read } = new TextEncoder().encodeInto(text, new Uint8Array(bytesMax));
  return text.slice(0, read);
}

/** What a text that was cut ends with (docs/reference/http-api.md#errors). */
const cutLine = (bytes: number): string => `\n[cut: ${bytes} more bytes]`;

/**
 * The text within `bytesMax` bytes of UTF-8. One that would be longer, for itself or because `beyond` bytes would follow
 * it, ends with the line `[cut: N more bytes]`, which counts toward the bound; N is what is not shown.
 */
export function cutText(text: string, bytesMax: number, beyond = 0): string {
  if (beyond === 0 && text.length * 3 <= bytesMax) return text;
  const size = utf8Size(text);
  if (beyond === 0 && size <= bytesMax) return text;
  const total = size + beyond;
  // The line is as long as its number, and the number depends on what the line leaves.
  for (let digits = String(total - bytesMax).length; ; digits += 1) {
    const shown = utf8Prefix(text, bytesMax - cutLine(10 ** (digits - 1)).length);
    const line = cutLine(total - utf8Size(shown));
    if (line.length <= cutLine(10 ** (digits - 1)).length) return shown + line;
  }
}
