// Where each wire tells the usage of a call, and in what words. Everything here comes from outside: a number that cannot
// be one is as if it were not there.

import { parseUsd, printUsd, type Usage } from '../../../core/money/money.ts';
import type { Wire } from './wire.ts';

type Told = Omit<Usage, 'estimated'>;
type Data = { readonly [key: string]: unknown };

const tokensMax = 1_000_000_000;

export const isData = (value: unknown): value is Data =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
const part = (value: unknown, key: string): Data => {
  const found = isData(value) ? value[key] : undefined;
  return isData(found) ? found : {};
};
const tokens = (value: unknown): number | undefined =>
  typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 && value <= tokensMax ? value : undefined;

/** The whole usage that an object of this wire tells; undefined where input or output is missing or no number. */
export function reportedUsage(wire: Wire, usage: unknown): Told | undefined {
  if (!isData(usage)) return undefined;
  return wire === 'messages' ? ofMessages(usage) : ofOthers(usage, wire);
}

/** What `ofMessages` reads. */
export const messagesUsage = [
  'input_tokens',
  'output_tokens',
  'cache_creation',
  'cache_read_input_tokens',
  'cache_creation_input_tokens',
  'server_tool_use',
] as const;

function ofMessages(usage: Data): Told | undefined {
  const inputTokens = tokens(usage['input_tokens']);
  const outputTokens = tokens(usage['output_tokens']);
  if (inputTokens === undefined || outputTokens === undefined) return undefined;
  const cacheWriteLongTokens = tokens(part(usage, 'cache_creation')['ephemeral_1h_input_tokens']) ?? 0;
  const webSearches = tokens(part(usage, 'server_tool_use')['web_search_requests']) ?? 0;
  return {
    inputTokens,
    outputTokens,
    cacheReadTokens: tokens(usage['cache_read_input_tokens']) ?? 0,
    cacheWriteTokens: tokens(usage['cache_creation_input_tokens']) ?? 0,
    ...(cacheWriteLongTokens > 0 && { cacheWriteLongTokens }),
    ...(webSearches > 0 && { webSearches }),
  };
}

/** Their input counts what came from the cache; ours does not. */
function ofOthers(usage: Data, wire: Wire): Told | undefined {
  const [input, output] = wire === 'chat' ? ['prompt', 'completion'] : ['input', 'output'];
  const all = tokens(usage[`${input}_tokens`]);
  const outputTokens = tokens(usage[`${output}_tokens`]);
  if (all === undefined || outputTokens === undefined) return undefined;
  const details = part(usage, `${input}_tokens_details`);
  const cacheReadTokens = Math.min(tokens(details['cached_tokens']) ?? 0, all);
  const cacheWriteTokens = Math.min(tokens(details['cache_write_tokens']) ?? 0, all - cacheReadTokens);
  const reportedUsd = reported(usage);
  return {
    inputTokens: all - cacheReadTokens - cacheWriteTokens,
    outputTokens,
    cacheReadTokens,
    cacheWriteTokens,
    ...(reportedUsd !== undefined && { reportedUsd }),
  };
}

/** What the provider charged, and what the owner of a key of their own pays behind it. */
function reported(usage: Data): string | undefined {
  const cost = amount(usage['cost']);
  if (cost === undefined) return undefined;
  const behind = usage['is_byok'] === true ? amount(part(usage, 'cost_details')['upstream_inference_cost']) : 0n;
  return printUsd(cost + (behind ?? 0n));
}

/** A double prints as the shortest decimal that means it: that is the amount that was written. */
function amount(value: unknown): bigint | undefined {
  if (typeof value !== 'number' || !Number.isFinite(value) || value < 0 || value > 1_000_000) return undefined;
  return parseUsd(String(value));
}

/** The last `"usage":{…}` of a text that is only the end of a document: an unescaped quote is never inside a string. */
export function usageInTail(text: string): unknown {
  const at = text.lastIndexOf('"usage":');
  const from = at < 0 ? -1 : text.indexOf('{', at);
  if (from < 0 || from - at > 16) return undefined;
  let depth = 0;
  for (let index = from; index < text.length && index - from < 8_192; index += 1) {
    if (text[index] === '{') depth += 1;
    if (text[index] === '}' && (depth -= 1) === 0) return parsed(text.slice(from, index + 1));
  }
  return undefined;
}

/** A JSON object, or undefined. What cannot be one is told by its ends: an exception costs as much as many short objects. */
export function parsed(text: string): unknown {
  const trimmed = text.trim();
  if (!trimmed.startsWith('{') || !trimmed.endsWith('}')) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
