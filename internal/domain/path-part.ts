// A name as one part of an address. `.` and `..` are names, and steps in an address, which clients take before anything is
// sent: there they stand as `~.` and `~..`. No name holds a `~`.

const isStep = (text: string): boolean => text === '.' || text === '..';

export const pathPart = (name: string): string => (isStep(name) ? `~${name}` : encodeURIComponent(name));

/** The name of a decoded part. */
export const nameOfPart = (part: string): string =>
  part.startsWith('~') && isStep(part.slice(1)) ? part.slice(1) : part;
