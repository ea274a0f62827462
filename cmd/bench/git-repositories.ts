// Repositories for the git benches, written with `git fast-import`: one with as many files as a large company's, one
// small. And a counter of bytes between a client and a server, so that both sides are measured the same way.

import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { Readable } from 'node:stream';
import { runProgram } from './harness.ts';

/** Text that compresses about as well as code does; the same number gives the same bytes. */
function sourceText(seed: number, bytes: number): string {
  let state = (seed * 2_654_435_761) >>> 0;
  let text = '';
  while (text.length < bytes) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    text += `const value${state % 997} = compute(${state.toString(36)}, ${seed % 89});\n`;
  }
  return text.slice(0, bytes);
}

function* stream(files: number, fileBytes: number, svc: ReadonlyMap<string, string>): Generator<string> {
  yield 'commit refs/heads/main\ncommitter Bench <bench@example.com> 1700000000 +0000\ndata 7\nInitial\n';
  const entry = (path: string, text: string): string =>
    `M 100644 inline ${path}\ndata ${Buffer.byteLength(text)}\n${text}\n`;
  for (const [path, text] of svc) yield entry(path, text);
  for (let index = 0; index < files; index += 1) {
    const path = `src/p${index % 200}/m${Math.floor(index / 200) % 40}/file-${index}.ts`;
    yield entry(path, sourceText(index + 1, fileBytes));
  }
  yield '\n';
}

/** A bare repository with `files` files beside `svc`, that serves partial clones. */
export async function makeRepository(
  directory: string,
  files: number,
  svc: ReadonlyMap<string, string>,
  fileBytes = 1_500,
): Promise<void> {
  await runProgram('git', ['init', '-q', '--bare', '-b', 'main', directory]);
  await runProgram('git', ['-C', directory, 'config', 'uploadpack.allowFilter', 'true']);
  const stdin = Readable.from(stream(files, fileBytes, svc));
  await runProgram('git', ['-C', directory, 'fast-import', '--quiet', '--depth=0'], { stdin });
  // One pack with a bitmap, as a host keeps it: the server's own work should not decide the comparison.
  await runProgram('git', ['-C', directory, 'repack', '-adqb', '--window=0', '--depth=0']);
}

/** Adds a commit that changes one file; returns its id. */
export async function commitFile(directory: string, path: string, text: string): Promise<string> {
  const script =
    'commit refs/heads/main\ncommitter Bench <bench@example.com> 1700000100 +0000\ndata 6\nChange\nfrom refs/heads/main^0\n' +
    `M 100644 inline ${path}\ndata ${Buffer.byteLength(text)}\n${text}\n\n`;
  await runProgram('git', ['-C', directory, 'fast-import', '--quiet'], { stdin: Readable.from([script]) });
  return (await runProgram('git', ['-C', directory, 'rev-parse', 'refs/heads/main'])).stdout.trim();
}

export interface CountingProxy {
  /** Origin of the proxy, without a trailing slash. */
  readonly origin: string;
  /** Bytes that came from the server since the last call. */
  take(): number;
  stop(): Promise<void>;
}

/** Passes connections on to `target` and counts what comes back. */
export async function countBytes(target: URL): Promise<CountingProxy> {
  let received = 0;
  const open = new Set<Socket>();
  const server = createServer((client) => {
    const upstream = connect(Number(target.port), target.hostname);
    for (const socket of [client, upstream]) {
      open.add(socket);
      // Either side may hang up at any time; the other is closed with it.
      socket.on('error', () => undefined).on('close', () => open.delete(socket));
    }
    upstream.on('data', (chunk) => (received += chunk.length));
    client.pipe(upstream);
    upstream.pipe(client);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    take() {
      const taken = received;
      received = 0;
      return taken;
    },
    async stop() {
      for (const socket of open) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
