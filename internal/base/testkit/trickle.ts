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

/** Bytes after which every deadline is over: whoever asks in the same process has read of the answer by then. */
const lateAfter = 15;

/** Ends with the test, in which a deadline of any length is over in the midst of an answer, which has 500 bytes before `{}`. */
export async function startTrickle(t: TestContext, status = 200): Promise<Trickle> {
  const deadlines = new Set<AbortController>();
  t.mock.method(AbortSignal, 'timeout', () => {
    const deadline = new AbortController();
    deadlines.add(deadline);
    return deadline.signal;
  });
  const late = (): void => {
    for (const deadline of deadlines) deadline.abort(new DOMException('The operation timed out.', 'TimeoutError'));
    deadlines.clear();
  };
  let wholes = 0;
  const server = createServer((_, response) => {
    const trickle = async (): Promise<void> => {
      response.writeHead(status, { 'content-type': 'application/json' });
      for (let left = 500; left > 0 && !response.closed; left -= 1) {
        response.write(' ');
        if (500 - left === lateAfter) late();
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
