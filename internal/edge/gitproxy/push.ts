// A push, passed through: what is to become of which ref is read from its beginning, the pack streams behind, counted.
// Refusals are told in git's own report, so that git shows them.

import type { Readable } from 'node:stream';
import type { Dispatcher } from 'undici';
import { Joined } from '../../base/joined.ts';
import { Fault } from '../../domain/fault.ts';
import { OutcomeUnknown, outsideFault } from '../../domain/outside.ts';
import { type GitUpstream, noteRefusedPush, sendPush } from '../../flows/broker/broker.ts';
import { type Exchange, judge, reached } from './exchange.ts';
import { inPieces } from './pieces.ts';

const commandBytesMax = 1024 * 1024;
const answerBytesMax = 4 * 1024 * 1024;
/** Of one packet of a side band, beside its length and the number of the band. */
const bandBytesMax = 65_515;
/** Of a connection that could not be made: nothing was sent. */
const notSent = /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|UND_ERR_CONNECT_TIMEOUT|EHOSTUNREACH|ENETUNREACH)$/;
const zero = /^0+$/;
const flush = '0000';
/** As the code host reads it, which takes capitals of an object's name and any name of a ref. */
const commandShape = /^[0-9a-f]{40,64} ([0-9a-f]{40,64}) (\S+)\n?$/i;
/** Beside commands: where the history of a shallow clone ends. */
const shallowShape = /^shallow [0-9a-f]{40,64}\n?$/i;
/** Lines of git's report, each behind its length. */
const accepted = /[0-9a-f]{4}ok \S/;
const rejected = /[0-9a-f]{4}(?:ng \S|unpack (?!ok))/;

interface Commands {
  /** Everything up to and with the flush, and what came behind it in the same chunk. */
  readonly head: Buffer;
  readonly refs: { readonly [name: string]: string | null };
  readonly hasSideBand: boolean;
}

export async function passPush(exchange: Exchange, way: GitUpstream): Promise<void> {
  const { ctx, of, request, response, pushMaxBytes } = exchange;
  if (request.headers['content-encoding'] !== undefined)
    throw outsideFault('refused', 'a push is not compressed as a whole');
  const body = inPieces(request);
  const commands = await readCommands(body);
  // git asks first whether it may send much, with nothing in it.
  if (commands.head.length === flush.length) {
    const answer = await reached(exchange.forward(way, '/git-receive-pack', commands.head));
    const fault = judge(answer, way);
    if (fault === undefined) return finish(exchange, await reached(bounded(answer.body)));
    await answer.body.dump();
    throw fault;
  }
  const size = Number(request.headers['content-length'] ?? 0);
  const tooLarge = outsideFault('too-large', `a push has at most ${pushMaxBytes} bytes (sessions.pushMaxBytes)`);
  if (size > pushMaxBytes) {
    await noteRefusedPush(ctx, of, tooLarge.code);
    await drain(body);
    return finish(exchange, report(commands, tooLarge));
  }
  let answered: Buffer | undefined;
  try {
    await sendPush(ctx, of, {
      way,
      refs: commands.refs,
      send: async () => {
        answered = await forward(exchange, way, counted(commands.head, body, pushMaxBytes, tooLarge));
        const said = answered.toString('latin1');
        if (!accepted.test(said) && rejected.test(said))
          throw outsideFault('refused', 'the code host refused every ref');
        return { pushed: true };
      },
    });
    finish(exchange, answered ?? report(commands, undefined));
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    if (!response.headersSent) {
      await drain(body);
      finish(exchange, answered ?? report(commands, error));
    }
  }
}

/** Reads what is left: git reads no answer before it has sent everything. */
async function drain(body: AsyncIterator<Buffer>): Promise<void> {
  try {
    for (let next = await body.next(); next.done !== true; ) next = await body.next();
  } catch (error) {
    // Whoever pushed has left: nobody reads the answer either.
    if (!/aborted|premature|ECONNRESET/i.test(String((error as NodeJS.ErrnoException).code ?? error))) throw error;
  }
}

function finish({ response }: Exchange, bytes: Buffer): void {
  response.writeHead(200, { 'content-type': 'application/x-git-receive-pack-result', 'cache-control': 'no-store' });
  response.end(bytes);
}

async function forward(exchange: Exchange, way: GitUpstream, body: AsyncIterable<Uint8Array>): Promise<Buffer> {
  let answer: Dispatcher.ResponseData;
  let bytes: Buffer;
  try {
    answer = await exchange.forward(way, '/git-receive-pack', body);
    bytes = await bounded(answer.body);
  } catch (error) {
    const cause = (error as { cause?: unknown }).cause;
    const fault = error instanceof Fault ? error : cause instanceof Fault ? cause : undefined;
    if (fault !== undefined) throw fault;
    if (notSent.test(String((error as NodeJS.ErrnoException).code))) {
      throw outsideFault('provider-unavailable', 'the code host could not be reached; nothing was sent');
    }
    throw new OutcomeUnknown('the answer to a push was lost', { cause: error });
  }
  if (answer.statusCode >= 500) throw new OutcomeUnknown(`an answer of ${answer.statusCode} to a push`);
  const fault = judge(answer, way);
  if (fault !== undefined) throw fault;
  return bytes;
}

async function bounded(body: Readable): Promise<Buffer> {
  const all = new Joined();
  try {
    for await (const piece of inPieces(body)) {
      all.add(piece);
      if (all.length > answerBytesMax) throw new Error('the answer to a push has no end');
    }
  } finally {
    body.destroy();
  }
  return all.take();
}

/** Takes the chunks one by one: leaving off early must not end the request that is still read afterwards. */
async function* counted(
  head: Buffer,
  body: AsyncIterator<Buffer>,
  most: number,
  tooLarge: Fault,
): AsyncGenerator<Buffer> {
  let size = head.length;
  if (size > most) throw tooLarge;
  yield head;
  for (let next = await body.next(); next.done !== true; next = await body.next()) {
    size += next.value.length;
    if (size > most) throw tooLarge;
    yield next.value;
  }
}

/**
 * Reads `old new ref` lines up to the flush. Throws Fault `refused` for anything else: what is not understood here would be
 * a push that nobody has noted.
 */
async function readCommands(body: AsyncIterator<Buffer>): Promise<Commands> {
  let head: Buffer = Buffer.alloc(0);
  const refs = Object.create(null) as { [name: string]: string | null };
  let hasSideBand = false;
  let at = 0;
  // Joined in steps that double: a body in very many small chunks would else be copied once for each of them.
  let room: Buffer = Buffer.alloc(4_096);
  const more = async (bytes: number): Promise<void> => {
    while (head.length < bytes) {
      const next = await body.next();
      if (next.done === true || bytes > commandBytesMax) throw noPush();
      const length = head.length + next.value.length;
      if (length > room.length) {
        room = Buffer.alloc(2 * length);
        head.copy(room);
      }
      next.value.copy(room, head.length);
      head = room.subarray(0, length);
    }
  };
  for (;;) {
    await more(at + 4);
    const length = Number.parseInt(head.toString('latin1', at, at + 4), 16);
    if (length === 0) {
      if (at > 0 && Object.keys(refs).length === 0) throw noPush();
      return { head, refs, hasSideBand };
    }
    if (!(length > 4)) throw noPush();
    await more(at + length);
    const [line = '', capabilities = ''] = head.toString('utf8', at + 4, at + length).split('\0');
    hasSideBand ||= /\bside-band-64k\b/.test(capabilities);
    const [, made, name] = commandShape.exec(line) ?? [];
    if (made !== undefined && name !== undefined) refs[name] = zero.test(made) ? null : made.toLowerCase();
    else if (/^push-cert\n?$/.test(line)) throw noPush('a signed push is not passed on; push without --signed');
    else if (!shallowShape.test(line)) throw noPush();
    at += length;
  }
}

const noPush = (why = 'this is no push of git'): Fault => outsideFault('refused', why);

const packet = (data: Buffer | string): Buffer => {
  const bytes = Buffer.from(data as string);
  return Buffer.concat([Buffer.from((bytes.length + 4).toString(16).padStart(4, '0')), bytes]);
};

/** What git is told: every ref done, or why none is. */
function report({ refs, hasSideBand }: Commands, fault: Fault | undefined): Buffer {
  const why = fault === undefined ? '' : `${fault.code}: ${fault.message}`.replaceAll(/\s+/g, ' ');
  const lines = Object.keys(refs).map((name) => (fault === undefined ? `ok ${name}\n` : `ng ${name} ${fault.code}\n`));
  const status = Buffer.concat([packet('unpack ok\n'), ...lines.map((line) => packet(line)), Buffer.from(flush)]);
  if (!hasSideBand) return status;
  const said = fault === undefined ? [] : [packet(`\x02svc: ${why}\n`)];
  const parts = Array.from({ length: Math.ceil(status.length / bandBytesMax) }, (_, at) =>
    packet(Buffer.concat([Buffer.from([1]), status.subarray(at * bandBytesMax, (at + 1) * bandBytesMax)])),
  );
  return Buffer.concat([...said, ...parts, Buffer.from(flush)]);
}
