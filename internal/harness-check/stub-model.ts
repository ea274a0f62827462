// A model endpoint that is no model: streams what the last message of a request asks for, in the two wires of the real
// harnesses, and keeps every request. `STUB TEXT words` says the words, `STUB TOOL name {json}` calls the tool whose name
// ends so, `STUB SLOW` speaks until the client leaves. Anything else is answered with "ok", and a call without tools,
// which a harness makes beside its conversation, with a title.

import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';

type Fields = { readonly [key: string]: unknown };
const fields = (value: unknown): Fields => (typeof value === 'object' && value !== null ? (value as Fields) : {});
const list = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

export interface Recorded {
  readonly path: string;
  readonly body: Fields;
  readonly headers: IncomingHttpHeaders;
  /** The client left before the answer's end. */
  leftEarly: boolean;
  /** It has got its whole answer. */
  answered: boolean;
}

export interface StubModel {
  /** Without `/v1`. */
  readonly url: string;
  /** Calls to the model proper, in order; counting and listing are left out. */
  readonly requests: readonly Recorded[];
  /** From now on every call is refused with this status, or those beside the conversation alone; undefined ends it. */
  refuse(status: number | undefined, which?: 'all' | 'beside'): void;
  close(): Promise<void>;
}

type Plan =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'tool'; readonly name: string; readonly namespace?: string; readonly input: string }
  | { readonly kind: 'slow' };

/** Every piece of text of a message, results of tools as `result: …`. */
function textsOf(message: unknown): string[] {
  const { content, output, type } = fields(message);
  if (type === 'function_call_output')
    return [`result: ${typeof output === 'string' ? output : JSON.stringify(output)}`];
  if (typeof content === 'string') return [content];
  return list(content).map((block) => {
    const part = fields(block);
    if (part['type'] === 'tool_result') return `result: ${JSON.stringify(part['content'])}`;
    return typeof part['text'] === 'string' ? part['text'] : '';
  });
}

interface Tool {
  readonly name: string;
  readonly namespace?: string;
}

/** Tools of a request; one wire groups them by server. */
function toolsOf(body: Fields): Tool[] {
  return list(body['tools']).flatMap((entry) => {
    const tool = fields(entry);
    const name = String(tool['name'] ?? fields(tool['function'])['name'] ?? '');
    if (!Array.isArray(tool['tools'])) return [{ name }];
    return tool['tools'].map((inner) => ({ name: String(fields(inner)['name'] ?? ''), namespace: name }));
  });
}

/** How many tools a request offers; what a harness asks beside its conversation offers none. */
export const toolCount = (body: Fields): number => list(body['tools']).length;

function planOf(body: Fields): Plan {
  if (toolCount(body) === 0) return { kind: 'text', text: '{"title":"A talk with a stub"}' };
  const texts = list(body['messages'] ?? body['input'])
    .flatMap(textsOf)
    .filter((text) => text !== '');
  const last = texts.findLast((text) => text.startsWith('result: ') || text.includes('STUB ')) ?? '';
  if (last.startsWith('result: ')) return { kind: 'text', text: `the tool gave ${last}` };
  if (last.includes('STUB SLOW')) return { kind: 'slow' };
  const [, wanted, input = '{}'] = /STUB TOOL (\S+) (\{.*\})/.exec(last) ?? [];
  const tool = wanted === undefined ? undefined : toolsOf(body).find(({ name }) => name.endsWith(wanted));
  if (tool !== undefined) return { kind: 'tool', ...tool, input };
  if (wanted !== undefined) return { kind: 'text', text: `no tool ${wanted}` };
  return { kind: 'text', text: /STUB TEXT ([^\n<]*)/.exec(last)?.[1] ?? 'ok' };
}

class Events {
  left = false;
  readonly #response: ServerResponse;
  constructor(response: ServerResponse, onLeft: () => void) {
    this.#response = response;
    response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' });
    response.once('close', () => {
      if (response.writableFinished) return;
      this.left = true;
      onLeft();
    });
  }
  send(type: string, data: object): void {
    this.#response.write(`event: ${type}\ndata: ${JSON.stringify({ type, ...data })}\n\n`);
  }
  end(): void {
    this.#response.end();
  }
}

let ids = 0;
/** Never twice: a harness takes two messages, or two calls, of one id for one. */
const nextId = (): number => (ids += 1);

/** What every whole answer is said to have cost. */
export const tokens = { input: 11, output: 7 } as const;

const forEver = 1_000;
const everyMs = 50;

async function speakOn(events: Events, say: (text: string) => void): Promise<void> {
  for (let n = 0; n < forEver && !events.left; n += 1) {
    say(`slow ${n} `);
    await wait(everyMs);
  }
}

async function messages(events: Events, plan: Plan, model: unknown): Promise<void> {
  const usage = { input_tokens: tokens.input, output_tokens: 1 };
  const message = {
    id: `msg_${nextId()}`,
    type: 'message',
    role: 'assistant',
    model,
    content: [],
    stop_reason: null,
    usage,
  };
  events.send('message_start', { message });
  const isTool = plan.kind === 'tool';
  const block = isTool
    ? { type: 'tool_use', id: `toolu_${nextId()}`, name: plan.name, input: {} }
    : { type: 'text', text: '' };
  events.send('content_block_start', { index: 0, content_block: block });
  const say = (text: string): void =>
    events.send('content_block_delta', { index: 0, delta: { type: 'text_delta', text } });
  if (isTool)
    events.send('content_block_delta', { index: 0, delta: { type: 'input_json_delta', partial_json: plan.input } });
  else if (plan.kind === 'text') say(plan.text);
  else await speakOn(events, say);
  events.send('content_block_stop', { index: 0 });
  const delta = { stop_reason: isTool ? 'tool_use' : 'end_turn', stop_sequence: null };
  events.send('message_delta', { delta, usage: { output_tokens: tokens.output } });
  events.send('message_stop', {});
  events.end();
}

async function responses(events: Events, plan: Plan, model: unknown): Promise<void> {
  const response = { id: `resp_${nextId()}`, object: 'response', model, status: 'in_progress', output: [] };
  events.send('response.created', { response });
  const itemId = `item_${nextId()}`;
  const say = (delta: string): void =>
    events.send('response.output_text.delta', { item_id: itemId, output_index: 0, content_index: 0, delta });
  let text = '';
  let item: object;
  if (plan.kind === 'tool') {
    const { name, namespace, input } = plan;
    item = {
      type: 'function_call',
      id: `fc_${nextId()}`,
      call_id: `call_${nextId()}`,
      name,
      ...(namespace && { namespace }),
      arguments: input,
    };
  } else {
    const opening = { type: 'message', id: itemId, role: 'assistant', status: 'in_progress', content: [] };
    events.send('response.output_item.added', { output_index: 0, item: opening });
    if (plan.kind === 'text') say((text = plan.text));
    else await speakOn(events, say);
    item = { ...opening, status: 'completed', content: [{ type: 'output_text', text, annotations: [] }] };
  }
  events.send('response.output_item.done', { output_index: 0, item });
  const usage = {
    input_tokens: tokens.input,
    input_tokens_details: { cached_tokens: 0 },
    output_tokens: tokens.output,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: tokens.input + tokens.output,
  };
  events.send('response.completed', { response: { ...response, status: 'completed', output: [item], usage } });
  events.end();
}

async function bodyOf(request: IncomingMessage): Promise<Fields> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const text = Buffer.concat(chunks).toString('utf8');
  return text === '' ? {} : fields(JSON.parse(text));
}

/** Listens on a free port of the loopback address. */
export async function startStubModel(): Promise<StubModel> {
  const requests: Recorded[] = [];
  let refusal: { readonly status: number; readonly which: 'all' | 'beside' } | undefined;
  const json = (response: ServerResponse, status: number, value: object): void =>
    void response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value));
  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const path = (request.url ?? '/').split('?')[0] ?? '/';
    const body = await bodyOf(request);
    if (path.endsWith('/count_tokens')) return json(response, 200, { input_tokens: 11 });
    const isMessages = path.endsWith('/v1/messages');
    if (request.method !== 'POST' || (!isMessages && !path.endsWith('/v1/responses'))) {
      return json(response, path.endsWith('/models') ? 200 : 404, { data: [], object: 'list' });
    }
    const recorded: Recorded = { path, body, headers: request.headers, leftEarly: false, answered: false };
    requests.push(recorded);
    if (refusal !== undefined && (refusal.which === 'all' || toolCount(body) === 0)) {
      const error = { type: 'api_error', message: `the stub refuses with ${refusal.status}` };
      return json(response, refusal.status, isMessages ? { type: 'error', error } : { error });
    }
    const events = new Events(response, () => (recorded.leftEarly = true));
    await (isMessages ? messages : responses)(events, planOf(body), body['model']);
    recorded.answered = !recorded.leftEarly;
  };
  const server = createServer((request, response) => {
    handle(request, response).catch((error: unknown) => response.destroy(error instanceof Error ? error : undefined));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    refuse: (status, which = 'all') => (refusal = status === undefined ? undefined : { status, which }),
    close: async () => {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeAllConnections();
      await closed;
    },
  };
}
