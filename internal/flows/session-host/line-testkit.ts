// A network between a daemon and its cluster or engine that tests cut and mend. Only tests import this.

import { readFile, writeFile } from 'node:fs/promises';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';

/** A way to a cluster or an engine that can be cut, as a network's can. */
export class Line {
  readonly #server: Server;
  readonly #open = new Set<Socket>();
  isCut: boolean;

  private constructor(reach: () => Socket, isCut: boolean) {
    this.isCut = isCut;
    this.#server = createServer({ allowHalfOpen: true }, (near) => {
      near.on('error', () => near.destroy());
      if (this.isCut) return near.destroy();
      const far = reach();
      far.on('error', () => near.destroy());
      for (const [one, other] of [
        [near, far],
        [far, near],
      ] as const) {
        this.#open.add(one);
        one.on('close', () => {
          this.#open.delete(one);
          other.destroy();
        });
      }
      near.pipe(far).pipe(near);
    });
  }

  /** Changes the address of the cluster in a kubeconfig to its own. */
  static async before(kubeconfig: string, isCut: boolean): Promise<Line> {
    const text = await readFile(kubeconfig, 'utf8');
    const [address = ''] = /https:\/\/127\.0\.0\.1:\d+/.exec(text) ?? [];
    const to = new URL(address);
    const reach = (): Socket => connect({ port: Number(to.port), host: to.hostname, allowHalfOpen: true });
    const line = new Line(reach, isCut);
    await new Promise<void>((resolve) => line.#server.listen(0, '127.0.0.1', resolve));
    const { port } = line.#server.address() as AddressInfo;
    await writeFile(kubeconfig, text.replace(address, `https://127.0.0.1:${port}`));
    return line;
  }

  /** Listens on a socket in front of another one. */
  static async at(path: string, to: string): Promise<Line> {
    const line = new Line(() => connect({ path: to, allowHalfOpen: true }), false);
    await new Promise<void>((resolve) => line.#server.listen(path, resolve));
    return line;
  }

  cut(): void {
    this.isCut = true;
    for (const socket of this.#open) socket.destroy();
  }

  async stop(): Promise<void> {
    this.cut();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}
