// What a machine has run out of (room on a disk, files that may be open, processes, memory) or lost (the disk itself), by the words
// of its system, and how it is told to whoever asked for something: people of a tenant learn what is missing and in which of the
// daemon's directories, never where that lies. The log has the error itself.

import { tmpdir } from 'node:os';

const words: { readonly [code: string]: string } = {
  ENOSPC: 'has no room left',
  EDQUOT: 'has no room left of what it may take',
  EROFS: 'can be read only',
  EMFILE: 'has too many files open',
  ENFILE: 'has too many files open',
  ENOMEM: 'has no memory left',
  EAGAIN: 'has no processes left',
  ENODEV: 'is gone',
  EIO: 'cannot be read or written',
};
/** Of a directory that the daemon writes to itself: whoever set it up left it out, or closed it. */
const closed: { readonly [code: string]: string } = {
  EACCES: 'cannot be written to',
  EPERM: 'cannot be written to',
  ENOENT: 'is not there',
  ENOTDIR: 'is no directory',
};

const codeOf = (error: Error): string => String((error as NodeJS.ErrnoException).code);

/** Of a directory of the daemon that is full or cannot be written to; its message names no path. */
export class MachineLack extends Error {
  readonly code: string;

  constructor(code: string, message: string, cause: unknown) {
    super(message, { cause });
    this.name = 'MachineLack';
    this.code = code;
  }
}

/** What the system says of a file for passing use, as a lack of the directory for these; anything else as it is. */
export function asTemporaryLack(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  const code = codeOf(error);
  const how = words[code] ?? closed[code];
  return how === undefined ? error : new MachineLack(code, `${temporary} ${how} (${code})`, error);
}
const temporary = 'the daemon’s directory for temporary files (TMPDIR)';

/** Whether an error, or what caused it, says that: nothing of who met it, and it passes where somebody makes room. */
export const isMachineLack = (error: unknown): boolean => lackIn(error) !== undefined;

function lackIn(error: unknown): Error | undefined {
  for (let at = error; at instanceof Error; at = at.cause)
    if (at instanceof MachineLack || Object.hasOwn(words, codeOf(at))) return at;
  return undefined;
}

/** What is missing and where, without a path; undefined where the error says nothing of the kind. */
export function lackText(error: unknown, dataDir: string | undefined): string | undefined {
  const lack = lackIn(error);
  if (lack === undefined || lack instanceof MachineLack) return lack?.message;
  const { path } = lack as NodeJS.ErrnoException;
  const isBelow = (directory: string | undefined): boolean =>
    directory !== undefined && typeof path === 'string' && `${path}/`.startsWith(`${directory}/`);
  const place = isBelow(dataDir)
    ? 'the daemon’s data directory'
    : isBelow(tmpdir())
      ? temporary
      : 'the machine of the daemon';
  const code = codeOf(lack);
  return `${place} ${words[code]} (${code})`;
}
