// What a stretch of computing is held against where its bound was asked in milliseconds: the same work of the runtime's own, on
// the machine of the same run.

const document = JSON.stringify(
  Array.from({ length: 40_000 }, (_, n) => ({ n, path: `.svc/agents/a-${n}.yaml`, text: 'words '.repeat(24) })),
);

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
  const [, , median = 0] = [0, 1, 2, 3, 4].map(parsingMs).toSorted((a, b) => a - b);
  return Math.max(1, median / askedParsingMs);
}
