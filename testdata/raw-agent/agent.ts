// A peer of the Agent Client Protocol that writes what a prompt asks for, byte for byte, in place of what a harness would
// say. A prompt is a JSON object: `{lines, repeat?, bytes?, big?}`; `$S` in a line is the session's id, `$X` as many bytes
// as `big` says, `$N` the number of the repetition, `$K` as many members of an object as `keys` says, each followed by a comma,
// `$D` as many lists inside each other as `depth` says, `$L` as many objects with a value each as `keys` says, none of them twice,
// each followed by a comma; `$I` the id of the prompt. After each line it waits for `pauseMs`. `post` is the body of a call to the model, in the same words.

import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';

interface Order {
  readonly lines: readonly string[];
  readonly repeat?: number;
  readonly big?: number;
  /** What `$X` is made of. */
  readonly of?: string;
  readonly keys?: number;
  readonly depth?: number;
  readonly pauseMs?: number;
  readonly post?: string;
}

const say = (line: string): Promise<void> =>
  new Promise((done) => {
    if (process.stdout.write(`${line}\n`)) done();
    else process.stdout.once('drain', done);
  });
const answer = (id: unknown, result: unknown): Promise<void> => say(JSON.stringify({ jsonrpc: '2.0', id, result }));

async function obey(id: unknown, session: string, order: Order): Promise<void> {
  const { of = 'x', big = 0, keys = 0, depth = 0 } = order;
  const filling = of.repeat(Math.ceil(big / of.length)).slice(0, big);
  const members = Array.from({ length: keys }, (_, at) => `"k${at}":0,`).join('');
  const lists = `${'['.repeat(depth)}${']'.repeat(depth)}`;
  if (order.post !== undefined) {
    const response = await fetch(`${process.env['ANTHROPIC_BASE_URL']}/v1/messages`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: order.post.split('$X').join(filling),
    });
    await response.text();
  }
  for (let index = 0; index < (order.repeat ?? 1); index += 1) {
    for (const line of order.lines) {
      const numbered = line.replaceAll('$S', session).replaceAll('$N', String(index)).replaceAll('$I', String(id));
      const given = numbered.includes('$L')
        ? Array.from({ length: keys }, (_, at) => `{"value":"given-${index}-${at}"},`).join('')
        : '';
      const whole = numbered.split('$K').join(members).split('$D').join(lists).split('$L').join(given);
      await say(whole.split('$X').join(filling));
      if (order.pauseMs !== undefined) await sleep(order.pauseMs);
    }
  }
}

for await (const line of createInterface({ input: process.stdin, crlfDelay: Number.POSITIVE_INFINITY })) {
  const { id, method, params } = JSON.parse(line);
  if (method === 'initialize') {
    const agentCapabilities = { loadSession: true, mcpCapabilities: { http: true }, sessionCapabilities: { resume: {} } };
    await answer(id, {
      protocolVersion: params.protocolVersion,
      agentInfo: { name: 'raw-agent', version: '1.0.0' },
      agentCapabilities,
      authMethods: [],
    });
  } else if (method === 'session/new') await answer(id, { sessionId: `raw-${process.pid}` });
  else if (method === 'session/prompt') {
    const text = String(params.prompt.at(-1).text);
    const at = text.indexOf('{');
    if (at >= 0) await obey(id, params.sessionId, JSON.parse(text.slice(at)));
    await answer(id, { stopReason: 'end_turn' });
  } else if (id !== undefined && method !== undefined) await answer(id, {});
}
