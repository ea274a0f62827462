// Reads the usage of an answer while it passes by: chunks go in, nothing is held back, at most one line is kept.

import type { Usage } from '../../../core/money/money.ts';
import { exceedsValues } from '../../../domain/depth.ts';
import { keepText, readLines } from './lines.ts';
import { charactersPerToken } from './request.ts';
import { isData, messagesUsage, parsed, reportedUsage, usageInTail } from './usage.ts';
import type { Wire } from './wire.ts';

const limits = { bytesMax: 1_048_576, valuesMax: 50_000, tailBytes: 65_536 } as const;

export interface Metered {
  /** Null where the answer is a failure that nothing was made for. */
  readonly usage: Usage | null;
  /** The model that answered, where it says so. */
  readonly model?: string;
  /** The answer ended with an error of the provider's: its type. */
  readonly failure?: string;
}

export interface Meter {
  push(chunk: Buffer): void;
  /** What is known by now; after the last chunk, or when the answer was cut. */
  end(): Metered;
}

/** Space, tab and the line breaks. */
const blank = new Set([0x20, 0x09, 0x0a, 0x0d]);

type Data = { readonly [key: string]: unknown };
interface Seen {
  /** Told usage, by the latest word. */
  usage: Data;
  isFinal: boolean;
  characters: number;
  /** Searches that the provider made, as they passed by. */
  searches: number;
  model?: string;
  failure?: string;
}

const unseen = (): Seen => ({ usage: {}, isFinal: false, characters: 0, searches: 0 });

/**
 * A meter for an answer with status 200. `inputTokens` is the request's estimate, for wires that tell their input only at
 * the end. What was not told is counted from the text that was seen, and the usage is marked `estimated`.
 */
export function createMeter(wire: Wire, options: { readonly sse: boolean; readonly inputTokens: number }): Meter {
  const seen = unseen();
  if (!options.sse) return plainMeter(wire, seen, options.inputTokens);
  const events = readEvents(wire, seen);
  const reader = readLines(limits, (text, isCut) => {
    if (isCut) events.cut(text);
    // A line may end in a carriage return alone, which JSON never holds.
    else for (const line of text.includes('\r') ? text.split('\r') : [text]) events.line(line);
  });
  return {
    push: (chunk) => reader.push(chunk),
    end() {
      reader.end();
      events.line('');
      return result(wire, seen, options.inputTokens);
    },
  };
}

/** The data of events, whose senders may write it in several lines each. */
function readEvents(wire: Wire, seen: Seen): { line(text: string): void; cut(text: string): void } {
  /** What began as an object, and is none yet. */
  let begun: string | undefined;
  const end = (): void => {
    // A single line was looked at already.
    const isMore = begun?.includes('\n') === true && !exceedsValues(Buffer.from(begun), limits.valuesMax);
    if (isMore) event(wire, seen, parsed(begun ?? ''));
    begun = undefined;
  };
  return {
    line(text) {
      if (text === '') return end();
      const named = text.startsWith('\uFEFF') ? text.slice(1) : text;
      if (!named.startsWith('data:')) return;
      const data = named.slice(5);
      const whole = parsed(data);
      if (whole !== undefined) {
        begun = undefined;
        return event(wire, seen, whole);
      }
      if (begun !== undefined) begun = begun.length + data.length > limits.bytesMax ? undefined : `${begun}\n${data}`;
      else if (data.trimStart().startsWith('{')) begun = data;
    },
    cut(text) {
      begun = undefined;
      tail(wire, seen, text);
    },
  };
}

/** A plain answer is one document. A large one is read by its end. */
function plainMeter(wire: Wire, seen: Seen, inputTokens: number): Meter {
  const kept = keepText(limits);
  return {
    push(chunk) {
      // What a provider sends so that nobody hangs up is no part of it, however much it is.
      const from = kept.length === 0 ? chunk.findIndex((byte) => !blank.has(byte)) : 0;
      if (from >= 0) kept.add(chunk.subarray(from));
    },
    end() {
      const { text, isCut } = kept.take();
      const document = isCut ? undefined : parsed(text);
      if (isCut) tail(wire, seen, text);
      else if (isData(document)) whole(wire, seen, document);
      return result(wire, seen, inputTokens);
    },
  };
}

/** True where a stream's first event already is the provider's failure, so that another model may be tried. */
export function opensWithFailure(wire: Wire, start: string): boolean {
  const line = start.split(/[\r\n]/).find((text) => text.startsWith('data:'));
  if (line === undefined) return false;
  const seen = unseen();
  event(wire, seen, parsed(line.slice(5)));
  return seen.failure !== undefined && mayPass(seen.failure);
}

/** Whether what is asked again may succeed after a failure that an answer told. */
export const mayPass = (failure: string): boolean =>
  !/invalid|billing|authentication|permission|content|context/.test(failure);

function result(wire: Wire, seen: Seen, estimate: number): Metered {
  const { usage, ...about } = summed(wire, seen, estimate);
  if (usage === null || seen.searches <= (usage.webSearches ?? 0)) return { usage, ...about };
  return { usage: { ...usage, webSearches: seen.searches }, ...about };
}

function summed(wire: Wire, seen: Seen, estimate: number): Metered {
  const about = {
    ...(seen.model !== undefined && { model: seen.model }),
    ...(seen.failure !== undefined && { failure: seen.failure }),
  };
  const told = seen.isFinal ? reportedUsage(wire, seen.usage) : undefined;
  if (told !== undefined) return { usage: { ...told, estimated: false }, ...about };
  const outputTokens = Math.ceil(seen.characters / charactersPerToken);
  const started = wire === 'messages' ? reportedUsage(wire, { output_tokens: 0, ...seen.usage }) : undefined;
  if (seen.failure !== undefined && started === undefined && outputTokens === 0) return { usage: null, ...about };
  const guess = { inputTokens: estimate, outputTokens, cacheReadTokens: 0, cacheWriteTokens: 0, estimated: true };
  if (started === undefined) return { usage: guess, ...about };
  return {
    usage: { ...started, outputTokens: Math.max(started.outputTokens, outputTokens), estimated: true },
    ...about,
  };
}

/** The end of what was too much to keep. */
function tail(wire: Wire, seen: Seen, text: string): void {
  const usage = usageInTail(text);
  if (!isData(usage)) return;
  seen.usage = wire === 'messages' ? { ...seen.usage, ...toldIn(usage) } : usage;
  seen.isFinal = true;
}

/** A plain answer: the object that a stream would have ended with. */
function whole(wire: Wire, seen: Seen, document: Data): void {
  note(seen, document);
  if (isData(document['usage'])) [seen.usage, seen.isFinal] = [document['usage'], true];
  if (isData(document['error'])) fail(seen, document['error']);
  else if (wire === 'responses' && document['status'] === 'failed') fail(seen, {});
  if (Array.isArray(document['output'])) for (const item of document['output']) search(seen, item);
}

function event(wire: Wire, seen: Seen, data: unknown): void {
  if (!isData(data)) return;
  if (isData(data['error'])) fail(seen, data['error']);
  if (wire === 'messages') messagesEvent(seen, data);
  else if (wire === 'responses') responsesEvent(seen, data);
  else chatEvent(seen, data);
}

function messagesEvent(seen: Seen, data: Data): void {
  const { type, message, delta } = data;
  if (type === 'message_start' && isData(message)) {
    note(seen, message);
    if (isData(message['usage'])) seen.usage = toldIn(message['usage']);
  }
  if (type === 'content_block_start') search(seen, data['content_block']);
  if (type === 'content_block_delta') count(seen, delta, ['text', 'thinking', 'partial_json']);
  if (type !== 'message_delta' || !isData(data['usage'])) return;
  // Cumulative: a later word replaces an earlier one, and what it leaves out or empties stands.
  seen.usage = { ...seen.usage, ...toldIn(data['usage']) };
  seen.isFinal = true;
}

/** What nobody reads is not kept: a stream may tell other words in each event. */
const toldIn = (usage: Data): Data =>
  Object.fromEntries(messagesUsage.flatMap((key) => ((usage[key] ?? null) === null ? [] : [[key, usage[key]]])));

const responsesEnd = new Set(['response.completed', 'response.incomplete', 'response.failed']);

function responsesEvent(seen: Seen, data: Data): void {
  const { type, response } = data;
  if (typeof type !== 'string') return;
  if (type.endsWith('.delta')) count(seen, data, ['delta']);
  if (type === 'response.output_item.done') search(seen, data['item']);
  if (type === 'error') fail(seen, data);
  if (!isData(response)) return;
  note(seen, response);
  if (type === 'response.failed') fail(seen, isData(response['error']) ? response['error'] : {});
  if (responsesEnd.has(type) && isData(response['usage'])) [seen.usage, seen.isFinal] = [response['usage'], true];
}

function chatEvent(seen: Seen, data: Data): void {
  note(seen, data);
  const choices = Array.isArray(data['choices']) ? data['choices'] : [];
  for (const choice of choices) {
    const delta: unknown = isData(choice) ? choice['delta'] : undefined;
    if (!isData(delta)) continue;
    count(seen, delta, ['content', 'reasoning', 'reasoning_content']);
    const calls = Array.isArray(delta['tool_calls']) ? delta['tool_calls'] : [];
    for (const call of calls) count(seen, isData(call) ? call['function'] : undefined, ['name', 'arguments']);
  }
  if (isData(data['usage'])) [seen.usage, seen.isFinal] = [data['usage'], true];
}

function note(seen: Seen, { model }: Data): void {
  if (typeof model === 'string' && model !== '' && model.length <= 256) seen.model = model;
}

/** A part of an answer that is a search of the provider's own. */
function search(seen: Seen, item: unknown): void {
  if (!isData(item)) return;
  if (item['type'] === 'web_search_call') seen.searches += 1;
  if (item['type'] === 'server_tool_use' && item['name'] === 'web_search') seen.searches += 1;
}

function fail(seen: Seen, error: Data): void {
  const words = [error['type'], error['code']].filter((each) => typeof each === 'string' || typeof each === 'number');
  const word = words.find((each) => each !== 'error');
  seen.failure = String(word ?? 'error').slice(0, 64);
}

function count(seen: Seen, value: unknown, keys: readonly string[]): void {
  if (!isData(value)) return;
  for (const key of keys) {
    const text = value[key];
    if (typeof text === 'string') seen.characters += text.length;
  }
}
