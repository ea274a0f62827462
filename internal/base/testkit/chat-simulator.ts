// A stand-in of the chat provider over real HTTP: channels, threads, metadata, reactions and search. What the provider's
// reference does not list among the arguments of a method is refused with 400, an unknown method too; refusals of the
// provider itself are 200 with `ok: false`, as there. `faults` makes the next call of a method fail, once each.

import { readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface SimMessage {
  readonly ts: string;
  readonly thread_ts?: string;
  readonly user: string;
  readonly bot_id?: string;
  readonly text: string;
  readonly metadata?: unknown;
  readonly files?: readonly object[];
  readonly reactions: { name: string; users: string[] }[];
}
/** `lost`: the work is done and the connection broken; `500`: the work is done and 500 answered; `held`: as lost, later. */
export type ChatFault = 'lost' | '500' | 'limited' | 'lost-before' | 'fatal';
interface Heard {
  readonly method: string;
  readonly args: { readonly [name: string]: string };
}
type Args = { readonly [name: string]: string | undefined };

/** Arguments by method, of the provider's published reference (scripts/extract-chat.ts). */
const methods = (
  JSON.parse(readFileSync(new URL('../../../testdata/providers/chat-methods.json', import.meta.url), 'utf8')) as {
    readonly methods: {
      readonly [method: string]: { readonly [name: string]: { readonly required: boolean; readonly type: unknown } };
    };
  }
).methods;
const shapes: { readonly [type: string]: RegExp } = {
  number: /^\d+$/,
  integer: /^\d+$/,
  boolean: /^(?:true|false)$/,
  timestamp: /^\d+(?:\.\d+)?$/,
};

/** What the reference says against a call; undefined where it says nothing. */
function refusalOf(method: string, args: Args): string | undefined {
  const known = Object.hasOwn(methods, method) ? methods[method] : undefined;
  if (known === undefined) return `unknown method: ${method}`;
  for (const [name, value] of Object.entries(args)) {
    const type = Object.hasOwn(known, name) ? known[name]?.type : undefined;
    if (type === undefined) return `unknown argument: ${name}`;
    if (typeof type === 'string' && shapes[type]?.test(value ?? '') === false) return `no ${type}: ${name}`;
  }
  const absent = Object.keys(known).find((name) => known[name]?.required === true && args[name] === undefined);
  return absent === undefined ? undefined : `required: ${absent}`;
}

export const chatToken = 'xoxb-1111-the-token-of-the-bot';

export class ChatSimulator {
  readonly channels = new Map<string, SimMessage[]>();
  readonly faults = new Map<string, ChatFault[]>();
  readonly heard: Heard[] = [];
  /** Calls that the reference refuses. */
  readonly refusals: string[] = [];
  /** By path: whoever has no token, or not the right, gets the page where people sign in. */
  readonly files = new Map<string, { readonly bytes: Buffer; readonly type: string }>();
  /** Valid for one search of the provider's own. */
  actionToken: string | undefined;
  retryAfter: number | string = 1;
  #server: Server;
  #clock = 1_700_000_000;

  constructor() {
    this.#server = createServer((request, response) => {
      this.#answer(request, response).catch(() => response.destroy());
    });
  }

  async start(): Promise<this> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
    return this;
  }
  get host(): string {
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }
  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/api`;
  }
  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  /** Makes the next call of a method fail. */
  fail(method: string, fault: ChatFault): void {
    this.faults.set(method, [...(this.faults.get(method) ?? []), fault]);
  }
  /** Something that a person says. */
  say(
    channel: string,
    text: string,
    more: { readonly thread?: string; readonly files?: readonly object[] } = {},
  ): string {
    return this.#post(channel, { user: 'U-PERSON', text, ...more }).ts;
  }

  #post(
    channel: string,
    of: {
      readonly user: string;
      readonly text: string;
      readonly thread?: string | undefined;
      readonly files?: readonly object[];
      readonly metadata?: unknown;
      readonly bot_id?: string;
    },
  ): SimMessage {
    const ts = `${Math.max((this.#clock += 1), Math.floor(Date.now() / 1_000))}.${String(this.#clock).slice(-6)}`;
    const { thread, ...rest } = of;
    const message: SimMessage = { ...rest, ts, ...(thread !== undefined && { thread_ts: thread }), reactions: [] };
    this.channels.get(channel)?.push(message);
    return message;
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (request.url?.startsWith('/files/') === true) return this.#answerFile(request, response);
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const form = new URLSearchParams(Buffer.concat(chunks).toString('utf8'));
    const args: { [name: string]: string } = Object.fromEntries(form);
    const method = (request.url ?? '').replace(/^\/api\//, '');
    const tell = (status: number, body: unknown, headers = {}): void => {
      response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body));
    };
    const strange = refusalOf(method, args);
    if (strange !== undefined) {
      this.refusals.push(`${method}: ${strange}`);
      return tell(400, { ok: false, error: strange });
    }
    this.heard.push({ method, args });
    if (request.headers.authorization !== `Bearer ${chatToken}`) return tell(200, { ok: false, error: 'invalid_auth' });
    const fault = this.faults.get(method)?.shift();
    if (fault === 'limited') return tell(429, { ok: false, error: 'ratelimited' }, { 'retry-after': this.retryAfter });
    if (fault === 'lost-before') return void response.destroy();
    const result = this.#run(method, args);
    if (fault === 'lost') return void response.destroy();
    if (fault === '500') return tell(500, 'an error');
    if (fault === 'fatal') return tell(200, { ok: false, error: 'fatal_error' });
    tell(200, typeof result === 'string' ? { ok: false, error: result } : { ok: true, ...result });
  }

  #answerFile({ url = '', headers }: IncomingMessage, response: ServerResponse): void {
    const file = headers.authorization === `Bearer ${chatToken}` ? this.files.get(url) : undefined;
    this.heard.push({ method: `GET ${url}`, args: {} });
    response.writeHead(200, { 'content-type': file?.type ?? 'text/html; charset=utf-8' });
    response.end(file?.bytes ?? '<html>Sign in</html>');
  }

  /** The result, or the provider's error code. */
  #run(method: string, args: Args): object | string {
    if (method === 'auth.test') return { team_id: 'T1', user_id: 'U-BOT', bot_id: 'B1', url: 'https://example.com/' };
    if (method === 'users.conversations') {
      return {
        channels: [...this.channels.keys()].map((id) => ({ id, name: id.toLowerCase() })),
        response_metadata: { next_cursor: '' },
      };
    }
    if (method === 'assistant.search.context') return this.#search(args);
    const { channel = '' } = args;
    const messages = this.channels.get(channel);
    if (messages === undefined) return 'channel_not_found';
    if (method === 'chat.postMessage') return this.#send(channel, messages, args);
    if (method === 'conversations.history') {
      const rows = messages.filter((one) => one.thread_ts === undefined || one.thread_ts === one.ts).reverse();
      return page(rows, args);
    }
    if (method === 'conversations.replies') {
      const rows = messages.filter((one) => one.ts === args['ts'] || one.thread_ts === args['ts']);
      return rows.length === 0 ? 'thread_not_found' : page(rows, args);
    }
    const message = messages.find((one) => one.ts === (args['timestamp'] ?? args['message_ts']));
    if (message === undefined) return 'message_not_found';
    if (method === 'chat.getPermalink') return { permalink: `https://example.com/archives/${channel}/p${message.ts}` };
    if (method === 'reactions.get') return { type: 'message', channel, message };
    const { name = '' } = args;
    if (!/^[a-z0-9_+-]+(::skin-tone-[2-6])?$/.test(name)) return 'invalid_name';
    const there = message.reactions.find((one) => one.name === name);
    if (there?.users.includes('U-BOT') === true) return 'already_reacted';
    if (there === undefined) message.reactions.push({ name, users: ['U-BOT'] });
    else there.users.push('U-BOT');
    return {};
  }

  #send(channel: string, messages: readonly SimMessage[], args: Args): object | string {
    const { text, markdown_text: markdown, thread_ts: thread, metadata } = args;
    if (markdown !== undefined && (text !== undefined || args['blocks'] !== undefined)) return 'markdown_text_conflict';
    const said = markdown ?? text ?? '';
    if (said === '') return 'no_text';
    if (markdown !== undefined && [...markdown].length > 12_000) return 'msg_too_long';
    if (thread !== undefined && !messages.some((one) => one.ts === thread)) return 'thread_not_found';
    const kept = metadata === undefined ? {} : { metadata: JSON.parse(metadata) as unknown };
    const message = this.#post(channel, { user: 'U-BOT', bot_id: 'B1', text: said, thread, ...kept });
    return { channel, ts: message.ts, message };
  }

  #search({ query = '', action_token: token }: Args): object | string {
    if (token === undefined || token !== this.actionToken) return 'invalid_action_token';
    const messages = [...this.channels].flatMap(([channel, rows]) =>
      rows
        .filter((one) => one.text.includes(query))
        .map((one) => ({
          channel_id: channel,
          message_ts: one.ts,
          content: one.text,
          author_user_id: one.user,
          permalink: `https://example.com/${one.ts}`,
        })),
    );
    return { results: { messages }, response_metadata: { next_cursor: '' } };
  }
}

function page(rows: readonly SimMessage[], args: Args): object | string {
  const { limit = '100', cursor, latest, oldest, include_all_metadata: metadata } = args;
  const most = Number(limit);
  if (!Number.isInteger(most) || most < 1 || most > 999) return 'invalid_limit';
  const start = cursor === undefined ? 0 : Number(/^cursor:(\d+)$/.exec(cursor)?.[1] ?? -1);
  if (start < 0) return 'invalid_cursor';
  const some = rows.filter(
    (one) =>
      (latest === undefined || Number(one.ts) < Number(latest)) &&
      (oldest === undefined || Number(one.ts) > Number(oldest)),
  );
  const isMore = some.length > start + most;
  const messages = some
    .slice(start, start + most)
    .map(({ metadata: kept, ...one }) => ({ type: 'message', ...one, ...(metadata === 'true' && { metadata: kept }) }));
  return { messages, has_more: isMore, response_metadata: { next_cursor: isMore ? `cursor:${start + most}` : '' } };
}
