// What a test and the program server of its run say to each other.

/** Which program is started. */
export interface Asked {
  readonly file: string;
  readonly args: readonly string[];
  readonly cwd?: string | undefined;
  readonly env: { readonly [name: string]: string };
}

/** Of what a frame is; what `ended` holds is JSON. */
export const frames = { stdout: 1, stderr: 2, ended: 3 } as const;

const headBytes = 5;

export function frame(kind: number, bytes: Uint8Array): Buffer {
  const head = Buffer.alloc(headBytes);
  head.writeUInt8(kind);
  head.writeUInt32BE(bytes.length, 1);
  return Buffer.concat([head, bytes]);
}

/** Takes bytes as they come, and gives frames as they are whole. */
export function readFrames(onFrame: (kind: number, bytes: Buffer) => void): (bytes: Buffer) => void {
  let held: Buffer = Buffer.alloc(0);
  return (bytes) => {
    held = held.length === 0 ? bytes : Buffer.concat([held, bytes]);
    while (held.length >= headBytes) {
      const end = headBytes + held.readUInt32BE(1);
      if (held.length < end) return;
      onFrame(held.readUInt8(0), held.subarray(headBytes, end));
      held = held.subarray(end);
    }
  };
}
