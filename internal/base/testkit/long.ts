// Whether the long form of the kill and hostile-input tests was asked for (make test-crash, make test-fuzz).

export const isLong = (process.env['SVC_LONG'] ?? '') !== '';

/** How many of something a test takes: `short`, in the long form `long`, or what SVC_LONG says where it is more than 1. */
export function howMany(short: number, long: number): number {
  const asked = Number(process.env['SVC_LONG']);
  if (!isLong) return short;
  return Number.isInteger(asked) && asked > 1 ? asked : long;
}
