// A request body, bound to what the agent declares: its model, its routing, and nothing that changes the price.

import { modelIds } from '../../../core/money/money.ts';
import type { ModelSpec } from '../../../domain/spec.ts';
import { parseJson } from '../../../domain/json-text.ts';
import { messagesTable } from '../../../domain/messages.ts';
import { lengthened, longTextOf, type Shortened } from './long.ts';
import { BodyProblem } from './problem.ts';
import type { Endpoint, Wire } from './wire.ts';

export interface PreparedCall {
  /** The ids to try, in order. */
  readonly models: readonly string[];
  readonly stream: boolean;
  /** Counted from the text of the request: rather too many than too few. */
  readonly inputTokens: number;
  /** What the answer may have at most. */
  readonly maxOutputTokens: number;
  /** Of the conversation itself: what a harness asks beside it, such as for a title, offers none. */
  readonly offersTools: boolean;
  /** The body as it is sent for one of `models`, until it is forgotten. */
  bodyFor(model: string): Buffer;
  /** Lets go of the body. */
  forget(): void;
}

type Body = { [key: string]: unknown };

/** Characters of text to a token: fewer than there are, so that what is counted is not too little. */
export const charactersPerToken = 3;
/** What a picture or another sealed part counts, whatever its size. */
const sealedTokens = 1_600;
const sealedFrom = 2_048;
const sealedKeys = new Set(['data', 'image_url', 'url', 'file_data', 'encrypted_content', 'signature']);
const outputTokens = 32_000;
const outputTokensMax = 128_000;

/**
 * What a harness may say in each shape of call. Whatever else there is or will be, such as connectors that the provider
 * itself would reach (`mcp_servers`, `plugins`), would be a way around the session's tools and its fence.
 */
const fieldsByWire: { readonly [wire in Wire]: ReadonlySet<string> } = {
  messages: new Set(
    `model messages system max_tokens metadata stop_sequences stream temperature top_k top_p tools tool_choice thinking
     output_config output_format context_management cache_control`.split(/\s+/),
  ),
  responses: new Set(
    `model input instructions include max_output_tokens max_tool_calls metadata client_metadata parallel_tool_calls
     previous_response_id prompt_cache_key prompt_cache_retention reasoning safety_identifier store stream stream_options
     temperature text tools tool_choice top_logprobs top_p truncation context_management user`.split(/\s+/),
  ),
  chat: new Set(
    `model messages frequency_penalty presence_penalty repetition_penalty logit_bias logprobs top_logprobs max_tokens
     max_completion_tokens metadata modalities parallel_tool_calls prediction prompt_cache_key prompt_cache_retention
     reasoning reasoning_effort include_reasoning response_format safety_identifier seed stop store stream stream_options
     temperature top_p top_k min_p tools tool_choice functions function_call transforms user verbosity`.split(/\s+/),
  ),
};
/** Tools that the provider would fetch from elsewhere by itself. */
const isConnector = (tool: unknown): boolean => {
  const type: unknown = typeof tool === 'object' && tool !== null ? (tool as { type?: unknown }).type : undefined;
  return typeof type === 'string' && /^mcp/i.test(type);
};
/** How deep tools stand in one another: a group of them among the tools of an item of the conversation. */
const toolLevels = 3;

/** Takes connectors out of what holds tools: the body, an item that brings more of them along, a group. */
function dropConnectors(holder: unknown, levels = toolLevels): void {
  if (typeof holder !== 'object' || holder === null) return;
  const held = holder as { tools?: unknown };
  if (!Array.isArray(held.tools)) return;
  if (levels === 0) held.tools = [];
  else held.tools = held.tools.filter((tool) => !isConnector(tool));
  for (const tool of held.tools as unknown[]) dropConnectors(tool, levels - 1);
}

/** They would ask for a dearer or cheaper class of service than the price table speaks of, or hide the usage. */
const priceKeys = ['service_tier', 'speed', 'inference_geo', 'background'];
/** Routing is the agent's declaration alone. */
const routingKeys = ['models', 'provider', 'route', 'preset', 'fallbacks'];

/**
 * Parses a body and binds it. A model that the agent does not declare becomes the declared one: harnesses make calls of
 * their own (titles, summaries) to models of their own choice. What was parsed is what is sent, so that a key written
 * twice cannot mean one thing here and another there. Throws BodyProblem.
 */
export function prepareBody(endpoint: Endpoint, model: ModelSpec, sent: Shortened): PreparedCall {
  const body = parse(sent.body);
  const asked = body['model'];
  const fallbacks = (model.fallbacks ?? []).map(({ id }) => id);
  const allowed = modelIds(model);
  const first = typeof asked === 'string' && allowed.includes(asked) ? asked : model.id;
  const models = [first, ...fallbacks.filter((id) => id !== first)];
  for (const key of priceKeys) delete body[key];
  const fields = fieldsByWire[endpoint.wire];
  for (const key of Object.keys(body)) if (!fields.has(key)) delete body[key];
  dropConnectors(body);
  for (const item of [body['input'], body['messages']].flat()) dropConnectors(item);
  const stream = body['stream'] === true;
  if (endpoint.kind === 'metered') {
    for (const key of routingKeys) delete body[key];
    if (model.provider === 'provider-c') route(body, model, first);
    if (endpoint.wire === 'chat') tellUsage(body, model, stream);
  }
  let kept: { readonly body: Body; readonly sent: Shortened } | undefined = { body, sent };
  return {
    models,
    stream,
    inputTokens: countTokens(body, sent),
    maxOutputTokens: outputLimit(body),
    offersTools: Array.isArray(body['tools']) && body['tools'].length > 0,
    bodyFor(id) {
      if (kept === undefined) throw new Error('the body was forgotten');
      return print({ ...kept.body, model: id }, kept.sent);
    },
    forget: () => void (kept = undefined),
  };
}

function parse(raw: Buffer): Body {
  let value: unknown;
  try {
    value = parseJson(raw.toString('utf8'));
  } catch {
    throw new BodyProblem(messagesTable.notJson);
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new BodyProblem('The body is not a JSON object.');
  }
  return value as Body;
}

function print(body: Body, sent: Shortened): Buffer {
  let json: string;
  try {
    json = JSON.stringify(body);
  } catch {
    // The one thing that parses and does not print.
    throw new BodyProblem('The body is nested too deeply.');
  }
  return lengthened(json, sent);
}

/** The gateway object in the provider's words, the primary in front (docs/reference/compile.md#models). */
function route(body: Body, { gateway }: ModelSpec, primary: string): void {
  if (gateway === undefined) return;
  body['models'] = [primary, ...gateway.models.filter((id) => id !== primary)];
  const { provider } = gateway;
  if (provider === undefined) return;
  const { allowFallbacks, ...others } = provider;
  body['provider'] = { ...(allowFallbacks !== undefined && { allow_fallbacks: allowFallbacks }), ...others };
}

/** Without being asked, a streamed answer of this wire does not tell its usage. */
function tellUsage(body: Body, { provider }: ModelSpec, stream: boolean): void {
  if (provider === 'provider-c') body['usage'] = { include: true };
  if (!stream) return;
  const options = body['stream_options'];
  body['stream_options'] = { ...(typeof options === 'object' ? options : {}), include_usage: true };
}

function outputLimit(body: Body): number {
  const limit = body['max_output_tokens'] ?? body['max_completion_tokens'] ?? body['max_tokens'];
  if (typeof limit !== 'number' || !Number.isSafeInteger(limit) || limit < 1) return outputTokens;
  return Math.min(limit, outputTokensMax);
}

/** Tokens of all text in a value, by its length; without recursion, since nobody bounds its depth. */
function countTokens(value: unknown, sent: Shortened): number {
  const lengthOf = (text: string): number => longTextOf(text, sent)?.characters ?? text.length;
  let characters = 0;
  let sealed = 0;
  const left: unknown[] = [value];
  while (left.length > 0) {
    const next = left.pop();
    if (typeof next === 'string') characters += lengthOf(next);
    else if (typeof next !== 'object' || next === null) characters += 2;
    else if (Array.isArray(next)) for (const item of next) left.push(item);
    else {
      for (const [key, item] of Object.entries(next)) {
        characters += key.length;
        if (typeof item === 'string' && sealedKeys.has(key) && lengthOf(item) > sealedFrom) sealed += 1;
        else left.push(item);
      }
    }
  }
  return Math.ceil(characters / charactersPerToken) + sealed * sealedTokens;
}
