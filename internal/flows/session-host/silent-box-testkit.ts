// An engine with one box that a test makes fall silent: it takes what it is told and answers nothing any more, as one does behind a
// network that swallows. The box is the other end of the wire; of its programs the harness is a real one, and the others end at once.
// Only tests import this.

import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Duplex } from 'node:stream';
import { text } from 'node:stream/consumers';

/** What an engine says; a volume is whoever's it is made for. */
export const engineWords: readonly (readonly [question: RegExp, status: number, answer: string])[] = [
  [/^GET \S+\/version$/, 200, '{"Version":"1"}'],
  [/^GET \S+\/info$/, 200, '{}'],
  [/^GET \S+\/containers\/json\?/, 200, '[]'],
  [/^GET \S+\/volumes\//, 404, '{}'],
  [/^GET \S+\/images\//, 200, `{"Id":"sha256:${'a'.repeat(64)}"}`],
  [/^POST \S+\/volumes\/create$/, 201, ''],
  [/^POST \S+\/containers\/create\?/, 201, '{"Id":"box"}'],
];
const boxWords: typeof engineWords = [
  ...engineWords,
  [/^PUT \S+\/containers\/box\/archive\?/, 200, '{}'],
  [/^POST \S+\/containers\/box\/start$/, 204, '{}'],
  [/^POST \S+\/containers\/box\/exec$/, 201, '{"Id":"exec"}'],
  [/^DELETE \S+\/containers\/box\?/, 204, '{}'],
];

interface Frame {
  readonly t: string;
  readonly [field: string]: unknown;
}

/** A frame of the wire: two lengths, a header in JSON, and data. */
function encode(header: Frame, data: Buffer = Buffer.alloc(0)): Buffer {
  const head = Buffer.from(JSON.stringify(header));
  const lengths = Buffer.alloc(8);
  lengths.writeUInt32BE(head.length, 0);
  lengths.writeUInt32BE(data.length, 4);
  return Buffer.concat([lengths, head, data]);
}

function readFrames(stream: Duplex, onFrame: (header: Frame, data: Buffer) => void): void {
  let rest: Buffer = Buffer.alloc(0);
  stream.on('data', (chunk: Buffer) => {
    rest = Buffer.concat([rest, chunk]);
    while (rest.length >= 8) {
      const head = 8 + rest.readUInt32BE(0);
      const end = head + rest.readUInt32BE(4);
      if (rest.length < end) return;
      const [header, data] = [JSON.parse(rest.toString('utf8', 8, head)) as Frame, rest.subarray(head, end)];
      rest = rest.subarray(end);
      onFrame(header, data);
    }
  });
}

/** The first process of the box, as far as one session without mounts asks for it. */
class Box {
  readonly #harness: readonly string[];
  readonly #home = mkdtempSync(join(tmpdir(), 'svc-box-'));
  readonly #programs = new Map<unknown, ChildProcess>();
  /** Bytes that each of them was given. */
  readonly #given = new Map<unknown, number>();
  #owner: unknown;
  #stream: Duplex | undefined;
  #sent = 0;
  readonly #startsNone: boolean;
  isSilent = false;

  constructor(harness: readonly string[], startsNone: boolean) {
    this.#harness = harness;
    this.#startsNone = startsNone;
  }

  join(stream: Duplex): void {
    this.#stream = stream;
    readFrames(stream, (header, data) => this.#take(header, data));
  }

  /** To another owner it begins its numbers anew. */
  #hello(owner: unknown): void {
    if (owner !== this.#owner) this.#sent = 0;
    this.#owner = owner;
    const programs = [...this.#programs.keys()].map((id) => ({ id, in: this.#given.get(id) }));
    this.#stream?.write(encode({ t: 'state', got: 0, programs, ids: 1_000 }));
  }

  #take({ t, n, id, owner }: Frame, data: Buffer): void {
    if (t === 'start' && this.#startsNone) this.isSilent = true;
    if (this.isSilent) return;
    if (t === 'hello') this.#hello(owner);
    else if (t === 'ping') this.#stream?.write(encode({ t: 'pong' }));
    if (n !== undefined) this.#stream?.write(encode({ t: 'got', got: n }));
    if (t === 'try') this.#say({ t: 'tried', id, answered: [] });
    else if (t === 'kill') this.#programs.get(id)?.kill('SIGKILL');
    else if (t === 'start') this.#start(id, JSON.parse(data.toString('utf8')) as { argv: string[]; env: object });
    else if (t === 'in') {
      this.#programs.get(id)?.stdin?.write(data);
      this.#given.set(id, (this.#given.get(id) ?? 0) + data.length);
      this.#say({ t: 'inack', id, bytes: data.length });
    }
  }

  #start(id: unknown, { argv, env }: { readonly argv: readonly string[]; readonly env: object }): void {
    this.#say({ t: 'started', id, pid: 1 });
    const isHarness = argv.join('\0') === this.#harness.join('\0');
    const end = (code: number | null): void => {
      for (const fd of [1, 2]) this.#say({ t: 'outend', id, fd });
      this.#say({ t: 'exit', id, code });
    };
    if (!isHarness) return end(0);
    const [file = '', ...args] = argv;
    const program = spawn(file, args, { cwd: this.#home, env: { ...env, HOME: this.#home } });
    this.#programs.set(id, program);
    let at = 0;
    program.stdout.on('data', (chunk: Buffer) => {
      this.#say({ t: 'out', id, fd: 1, at }, chunk);
      at += chunk.length;
    });
    program.stderr.resume();
    program.once('exit', end);
  }

  #say(header: Frame, data?: Buffer): void {
    this.#sent += 1;
    if (!this.isSilent) this.#stream?.write(encode({ ...header, n: this.#sent }, data));
  }

  async stop(): Promise<void> {
    for (const program of this.#programs.values()) program.kill('SIGKILL');
    this.#stream?.destroy();
    await rm(this.#home, { recursive: true, force: true });
  }
}

/** A stream as engines give one of a program: what comes out comes in frames of eight bytes and data. */
function framed(socket: Duplex): Duplex {
  const stream = new Duplex({
    read: () => undefined,
    write: (chunk: Buffer, _encoding, done) => {
      const head = Buffer.from([1, 0, 0, 0, 0, 0, 0, 0]);
      head.writeUInt32BE(chunk.length, 4);
      socket.write(Buffer.concat([head, chunk]), () => done());
    },
    destroy: (_error, done) => {
      socket.destroy();
      done(null);
    },
  });
  socket.on('data', (chunk: Buffer) => stream.push(chunk));
  socket.on('error', () => socket.destroy());
  socket.on('close', () => stream.destroy());
  return stream;
}

export interface SilentEngine {
  readonly socket: string;
  readonly isSilent: () => boolean;
  /** From now on it answers nothing, and its box neither. */
  fallSilent(): void;
  stop(): Promise<void>;
}

/**
 * `harness`: the program of it. `startsNone`: it falls silent when the first program is to be started; `silentAt`: when it is
 * asked this.
 */
export async function startSilentEngine(
  harness: readonly string[],
  { startsNone = false, silentAt }: { readonly startsNone?: boolean; readonly silentAt?: RegExp } = {},
): Promise<SilentEngine> {
  const dir = mkdtempSync(join(tmpdir(), 'svc-silent-'));
  const socket = join(dir, 'engine.sock');
  const box = new Box(harness, startsNone);
  const isSilent = (): boolean => box.isSilent;
  /** What its box was made with, while it is there. */
  let labels: { readonly [label: string]: string } | undefined;
  const answerTo = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const question = `${request.method} ${request.url}`;
    const body = await text(request);
    const [, status = 0, said = ''] = boxWords.find(([of]) => of.test(question)) ?? [];
    if (/containers\/create/.test(question)) labels = (JSON.parse(body) as { Labels: typeof labels }).Labels;
    if (silentAt?.test(question) === true) box.isSilent = true;
    if (/^DELETE/.test(question) && !isSilent()) labels = undefined;
    const of = /session%3D([0-9a-f-]+)/.exec(question)?.[1] ?? labels?.['svc/session'];
    const isListed = /containers\/json/.test(question) && of !== undefined && of === labels?.['svc/session'];
    const answer = isListed ? JSON.stringify([{ Id: 'box', Names: ['/box'], State: 'running', Labels: labels }]) : said;
    // Among what is not known is how the box ends, for which one waits as long as it lives.
    if (status !== 0 && !isSilent()) response.writeHead(status).end(answer === '' ? body : answer);
  };
  const engine = createServer((request, response) => void answerTo(request, response).catch(() => undefined));
  engine.on('upgrade', (_request, stream) => {
    if (isSilent()) return;
    stream.write('HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n');
    box.join(framed(stream));
  });
  await new Promise<void>((resolve) => engine.listen(socket, resolve));
  return {
    socket,
    isSilent,
    fallSilent: () => {
      box.isSilent = true;
    },
    async stop() {
      await box.stop();
      engine.closeAllConnections();
      engine.close();
      await rm(dir, { recursive: true });
    },
  };
}
