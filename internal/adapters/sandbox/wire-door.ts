// Where boxes come to their daemon (`wire: dial`): one port that speaks TLS 1.3 with a key of each wire and nothing else.
// Who has no key of a wire that is expected here gets no byte of an answer beyond the alert, no certificate and no
// protocol; the key comes from the wire's secret, which goes in by one short exec and stands in no manifest. What is not
// known yet is bounded: in time, in number, and in number for one address. docs/reference/sessions.md#dial.

import { constants, createHash, createHmac, randomBytes } from 'node:crypto';
import { lookup } from 'node:dns/promises';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { connect, createSecureContext, TLSSocket } from 'node:tls';

export interface Place {
  readonly host: string;
  readonly port: number;
}

const handshakeMs = 5_000;
const ownMs = 3_000;
const strangersMax = 512;
/** Behind one address may be all pods of a node. */
const strangersOfOne = 64;
/** Of one wire: who has its key and still comes again and again is let in so often in so long. */
const arrivalsMax = 40;
const arrivalsMs = 10_000;

export const textOf = (place: Place | undefined): string => `${place?.host}:${place?.port}`;

/** As svc-dial.cjs has it: the box keeps the hash of the secret alone. */
export function wireKey(secret: string): { readonly psk: Buffer; readonly identity: string } {
  const hash = createHash('sha256').update(secret).digest();
  const of = (what: string): Buffer => createHmac('sha256', hash).update(what).digest();
  return { psk: of('svc-wire-key'), identity: of('svc-wire-name').toString('hex').slice(0, 32) };
}

/** One wire that a box comes with. */
export class Visit {
  readonly identity: string;
  readonly psk: Buffer;
  readonly #leave: (visit: Visit) => void;
  #waiting: Duplex | undefined;
  #taken: Duplex | undefined;
  #wanted: ((stream: Duplex | null) => void) | undefined;
  #arrivals: number[] = [];
  #isOver = false;

  constructor(secret: string, leave: (visit: Visit) => void) {
    ({ identity: this.identity, psk: this.psk } = wireKey(secret));
    this.#leave = leave;
  }

  /** The next stream that comes, or the one that came last and nobody has taken; null after so long. */
  async next(withinMs: number, signal?: AbortSignal): Promise<Duplex | null> {
    const waiting = this.#waiting;
    this.#waiting = undefined;
    if (waiting !== undefined && !waiting.destroyed) return (this.#taken = waiting);
    const { promise, resolve } = Promise.withResolvers<Duplex | null>();
    const late = setTimeout(() => resolve(null), withinMs);
    const given = (): void => resolve(null);
    signal?.addEventListener('abort', given, { once: true });
    this.#wanted = resolve;
    const found = await promise;
    clearTimeout(late);
    signal?.removeEventListener('abort', given);
    if (this.#wanted === resolve) this.#wanted = undefined;
    return found;
  }

  /** The newest is the box: an older stream may be half of one that the box has lost. */
  arrived(stream: Duplex): void {
    const now = performance.now();
    this.#arrivals = [...this.#arrivals.filter((at) => now - at < arrivalsMs), now];
    if (this.#isOver || this.#arrivals.length > arrivalsMax) return void stream.destroy();
    this.#waiting?.destroy();
    this.#waiting = undefined;
    const wanted = this.#wanted;
    this.#wanted = undefined;
    const before = this.#taken;
    this.#taken = undefined;
    if (wanted === undefined) this.#waiting = stream;
    else {
      this.#taken = stream;
      wanted(stream);
    }
    before?.destroy();
  }

  /** Nobody is expected any more. */
  end(): void {
    this.#isOver = true;
    this.#waiting?.destroy();
    this.#wanted?.(null);
    this.#leave(this);
  }
}

export interface DoorOptions {
  readonly listen: Place;
  /** As boxes reach it; without a port, the one that is listened on. */
  readonly address: { readonly host: string; readonly port?: number };
}

const speaks = { minVersion: 'TLSv1.3', ciphers: 'TLS_AES_128_GCM_SHA256' } as const;
/** The key says it. */
const checkServerIdentity = (): undefined => undefined;

export class WireDoor {
  readonly #server: Server;
  readonly #context = createSecureContext({
    ...speaks,
    // A ticket would let somebody in whose wire is not expected any more.
    secureOptions: constants.SSL_OP_NO_TICKET,
  });
  readonly #visits = new Map<string, Visit>();
  readonly #strangers = new Set<TLSSocket>();
  readonly #address: DoorOptions['address'];

  private constructor(address: DoorOptions['address']) {
    this.#address = address;
    this.#server = createServer({ noDelay: true, keepAlive: true, keepAliveInitialDelay: 15_000 }, (socket) =>
      this.#met(socket),
    );
  }

  /** Throws what listening throws: EADDRINUSE, EADDRNOTAVAIL, EACCES. */
  static async open({ listen, address }: DoorOptions): Promise<WireDoor> {
    const door = new WireDoor(address);
    await new Promise<void>((resolve, reject) => {
      door.#server.once('error', reject);
      door.#server.listen(listen.port, listen.host, resolve);
    });
    return door;
  }

  /** As boxes reach it: the name of the settings, and the port. */
  get place(): Place {
    const { port } = this.#server.address() as AddressInfo;
    return { host: this.#address.host, port: this.#address.port ?? port };
  }

  /** How many came and have not shown yet who they are. */
  get strangers(): number {
    return this.#strangers.size;
  }

  /** The addresses to tell a box, which has nobody to ask for names. Throws what the look-up throws. */
  async addresses(): Promise<Place[]> {
    const { host, port } = this.place;
    const found = await lookup(host.replace(/^\[(.*)\]$/, '$1'), { all: true });
    return found.map(({ address }) => ({ host: address, port }));
  }

  /** Null where its own address leads here; else why not. */
  async trouble(): Promise<string | null> {
    const visit = this.expect(randomBytes(32).toString('base64url'));
    try {
      const [address] = await this.addresses();
      const { identity, psk } = visit;
      const own = connect({
        ...address,
        ...speaks,
        ca: [],
        pskCallback: () => ({ psk, identity }),
        checkServerIdentity,
      });
      const failed = Promise.withResolvers<string>();
      own.on('error', (error: NodeJS.ErrnoException) => failed.resolve(error.code ?? error.message));
      const found = await Promise.race([
        visit.next(ownMs).then((one) => (one === null ? 'ETIMEDOUT' : null)),
        failed.promise,
      ]);
      own.destroy();
      return found;
    } catch (error) {
      return error instanceof Error && 'code' in error ? String(error.code) : String(error);
    } finally {
      visit.end();
    }
  }

  /** From now on the box with this secret is let in. */
  expect(secret: string): Visit {
    const visit = new Visit(secret, (one) => {
      if (this.#visits.get(one.identity) === one) this.#visits.delete(one.identity);
    });
    this.#visits.set(visit.identity, visit);
    return visit;
  }

  /** Ends it with all streams that nobody has taken. Safe to call again. */
  async close(): Promise<void> {
    for (const visit of [...this.#visits.values()]) visit.end();
    for (const socket of this.#strangers) socket.destroy();
    if (!this.#server.listening) return;
    await new Promise<void>((resolve) => {
      this.#server.close(() => resolve());
    });
  }

  #met(socket: Socket): void {
    const { remoteAddress } = socket;
    const ofOne = [...this.#strangers].filter((one) => one.remoteAddress === remoteAddress).length;
    if (this.#strangers.size >= strangersMax || ofOne >= strangersOfOne) return void socket.destroy();
    let visit: Visit | undefined;
    // Of a server's options too, though the types know it there alone.
    const pskCallback = (_socket: TLSSocket, identity: string): Buffer | null => {
      visit = this.#visits.get(identity);
      return visit?.psk ?? null;
    };
    const options = { isServer: true, secureContext: this.#context, pskCallback };
    const stream = new TLSSocket(socket, options);
    this.#strangers.add(stream);
    const late = setTimeout(() => stream.destroy(), handshakeMs);
    const known = (): void => {
      clearTimeout(late);
      this.#strangers.delete(stream);
    };
    // What was wrong is the other end's.
    stream.on('error', () => stream.destroy());
    stream.once('close', known);
    stream.once('secure', () => {
      known();
      if (visit === undefined || this.#visits.get(visit.identity) !== visit) stream.destroy();
      else visit.arrived(stream);
    });
  }
}
