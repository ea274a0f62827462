// A network between a daemon and its cluster that tests cut and mend. Only tests import this.

import { readFile, writeFile } from 'node:fs/promises';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';

/** A way to the cluster that can be cut, as a network's can. */
export class Line {
  readonly #server: Server;
  readonly #open = new Set<Socket>();
  isCut: boolean;

  private constructor(to: URL, isCut: boolean) {
    this.isCut = isCut;
    this.#server = createServer((near) => {
      near.on('error', () => near.destroy());
      if (this.isCut) return near.destroy();
      const far = connect(Number(to.port), to.hostname);
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
    const line = new Line(new URL(address), isCut);
    await new Promise<void>((resolve) => line.#server.listen(0, '127.0.0.1', resolve));
    const { port } = line.#server.address() as AddressInfo;
    await writeFile(kubeconfig, text.replace(address, `https://127.0.0.1:${port}`));
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
