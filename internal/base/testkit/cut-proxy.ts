// A network between a daemon and its database that a test can cut: nothing passes and nothing is refused, as when a cable
// is pulled. What was sent meanwhile is held, and goes through when the network is mended: late, as real packets are.

import { connect, createServer, type Socket } from 'node:net';

export interface CutProxy {
  /** The address of the database through this network. */
  readonly url: string;
  cut(): void;
  mend(): void;
  /** Bytes on their way to the database that are held now. */
  heldBytes(): number;
  /** Breaks every connection. */
  stop(): Promise<void>;
}

/** One direction of a connection. */
class Lane {
  readonly #to: Socket;
  #held: Buffer[] = [];
  #isOver = false;
  isCut: boolean;

  constructor(from: Socket, to: Socket, isCut: boolean) {
    this.#to = to;
    this.isCut = isCut;
    from.on('data', (chunk: Buffer) => {
      this.#held.push(chunk);
      this.pass();
    });
    from.on('close', () => {
      this.#isOver = true;
      this.pass();
    });
    // How it ended is told by its close.
    from.on('error', () => undefined);
  }

  heldBytes(): number {
    return this.#held.reduce((sum, chunk) => sum + chunk.length, 0);
  }

  pass(): void {
    if (this.isCut) return;
    for (const chunk of this.#held.splice(0)) if (!this.#to.destroyed) this.#to.write(chunk);
    if (this.#isOver) this.#to.end();
  }
}

/** Listens on a free port of 127.0.0.1 in front of the database at this address. */
export async function startCutProxy(databaseUrl: string): Promise<CutProxy> {
  const target = new URL(databaseUrl);
  const sockets = new Set<Socket>();
  const links: { readonly up: Lane; readonly down: Lane }[] = [];
  let isCut = false;
  const server = createServer({ noDelay: true }, (near) => {
    const far = connect({ host: target.hostname, port: Number(target.port), noDelay: true });
    for (const socket of [near, far]) sockets.add(socket.once('close', () => sockets.delete(socket)));
    links.push({ up: new Lane(near, far, isCut), down: new Lane(far, near, isCut) });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = new URL(databaseUrl);
  url.host = `127.0.0.1:${(server.address() as { port: number }).port}`;
  const set = (value: boolean): void => {
    isCut = value;
    for (const lane of links.flatMap(({ up, down }) => [up, down])) {
      lane.isCut = value;
      lane.pass();
    }
  };
  return {
    url: url.href,
    cut: () => set(true),
    mend: () => set(false),
    heldBytes: () => links.reduce((sum, { up }) => sum + up.heldBytes(), 0),
    async stop() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
