// What a machine has run out of (room on a disk, files that may be open, processes, memory) or lost (the disk itself), by the words
// of its system.

const words: ReadonlySet<unknown> = new Set([
  'ENOSPC',
  'EDQUOT',
  'EROFS',
  'EMFILE',
  'ENFILE',
  'ENOMEM',
  'EAGAIN',
  'ENODEV',
  'EIO',
]);

/** Whether an error, or what caused it, says that: nothing of who met it, and it passes where somebody makes room. */
export function isMachineLack(error: unknown): boolean {
  for (let at = error; at instanceof Error; at = at.cause)
    if (words.has((at as NodeJS.ErrnoException).code)) return true;
  return false;
}
