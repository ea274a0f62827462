// Requests and answers of the git wire protocol, version 2 (and the advertisement and fetch of versions 0 and 1,
// for old servers). Pure: takes frames, gives values. A server's abort is never swallowed: `ERR` frames become a
// GitServerError, side-band channel 3 becomes the condition `corrupt`. A frame is four hexadecimal digits of length, then the
// payload; lengths are taken strictly (4 to 65520), so that whatever a server sends costs at most one frame of memory.

import { RepoCondition } from './types.ts';

export type Pkt = { readonly kind: 'data'; readonly payload: Buffer } | { readonly kind: 'flush' | 'delim' | 'end' };

export const maxPktBytes = 65_520;

/** One data frame. Throws RangeError where the payload does not fit. */
export function encodePkt(payload: string | Uint8Array): Buffer {
  const body = Buffer.from(payload);
  if (body.length + 4 > maxPktBytes) throw new RangeError('pkt-line payload is too long');
  return Buffer.concat([Buffer.from((body.length + 4).toString(16).padStart(4, '0')), body]);
}

export const flushPkt = Buffer.from('0000');
export const delimPkt = Buffer.from('0001');

/** Takes bytes as they come and gives whole frames. */
export class PktDecoder {
  #rest: Buffer = Buffer.alloc(0);

  /** The frames completed by `chunk`. Throws `corrupt` at a length that cannot be. */
  push(chunk: Uint8Array): Pkt[] {
    const fresh = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    const bytes = this.#rest.length === 0 ? fresh : Buffer.concat([this.#rest, fresh]);
    const frames: Pkt[] = [];
    let at = 0;
    while (bytes.length - at >= 4) {
      const length = pktLength(bytes, at);
      if (length < 4) {
        frames.push({ kind: length === 0 ? 'flush' : length === 1 ? 'delim' : 'end' });
        at += 4;
        continue;
      }
      if (bytes.length - at < length) break;
      frames.push({ kind: 'data', payload: bytes.subarray(at + 4, at + length) });
      at += length;
    }
    // A copy, so that a small rest does not hold on to a large chunk.
    this.#rest = Buffer.from(bytes.subarray(at));
    return frames;
  }

  /** Throws `corrupt` where the stream ended inside a frame. */
  finish(): void {
    if (this.#rest.length > 0) throw new RepoCondition('corrupt', 'the answer of the git server was cut off');
  }
}

function pktLength(bytes: Buffer, at: number): number {
  let length = 0;
  for (let index = at; index < at + 4; index += 1) {
    const digit = hexDigit(bytes[index] as number);
    if (digit < 0) throw new RepoCondition('corrupt', 'the answer of the git server is not in pkt-line frames');
    length = length * 16 + digit;
  }
  if (length === 3 || length > maxPktBytes) {
    throw new RepoCondition('corrupt', `the git server sent a frame of impossible length ${length}`);
  }
  return length;
}

function hexDigit(code: number): number {
  if (code >= 48 && code <= 57) return code - 48;
  if (code >= 97 && code <= 102) return code - 87;
  if (code >= 65 && code <= 70) return code - 55;
  return -1;
}

export const agentName = 'agent=svc/1';

/** The server refused in its own words (an `ERR` frame). */
export class GitServerError extends Error {
  constructor(message: string) {
    super(printable(message));
    this.name = 'GitServerError';
  }
}

export interface RemoteRef {
  readonly name: string;
  readonly oid: string;
  readonly symrefTarget?: string;
  readonly peeled?: string;
}

export interface Capabilities {
  readonly protocol: 0 | 1 | 2;
  readonly agent: string | null;
  readonly objectFormat: string;
  readonly filter: boolean;
  readonly capabilities: readonly string[];
  /** Only versions 0 and 1 list them here; those that were asked for. */
  readonly refs: readonly RemoteRef[];
}

export interface FetchRequest {
  readonly wants: readonly string[];
  readonly haves?: readonly string[];
  readonly depth?: number;
  readonly filter?: string;
  readonly thin?: boolean;
}

export function lsRefsRequest(prefixes: readonly string[]): Buffer {
  return Buffer.concat([
    encodePkt('command=ls-refs\n'),
    encodePkt(`${agentName}\n`),
    delimPkt,
    encodePkt('peel\n'),
    encodePkt('symrefs\n'),
    ...prefixes.map((prefix) => encodePkt(`ref-prefix ${prefix}\n`)),
    flushPkt,
  ]);
}

export function fetchRequest(request: FetchRequest): Buffer {
  return Buffer.concat([
    encodePkt('command=fetch\n'),
    encodePkt(`${agentName}\n`),
    delimPkt,
    ...(request.thin === true ? [encodePkt('thin-pack\n')] : []),
    encodePkt('no-progress\n'),
    encodePkt('ofs-delta\n'),
    ...(request.depth === undefined ? [] : [encodePkt(`deepen ${request.depth}\n`)]),
    ...(request.filter === undefined ? [] : [encodePkt(`filter ${request.filter}\n`)]),
    ...request.wants.map((oid) => encodePkt(`want ${oid}\n`)),
    ...(request.haves ?? []).map((oid) => encodePkt(`have ${oid}\n`)),
    encodePkt('done\n'),
    flushPkt,
  ]);
}

/** The request of versions 0 and 1 for the whole tree of one commit. */
export function oldFetchRequest(oid: string, offered: readonly string[]): Buffer {
  const wanted = ['side-band-64k', 'thin-pack', 'ofs-delta', 'no-progress'].filter((word) => offered.includes(word));
  const shallow = offered.includes('shallow');
  return Buffer.concat([
    encodePkt(`want ${oid} ${[...wanted, agentName].join(' ')}\n`),
    ...(shallow ? [encodePkt('deepen 1\n')] : []),
    flushPkt,
    encodePkt('done\n'),
  ]);
}

/** Refs in one answer; more are no repository that anybody works in. */
const refsMax = 1_000_000;
/** What a server of version 2 says of itself, in lines. */
const capabilitiesMax = 1_000;

/** Which refs of an answer are kept, by their names. */
type Keep = (name: string) => boolean;

/**
 * Of a list of refs those that somebody asked for, each name once, so that a list of any length costs one line of memory.
 * What is passed over is checked and counted as well.
 */
class RefList {
  readonly #keep: Keep;
  readonly #kept = new Map<string, RemoteRef>();
  #count = 0;

  constructor(keep: Keep) {
    this.#keep = keep;
  }

  add(line: string): void {
    const ref = parseRefLine(line);
    this.#count += 1;
    if (this.#count > refsMax) throw new RepoCondition('too-large', `the git server lists over ${refsMax} refs`);
    if (this.#keep(ref.name) && !this.#kept.has(ref.name)) this.#kept.set(ref.name, ref);
  }

  get refs(): RemoteRef[] {
    return [...this.#kept.values()];
  }
}

/**
 * Reads an ls-refs answer, and gives of it what `keep` names. Refs with names or ids that cannot be are `corrupt`; a SHA-256
 * id has its own words.
 */
export async function parseLsRefs(pkts: AsyncIterable<Pkt>, keep: Keep): Promise<RemoteRef[]> {
  const list = new RefList(keep);
  for await (const pkt of pkts) {
    if (pkt.kind === 'flush') return list.refs;
    list.add(textOf(pkt));
  }
  throw cutOff();
}

/** Git makes no ref whose name holds a control character, and it is kept and shown. Throws `corrupt`. */
function checkRefName(name: string): string {
  if (!/[\0-\x1f\x7f]/.test(name)) return name;
  throw new RepoCondition('corrupt', 'the git server lists a ref whose name holds a control character');
}

function parseRefLine(line: string): RemoteRef {
  const [oid, name, ...attributes] = line.split(' ');
  if (oid === undefined || name === undefined || name === '') throw notGit();
  checkOid(oid);
  let ref: RemoteRef = { name: checkRefName(name), oid };
  for (const attribute of attributes) {
    if (attribute.startsWith('symref-target:')) ref = { ...ref, symrefTarget: checkRefName(attribute.slice(14)) };
    if (attribute.startsWith('peeled:')) {
      checkOid(attribute.slice(7));
      ref = { ...ref, peeled: attribute.slice(7) };
    }
  }
  return ref;
}

/**
 * Reads the answer to `GET info/refs?service=git-upload-pack` in any version. Of the refs that versions 0 and 1 list with it
 * those that `keep` names are given.
 */
export async function parseAdvertisement(pkts: AsyncIterable<Pkt>, keep: Keep): Promise<Capabilities> {
  let said: Advertisement | undefined;
  let flushes = 0;
  let protocol: 0 | 1 | 2 = 0;
  let isServed = false;
  for await (const pkt of pkts) {
    if (pkt.kind === 'flush') {
      // The service line has a flush of its own; version 2 may come without it. Old servers say no more of what is empty.
      if (said === undefined && ++flushes === 1) continue;
      if (said === undefined && !isServed) throw notGit();
      return (said ?? new Advertisement(protocol, keep)).ended();
    }
    const line = textOf(pkt);
    if (said === undefined && line.startsWith('# service=')) isServed = true;
    else if (said === undefined && line === 'version 2') protocol = 2;
    else if (said === undefined && protocol === 0 && line === 'version 1') protocol = 1;
    else {
      said ??= new Advertisement(protocol, keep);
      said.add(line);
    }
  }
  throw cutOff();
}

/** What a server says of itself, line by line. */
class Advertisement {
  readonly #protocol: 0 | 1 | 2;
  readonly #list: RefList;
  /** Version 2: its lines; before, the words of the first one. */
  #capabilities: string[] | undefined;

  constructor(protocol: 0 | 1 | 2, keep: Keep) {
    this.#protocol = protocol;
    this.#list = new RefList(keep);
  }

  add(line: string): void {
    if (this.#protocol === 2) {
      this.#capabilities ??= [];
      this.#capabilities.push(line);
      if (this.#capabilities.length > capabilitiesMax)
        throw new RepoCondition('too-large', `the git server says over ${capabilitiesMax} lines of itself`);
    } else if (this.#capabilities === undefined) {
      const cut = line.indexOf('\0');
      if (cut < 0) throw notGit();
      this.#capabilities = line.slice(cut + 1).split(' ');
      this.#ref(line.slice(0, cut));
    } else this.#ref(line);
  }

  ended(): Capabilities {
    const capabilities = this.#capabilities ?? [];
    if (this.#protocol === 2) {
      const fetch = capabilities.find((line) => line.startsWith('fetch=')) ?? '';
      return described(2, capabilities, fetch.slice(6).split(' ').includes('filter'), []);
    }
    const symrefs = new Map<string, string>();
    for (const capability of capabilities) {
      const match = /^symref=([^:]+):(.+)$/.exec(capability);
      if (match?.[1] !== undefined && match[2] !== undefined) symrefs.set(match[1], checkRefName(match[2]));
    }
    const refs = this.#list.refs.map((ref) => {
      const target = symrefs.get(ref.name);
      return target === undefined ? ref : { ...ref, symrefTarget: target };
    });
    return described(this.#protocol, capabilities, capabilities.includes('filter'), refs);
  }

  #ref(line: string): void {
    if (!line.startsWith('shallow ') && !line.endsWith(' capabilities^{}')) this.#list.add(line);
  }
}

function described(
  protocol: 0 | 1 | 2,
  capabilities: readonly string[],
  filter: boolean,
  refs: readonly RemoteRef[],
): Capabilities {
  const value = (key: string) => capabilities.find((word) => word.startsWith(`${key}=`))?.slice(key.length + 1);
  const agent = value('agent');
  return {
    protocol,
    agent: agent === undefined ? null : printable(agent),
    objectFormat: value('object-format') ?? 'sha1',
    filter,
    capabilities,
    refs,
  };
}

/** The bytes of the pack in a version 2 fetch answer. Ends only after the closing flush; all else throws. */
export async function* fetchedPack(pkts: AsyncIterable<Pkt>): AsyncGenerator<Buffer> {
  let inPack = false;
  for await (const pkt of pkts) {
    if (!inPack) {
      if (pkt.kind === 'delim') continue;
      if (pkt.kind !== 'data') throw notGit();
      inPack = textOf(pkt) === 'packfile';
      continue;
    }
    if (pkt.kind === 'flush') return;
    if (pkt.kind !== 'data') throw notGit();
    const data = sideBand(pkt.payload);
    if (data !== null) yield data;
  }
  throw cutOff();
}

/** The same for versions 0 and 1: shallow lines, a flush, NAK, then the pack in side-band frames. */
export async function* oldFetchedPack(pkts: AsyncIterable<Pkt>): AsyncGenerator<Buffer> {
  let inPack = false;
  for await (const pkt of pkts) {
    if (!inPack) {
      if (pkt.kind !== 'data') continue;
      const line = textOf(pkt);
      if (line === 'NAK' || line.startsWith('ACK ')) inPack = true;
      else if (!line.startsWith('shallow ') && !line.startsWith('unshallow ')) throw notGit();
      continue;
    }
    if (pkt.kind === 'flush') return;
    if (pkt.kind !== 'data') throw notGit();
    const data = sideBand(pkt.payload);
    if (data !== null) yield data;
  }
  throw cutOff();
}

function sideBand(payload: Buffer): Buffer | null {
  const channel = payload[0];
  if (channel === 1) return payload.subarray(1);
  if (channel === 2) return null;
  if (channel === 3) {
    throw new RepoCondition('corrupt', `the git server aborted: ${printable(payload.subarray(1).toString('utf8'))}`);
  }
  throw notGit();
}

function textOf(pkt: Pkt): string {
  if (pkt.kind !== 'data') throw notGit();
  const text = pkt.payload.toString('utf8').replace(/\n$/, '');
  if (text.startsWith('ERR ')) throw new GitServerError(text.slice(4));
  return text;
}

function checkOid(oid: string): void {
  if (/^[0-9a-f]{40}$/.test(oid)) return;
  if (/^[0-9a-f]{64}$/.test(oid)) throw sha256Repository();
  throw notGit();
}

export function sha256Repository(): RepoCondition {
  return new RepoCondition(
    'corrupt',
    'the repository uses SHA-256 object ids, which are not supported: use a SHA-1 one',
  );
}

function notGit(): RepoCondition {
  return new RepoCondition('corrupt', 'the answer is not what a git server sends');
}

function cutOff(): RepoCondition {
  return new RepoCondition('corrupt', 'the answer of the git server was cut off');
}

/** A server's words on one line, without control characters, at most 200 long. */
export function printable(text: string): string {
  return text
    .replace(/[\p{Cc}\p{Cf}\u2028\u2029]+/gu, ' ')
    .trim()
    .slice(0, 200);
}
