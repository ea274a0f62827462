// Where a command's words go: one JSON document on stdout under --json, else text; notes and progress on stderr.

import { clean, cleanDocument, cleanPainted, colourPaint, cut, type Paint, plainPaint } from './text.ts';
import type { CliIo } from './io.ts';

const formats = ['text', 'wide', 'json', 'yaml', 'name'] as const;
/** How the one result is printed. */
export type Format = (typeof formats)[number];
export const isFormat = (word: string): word is Format => formats.some((format) => format === word);

export interface Screen {
  readonly format: Format;
  /** Whether programs read the result: a document, or names. Then nothing else stands on stdout. */
  readonly json: boolean;
  /** Colours for stdout; `errPaint` for stderr. Plain off a terminal, under --json and with NO_COLOR. */
  readonly paint: Paint;
  readonly errPaint: Paint;
  /** Columns of stdout, absent where it is no terminal. */
  readonly width: number | undefined;
  readonly now: () => Date;
  /** The command's one result: JSON under --json, else the text (a newline is added; '' prints nothing). */
  emit(value: unknown, text: () => string): void;
  /** As `emit`; text that another program reads to the last byte, which is made harmless on a terminal alone. */
  exact(value: unknown, text: () => string): void;
  /** One JSON line or one piece of text, for streams. */
  stream(value: unknown, text: () => string): void;
  /** Text on stderr, in both modes (a newline is added). */
  note(text: string): void;
  /** A line that is rewritten in place, on stderr and only on a terminal that can; '' clears it. */
  progress(text: string): void;
}

/** What a document is written as where the format is not JSON. */
export interface Writers {
  readonly yaml?: (json: string, several: boolean) => string;
  /** Undefined: what it tells has no names. */
  readonly names?: (value: unknown) => string | undefined;
}

export function createScreen(io: CliIo, format: Format, writers: Writers = {}): Screen {
  const json = format !== 'text' && format !== 'wide';
  let isNoted = false;
  const written = (value: unknown, isLine: boolean): string => {
    if (format === 'name') {
      const names = writers.names?.(value);
      if (names === undefined && !isNoted) io.stderr.write('nothing here has a name; -o json tells all of it\n');
      isNoted ||= names === undefined;
      return clean(names ?? '');
    }
    if (format !== 'yaml') return cleanDocument(JSON.stringify(value, null, isLine ? 0 : 2));
    return writers.yaml?.(JSON.stringify(value), isLine) ?? '';
  };
  const colours = (stream: NodeJS.WriteStream): boolean =>
    !json && stream.isTTY === true && (io.env['NO_COLOR'] ?? '') === '' && io.env['TERM'] !== 'dumb';
  // Whoever made the text cleaned what it quotes; what somebody forgot gets no further than here.
  const safe = (stream: NodeJS.WriteStream, text: string): string =>
    colours(stream) ? cleanPainted(text) : clean(text);
  let shown = false;
  const clear = (): void => {
    if (shown) io.stderr.write('\r\u001b[2K');
    shown = false;
  };
  const out = (text: string): void => {
    clear();
    if (text !== '') io.stdout.write(text.endsWith('\n') ? text : `${text}\n`);
  };
  const tell = (text: string): void => out(safe(io.stdout, text));
  return {
    format,
    json,
    paint: colours(io.stdout) ? colourPaint : plainPaint,
    errPaint: colours(io.stderr) ? colourPaint : plainPaint,
    width: io.stdout.isTTY === true && format !== 'wide' ? io.stdout.columns || undefined : undefined,
    now: io.now,
    emit: (value, text) => (json ? out(written(value, false)) : tell(text())),
    exact: (value, text) => {
      if (json) out(written(value, false));
      else if (io.stdout.isTTY === true) tell(text());
      else out(text());
    },
    stream: (value, text) => (json ? out(written(value, true)) : tell(text())),
    note: (text) => {
      clear();
      const told = safe(io.stderr, text);
      io.stderr.write(told.endsWith('\n') ? told : `${told}\n`);
    },
    progress: (text) => {
      if (json || io.stderr.isTTY !== true || io.env['TERM'] === 'dumb') return;
      clear();
      if (text === '') return;
      // A line that wraps is two, and one is cleared. Some terminals have no size.
      io.stderr.write(cut(clean(text, true), (io.stderr.columns || 80) - 1));
      shown = true;
    },
  };
}
