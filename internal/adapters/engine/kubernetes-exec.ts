// A program in a container as a stream, over `v5.channel.k8s.io`: each message begins with its channel. Only version 5
// can say that standard input ends (255, 0). The API server, its proxies and the kubelet cut such a connection when they
// like, and the program runs on unseen: who needs more numbers what it sends.

import { Duplex } from 'node:stream';
import { UnreachableError, type ApiStatus, type KubernetesClient } from './kubernetes-client.ts';
import { WebSocketConnection } from './websocket.ts';

export const execProtocol = 'v5.channel.k8s.io';
const stdin = 0;
const stdout = 1;
const stderr = 2;
const errorCount = 3;
const close = 255;
/** Intermediaries cut what is silent for some minutes; ours is never silent for so long. */
const pingMs = 15_000;
const messageBytesMax = 16 << 20;
/** One message of ours: small enough for servers that take 32 KiB frames at a time, and to stop in time. */
const chunkBytes = 32 << 10;
const stderrBytes = 4_096;

export interface ExecOptions {
  readonly namespace: string;
  readonly pod: string;
  readonly container: string;
  readonly argv: readonly string[];
  readonly signal?: AbortSignal;
}

/** How a program ended: its exit code, or null where the connection ended first or it could not be started. */
export interface ExecEnd {
  readonly code: number | null;
  /** Why there is no code, in the server's words. */
  readonly reason: string;
  /** The last 4 KiB. */
  readonly stderr: string;
}

/** Its standard input and output. A cut ends it with an error; what it told of its end is in `ended`, which never rejects. */
export interface ExecStream {
  readonly stream: Duplex;
  readonly ended: Promise<ExecEnd>;
}

/** What the error channel says: `Success`, or a failure whose cause holds the exit code. */
export function endOf(status: ApiStatus & { readonly status?: string }): Pick<ExecEnd, 'code' | 'reason'> {
  if (status.status === 'Success') return { code: 0, reason: '' };
  const cause = status.details?.causes?.find(({ reason }) => reason === 'ExitCode');
  const code = status.reason === 'NonZeroExitCode' ? Number(cause?.message) : Number.NaN;
  if (Number.isInteger(code)) return { code, reason: '' };
  return { code: null, reason: status.message ?? status.reason ?? 'the program could not be started' };
}

class Exec extends Duplex {
  #socket: WebSocketConnection | undefined;
  #status: Pick<ExecEnd, 'code' | 'reason'> | undefined;
  #stderr = '';
  #waiting: (() => void) | undefined;
  readonly #ended = Promise.withResolvers<ExecEnd>();

  constructor() {
    super({ allowHalfOpen: true });
  }

  get ended(): Promise<ExecEnd> {
    return this.#ended.promise;
  }

  open(socket: Duplex): this {
    this.#socket = new WebSocketConnection(socket, {
      end: 'client',
      maxMessageBytes: messageBytesMax,
      pingMs: pingMs,
      onMessage: (data) => this.#take(data),
      onDrain: () => this.#sent(),
      onClose: (code, reason) => this.#closed(code, reason),
    });
    return this;
  }

  #take(data: Buffer): boolean {
    const channel = data.readUInt8(0);
    const rest = data.subarray(1);
    if (channel === stdout) return rest.length === 0 || this.readableEnded || this.push(rest);
    if (channel === stderr) this.#stderr = (this.#stderr + rest.toString('utf8')).slice(-stderrBytes);
    if (channel === errorCount) this.#status = endOf(JSON.parse(rest.toString('utf8')) as ApiStatus);
    return true;
  }

  #sent(): void {
    const next = this.#waiting;
    this.#waiting = undefined;
    next?.();
  }

  #closed(code: number, reason: string): void {
    const why = reason === '' ? `the connection ended (${code})` : reason;
    const status = this.#status ?? { code: null, reason: why };
    this.#ended.resolve({ ...status, stderr: this.#stderr });
    if (this.#status === undefined) this.destroy(new UnreachableError(why));
    else {
      this.push(null);
      this.#sent();
      // What is still written has nobody to read it.
      if (!this.writableFinished) this.end();
    }
  }

  override _read(): void {
    this.#socket?.resume();
  }

  override _write(data: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    let isRoom = true;
    for (let at = 0; at < data.length; at += chunkBytes) {
      const part = data.subarray(at, at + chunkBytes);
      isRoom = this.#socket?.send(Buffer.concat([Buffer.from([stdin]), part])) ?? true;
    }
    if (isRoom) done();
    else this.#waiting = done;
  }

  override _final(done: (error?: Error | null) => void): void {
    this.#socket?.send(Buffer.from([close, stdin]));
    done();
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#sent();
    this.#socket?.destroy();
    done(error);
  }
}

/** Starts a program in a running container. Throws ApiError where the server refuses, UnreachableError where it cannot be reached. */
export async function exec(client: KubernetesClient, options: ExecOptions): Promise<ExecStream> {
  const { namespace, pod, container, argv, signal } = options;
  const { socket } = await client.upgrade(
    {
      path: `/api/v1/namespaces/${encodeURIComponent(namespace)}/pods/${encodeURIComponent(pod)}/exec`,
      query: { container, command: argv, stdin: 'true', stdout: 'true', stderr: 'true' },
      ...(signal !== undefined && { signal }),
    },
    execProtocol,
  );
  const stream = new Exec().open(socket);
  // Who holds the stream hears of it; who waits for the end alone is told by `ended`.
  stream.on('error', () => undefined);
  return { stream, ended: stream.ended };
}
