// From the wire's session updates to our own closed list, and the marks of failure and activity that a turn's
// classification needs. Pure. Unknown kinds of update are nothing to us; a malformed one of a known kind is nothing too.

import { type HarnessUpdate, nameBytesMax, planPart } from './types.ts';

type Fields = { readonly [key: string]: unknown };

/** An object's own fields, or none: whatever is not an object has none. */
export const fieldsOf = (value: unknown): Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : {};
export const textOf = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined);
/** A number that counts something, or undefined. */
export const numberOf = (value: unknown): number | undefined =>
  typeof value === 'number' && Number.isFinite(value) && value >= 0 ? value : undefined;

interface Cut {
  readonly text: string;
  readonly truncated: boolean;
}

/** At most `maxBytes` of UTF-8, cut at a character. */
export function cut(text: string, maxBytes: number): Cut {
  const isShort = text.length * 3 <= maxBytes || (text.length <= maxBytes && Buffer.byteLength(text) <= maxBytes);
  if (isShort) return { text, truncated: false };
  // Every unit takes a byte at least: a text of many megabytes is not made bytes of for its beginning.
  const bytes = Buffer.from(text.slice(0, maxBytes + 1));
  let end = maxBytes;
  while (end > 0 && ((bytes[end] ?? 0) & 0xc0) === 0x80) end -= 1;
  return { text: bytes.subarray(0, end).toString('utf8'), truncated: true };
}

/** A name, where it is one. */
export const nameOf = (value: unknown): string | undefined =>
  typeof value === 'string' ? cut(value, nameBytesMax).text : undefined;

/** The typed failure that the two adapters put beside a response or an update when the client declares the extension. */
export interface SessionFailure {
  readonly category: string;
  readonly severity: string;
  readonly title: string;
  readonly actions: readonly string[];
}

/** `_meta.jetbrains.air.sessionFailure` of a response or an update. */
export function sessionFailureOf(meta: unknown): SessionFailure | undefined {
  const air = fieldsOf(fieldsOf(fieldsOf(meta)['jetbrains'])['air']);
  if (air['sessionFailure'] === undefined || air['sessionFailure'] === null) return undefined;
  const failure = fieldsOf(air['sessionFailure']);
  const actions = Array.isArray(failure['actions']) ? failure['actions'].filter((one) => typeof one === 'string') : [];
  return {
    category: textOf(failure['category']) ?? 'unknown',
    severity: textOf(failure['severity']) ?? 'error',
    title: textOf(failure['title']) ?? 'the harness reported a failure',
    actions,
  };
}

const truncatedIf = (...cuts: readonly (Cut | undefined)[]): { truncated?: true } =>
  cuts.some((one) => one?.truncated) ? { truncated: true } : {};

/** The text of a content block; what is not text is named. */
function blockText(content: unknown): string | undefined {
  const block = fieldsOf(content);
  switch (block['type']) {
    case 'text':
      return textOf(block['text']);
    case 'resource_link':
      return `[${textOf(block['uri']) ?? 'resource'}]`;
    case 'resource':
      return textOf(fieldsOf(block['resource'])['text']) ?? '[resource]';
    case 'image':
    case 'audio':
      return `[${block['type']}]`;
    default:
      return undefined;
  }
}

/** What a tool call shows, as text: contents, paths of diffs, else its raw output. */
function toolText(fields: Fields, maxBytes: number): Cut | undefined {
  const parts: string[] = [];
  for (const entry of Array.isArray(fields['content']) ? fields['content'] : []) {
    const item = fieldsOf(entry);
    if (item['type'] === 'content') parts.push(blockText(item['content']) ?? '');
    else if (item['type'] === 'diff') parts.push(`[diff ${textOf(item['path']) ?? ''}]`);
  }
  const text = parts.filter((part) => part !== '').join('\n');
  if (text !== '') return cut(text, maxBytes);
  return jsonText(fields['rawOutput'], maxBytes);
}

/** A value as text: strings as they are, the rest as JSON. */
export function jsonText(value: unknown, maxBytes: number): Cut | undefined {
  if (value === undefined || value === null) return undefined;
  return cut(typeof value === 'string' ? value : jsonWithin(value, maxBytes), maxBytes);
}

/** A list or an object of which some is written: `keys` of an object, and how many of its values. */
interface Opened {
  readonly value: object;
  readonly keys: readonly string[] | undefined;
  readonly size: number;
  at: number;
}

function opened(value: object): Opened {
  if (Array.isArray(value)) return { value, keys: undefined, size: value.length, at: 0 };
  const keys = Object.keys(value);
  return { value, keys, size: keys.length, at: 0 };
}

/**
 * The JSON of a value that JSON was parsed to, or more than `most` characters of its beginning: what a program writes may be many
 * megabytes, and nest as deeply as it has characters.
 */
function jsonWithin(value: unknown, most: number): string {
  const short = (text: string): string => JSON.stringify(text.length > most ? text.slice(0, most + 1) : text);
  const open: Opened[] = [];
  let text = '';
  const put = (one: unknown): void => {
    if (typeof one === 'object' && one !== null) {
      text += Array.isArray(one) ? '[' : '{';
      open.push(opened(one));
    } else text += typeof one === 'string' ? short(one) : JSON.stringify(one);
  };
  put(value);
  for (let inner = open.at(-1); inner !== undefined && text.length <= most; inner = open.at(-1)) {
    if (inner.at === inner.size) {
      text += inner.keys === undefined ? ']' : '}';
      open.pop();
      continue;
    }
    if (inner.at > 0) text += ',';
    const key = inner.keys?.[inner.at];
    if (key !== undefined) text += `${short(key)}:`;
    const one: unknown = (inner.value as { readonly [key: string | number]: unknown })[key ?? inner.at];
    inner.at += 1;
    put(one);
  }
  return text;
}

/** A piece of what a command writes, as the client of `harness-b` asks for it. */
const pieceOf = (meta: unknown): string | undefined =>
  textOf(fieldsOf(fieldsOf(meta)['terminal_output_delta'])['data']);

function toolUpdate(fields: Fields, isNew: boolean, maxBytes: number): HarnessUpdate | undefined {
  const callId = nameOf(fields['toolCallId']);
  if (callId === undefined) return undefined;
  const title = nameOf(fields['title']);
  const status = fields['status'];
  const input = jsonText(fields['rawInput'], maxBytes);
  const said = pieceOf(fields['_meta']);
  const piece = said === undefined ? undefined : cut(said, maxBytes);
  const [text, more] = [toolText(fields, maxBytes) ?? (isNew ? piece : undefined), isNew ? undefined : piece];
  const shown = {
    ...(title !== undefined && { title }),
    ...(input !== undefined && { input: input.text }),
    ...(text !== undefined && { text: text.text }),
    ...(more !== undefined && { more: more.text }),
    ...truncatedIf(input, text, more),
  };
  const category = nameOf(fields['kind']) ?? 'other';
  if (status === 'completed' || status === 'failed')
    return { kind: 'tool_finished', callId, status, ...(isNew && { category }), ...shown };
  const live = status === 'pending' || status === 'in_progress' ? status : undefined;
  if (!isNew) return { kind: 'tool_updated', callId, ...(live !== undefined && { status: live }), ...shown };
  return { kind: 'tool_started', callId, category, status: live ?? 'pending', ...shown, title: title ?? callId };
}

function planOf(fields: Fields, maxBytes: number): HarnessUpdate {
  const entries = (Array.isArray(fields['entries']) ? fields['entries'] : []).slice(0, 200).map((entry) => {
    const { content, status } = fieldsOf(entry);
    return { text: cut(textOf(content) ?? '', maxBytes / planPart).text, status: nameOf(status) ?? 'pending' };
  });
  return { kind: 'plan', entries };
}

function usageOf(fields: Fields): HarnessUpdate | undefined {
  const usedTokens = numberOf(fields['used']);
  const windowTokens = numberOf(fields['size']);
  if (usedTokens === undefined || windowTokens === undefined) return undefined;
  const { amount, currency } = fieldsOf(fields['cost']);
  const money = numberOf(amount);
  return {
    kind: 'usage',
    usedTokens,
    windowTokens,
    ...(money !== undefined && { cost: { amount: decimal(money), currency: nameOf(currency) ?? 'USD' } }),
  };
}

/** Never in exponent form. */
const decimal = (value: number): string => value.toFixed(12).replace(/\.?0+$/, '');

function noticeOf(fields: Fields, maxBytes: number): HarnessUpdate | undefined {
  const failure = sessionFailureOf(fields['_meta']);
  if (failure === undefined) return undefined;
  const severity = failure.severity === 'warning' ? 'warning' : failure.severity === 'info' ? 'info' : 'error';
  return { kind: 'notice', severity, text: cut(failure.title, maxBytes).text };
}

/** One `session/update`'s `update` as one of ours; undefined where it says nothing that we keep. */
export function mapUpdate(update: unknown, maxTextBytes: number): HarnessUpdate | undefined {
  const fields = fieldsOf(update);
  switch (fields['sessionUpdate']) {
    case 'agent_message_chunk':
    case 'agent_thought_chunk': {
      const text = blockText(fields['content']);
      if (text === undefined || text === '') return undefined;
      const bounded = cut(text, maxTextBytes);
      const kind = fields['sessionUpdate'] === 'agent_message_chunk' ? 'text' : 'thought';
      return { kind, text: bounded.text, ...truncatedIf(bounded) };
    }
    case 'tool_call':
      return toolUpdate(fields, true, maxTextBytes);
    case 'tool_call_update':
      return toolUpdate(fields, false, maxTextBytes);
    case 'plan':
      return planOf(fields, maxTextBytes);
    case 'usage_update':
      return usageOf(fields);
    case 'session_info_update':
      return noticeOf(fields, maxTextBytes);
    default:
      return undefined;
  }
}
