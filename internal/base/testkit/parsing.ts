// What a stretch of computing is held against where its bound was asked in milliseconds: the same work of the runtime's own, on
// the machine of the same run.

const document = JSON.stringify(
  Array.from({ length: 40_000 }, (_, n) => ({ n, path: `.svc/agents/a-${n}.yaml`, text: 'words '.repeat(24) })),
);

/**
 * Whether something that took `ms` took at most `mostMs`, or as many times that as this machine, with what else it does now, takes
 * longer to parse and write a document than the core on which bounds are asked.
 */
export function isWithin(ms: number, mostMs: number): boolean {
  return ms < mostMs || ms < (mostMs * median([0, 1, 2, 3, 4].map(timed))) / askedParsingMs;
}

/** What `parsingMs` gives on the core on which the bounds were asked. */
const askedParsingMs = 33;

/** Milliseconds of this thread's processor time in which the runtime parses one document of eight megabytes and writes it again. */
export function parsingMs(): number {
  const before = process.threadCpuUsage();
  if (JSON.stringify(JSON.parse(document)).length !== document.length) throw new Error('the document has changed');
  const { user, system } = process.threadCpuUsage(before);
  return (user + system) / 1_000;
}

/** How many times as long as on that core something takes on this one now; 1 on a quicker one. */
export function slowness(): number {
  return Math.max(1, median([0, 1, 2, 3, 4].map(parsingMs)) / askedParsingMs);
}

/** Milliseconds of the clock in which the same is done. */
function timed(): number {
  const begun = performance.now();
  parsingMs();
  return performance.now() - begun;
}

const median = (times: readonly number[]): number => times.toSorted((a, b) => a - b)[times.length >> 1] ?? 0;
