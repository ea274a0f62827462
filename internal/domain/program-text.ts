/** Of one text of an argument list or an environment, with the zero byte at its end: the kernel's. */
export const programTextBytesMax = 131_072;

/** Of a variable as a program is given it. */
export const variableBytes = (name: string, value: string): number =>
  Buffer.byteLength(name) + Buffer.byteLength(value) + 2;
