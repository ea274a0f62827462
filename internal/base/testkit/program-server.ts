// Starts programs for the tests of a run: to start one takes as long as the process is large that does it, and a test's, with
// a daemon in it, is fifty milliseconds large where this one is ten. Ends with whoever started it (programs.ts).
//
// One connection is one program: a line of JSON says which, what follows is what it reads. Back come frames: a byte that
// says of what, four of the length, the bytes.

import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { createServer, type Socket } from 'node:net';
import { type Asked, frame, frames } from './program-frames.ts';

const [path = ''] = process.argv.slice(2);

function serve(socket: Socket): void {
  let head = Buffer.alloc(0);
  let child: ChildProcessWithoutNullStreams | undefined;
  // Whoever asked has left: its end says so.
  socket.on('error', () => undefined);
  socket.on('data', (bytes: Buffer) => {
    if (child !== undefined) return feed(child, socket, bytes);
    head = Buffer.concat([head, bytes]);
    const end = head.indexOf('\n');
    if (end < 0) return;
    child = start(JSON.parse(head.toString('utf8', 0, end)) as Asked, socket);
    feed(child, socket, head.subarray(end + 1));
  });
  socket.on('end', () => child?.stdin.end());
  socket.on('close', () => child?.kill());
}

/** Of a program that reads no more nothing is kept. */
function feed({ stdin }: ChildProcessWithoutNullStreams, socket: Socket, bytes: Buffer): void {
  if (bytes.length === 0 || stdin.destroyed || stdin.write(bytes)) return;
  socket.pause();
  const go = (): void => {
    stdin.off('drain', go).off('close', go);
    socket.resume();
  };
  stdin.on('drain', go).on('close', go);
}

function start({ file, args, cwd, env }: Asked, socket: Socket): ChildProcessWithoutNullStreams {
  const child = spawn(file, args, { cwd, env, stdio: 'pipe' });
  child.stdin.on('error', () => undefined);
  for (const [kind, stream] of [
    [frames.stdout, child.stdout],
    [frames.stderr, child.stderr],
  ] as const) {
    stream.on('data', (bytes: Buffer) => {
      if (socket.destroyed || socket.write(frame(kind, bytes))) return;
      stream.pause();
      socket.once('drain', () => stream.resume());
    });
  }
  const ended = (end: { readonly code: number | null; readonly error?: string }): void => {
    if (!socket.destroyed) socket.end(frame(frames.ended, Buffer.from(JSON.stringify(end))));
  };
  child.once('error', (error) => ended({ code: null, error: error.message }));
  child.once('close', (code) => ended({ code }));
  return child;
}

createServer({ allowHalfOpen: true }, serve).listen(path, () => process.stdout.write('ready\n'));
process.stdin.resume().on('end', () => process.exit());
