// A server that answers at once, and then a byte every two milliseconds: no silence ends that. Only tests import this.

import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

export interface Trickle {
  readonly url: string;
  /** Answers that were read to their end. */
  wholes(): number;
}

/** Ends with the test, in which a deadline of any length is 30 ms. An answer has 500 bytes before `{}`. */
export async function startTrickle(t: TestContext, status = 200): Promise<Trickle> {
  const timeout = AbortSignal.timeout.bind(AbortSignal);
  t.mock.method(AbortSignal, 'timeout', () => timeout(30));
  let wholes = 0;
  const server = createServer((_, response) => {
    const trickle = async (): Promise<void> => {
      response.writeHead(status, { 'content-type': 'application/json' });
      for (let left = 500; left > 0 && !response.closed; left -= 1) {
        response.write(' ');
        await sleep(2);
      }
      if (response.closed) return;
      wholes += 1;
      response.end('{}');
    };
    void trickle();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, wholes: () => wholes };
}
