// Bytes → text, strictly: what is not UTF-8 or holds NUL is refused at its place, never replaced (docs/reference/compile.md#yaml).

import type { Finding } from '../../domain/diagnostic.ts';

export type Decoded =
  | { readonly ok: true; readonly text: string }
  /** `text` is for showing the place only. */
  | { readonly ok: false; readonly text: string; readonly finding: Finding };

/** Decodes UTF-8 with or without a byte order mark; errors: `file-too-large`, `invalid-utf8`, `nul-byte`. */
export function decodeText(file: string, bytes: Uint8Array, maxBytes: number): Decoded {
  if (bytes.byteLength > maxBytes) return { ok: false, text: '', finding: tooLarge(file, maxBytes, bytes.byteLength) };
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    return invalidUtf8(file, bytes);
  }
  const at = text.indexOf('\0');
  if (at === -1) return { ok: true, text };
  return {
    ok: false,
    text,
    finding: {
      severity: 'error',
      code: 'nul-byte',
      message: 'The file holds a NUL character',
      range: { file, start: at, end: at + 1 },
      hint: 'Remove it; a text file has none.',
    },
  };
}

/** The finding for a file over its bound; `size` is in bytes where it is known. */
export function tooLarge(file: string, maxBytes: number, size?: number): Finding {
  const actual = size === undefined ? '' : ` (${size} bytes)`;
  return {
    severity: 'error',
    code: 'file-too-large',
    message: `The file is larger than ${maxBytes} bytes${actual}`,
    file,
    hint: 'Split it into several files.',
  };
}

function invalidUtf8(file: string, bytes: Uint8Array): Decoded {
  const offset = firstInvalidByte(bytes);
  const start = new TextDecoder('utf-8').decode(bytes.subarray(0, offset)).length;
  const wide = (bytes[0] === 0xff && bytes[1] === 0xfe) || (bytes[0] === 0xfe && bytes[1] === 0xff);
  return {
    ok: false,
    text: new TextDecoder('utf-8').decode(bytes),
    finding: {
      severity: 'error',
      code: 'invalid-utf8',
      message: `The file is not valid UTF-8: byte 0x${(bytes[offset] ?? 0).toString(16).padStart(2, '0')} at offset ${offset}`,
      range: { file, start, end: start + 1 },
      hint: wide ? 'It looks like UTF-16; save it as UTF-8.' : 'Save the file as UTF-8.',
    },
  };
}

/** Lead byte → continuation bytes and the range of the first of them (Unicode, table 3-7). */
function sequence(lead: number): readonly [count: number, low: number, high: number] | null {
  if (lead < 0x80) return [0, 0, 0];
  if (lead < 0xc2) return null;
  if (lead < 0xe0) return [1, 0x80, 0xbf];
  if (lead < 0xf0) return [2, lead === 0xe0 ? 0xa0 : 0x80, lead === 0xed ? 0x9f : 0xbf];
  if (lead < 0xf5) return [3, lead === 0xf0 ? 0x90 : 0x80, lead === 0xf4 ? 0x8f : 0xbf];
  return null;
}

function firstInvalidByte(bytes: Uint8Array): number {
  let at = 0;
  while (at < bytes.length) {
    const shape = sequence(bytes[at] ?? 0);
    if (shape === null) return at;
    const [count, low, high] = shape;
    for (let k = 1; k <= count; k++) {
      const next = bytes[at + k];
      if (next === undefined || next < (k === 1 ? low : 0x80) || next > (k === 1 ? high : 0xbf)) return at;
    }
    at += count + 1;
  }
  return bytes.length;
}
