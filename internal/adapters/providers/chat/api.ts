// One call of a method of the chat provider, and what its answer means in our words. Nothing is sent twice here, and no
// redirect is followed. Arguments go as a form: every method takes one. No message holds a token, a value or a host.

import { type Posted, postOnce } from '../../../base/net/post-once.ts';
import type { Fault } from '../../../domain/fault.ts';
import { objectAt, textAt } from '../../../domain/fields.ts';
import type { Json, JsonObject } from '../../../domain/json.ts';
import { OutcomeUnknown, outsideFault, ProviderLimited } from '../../../domain/outside.ts';
import { withoutEnd } from '../../../domain/text.ts';

export interface ChatRequest {
  /** Below which the methods are. */
  readonly apiUrl: string;
  readonly token: string;
  /** `chat.postMessage` and the like. */
  readonly method: string;
  /** Undefined ones are left out; an object goes as JSON. */
  readonly args: { readonly [name: string]: Json | undefined };
  /** It changes something: what becomes of a lost answer is not known. */
  readonly isWrite: boolean;
  /** Loopback and private addresses, and plain http, may be asked. */
  readonly allowPrivate: boolean;
}

/** Calls a method, once; answers with its result. Throws Fault, ProviderLimited, and OutcomeUnknown for a write. */
export async function callChat(request: ChatRequest): Promise<JsonObject> {
  const { token, method, args, isWrite, allowPrivate } = request;
  const url = new URL(`${withoutEnd(request.apiUrl, '/')}/${method}`);
  const form = new URLSearchParams();
  for (const [name, value] of Object.entries(args)) {
    if (value !== undefined) form.set(name, typeof value === 'object' ? JSON.stringify(value) : String(value));
  }
  const headers = {
    authorization: `Bearer ${token}`,
    'content-type': 'application/x-www-form-urlencoded; charset=utf-8',
  };
  const asked = { url, headers, body: form.toString(), isWrite, allowPrivate };
  return judge(request, await postOnce({ ...asked, who: 'the chat provider' }));
}

function judge({ isWrite }: ChatRequest, { statusCode, json: read, retryAfterSeconds }: Posted): JsonObject {
  const limited = (): ProviderLimited => new ProviderLimited(retryAfterSeconds);
  if (statusCode === 429) throw limited();
  // What is no JSON says neither yes nor no.
  const json = objectAt(read);
  if (json['ok'] === true && statusCode === 200) return json;
  const code = textAt(json['error']);
  if (code === 'ratelimited' || code === 'rate_limited') throw limited();
  const mayHaveWorked = code === undefined ? statusCode >= 500 || statusCode === 200 : doubtful.has(code);
  if (mayHaveWorked) {
    if (isWrite) throw new OutcomeUnknown(`an answer of ${statusCode}`);
    throw outsideFault('provider-unavailable', 'the chat provider did not answer as it should');
  }
  throw refusalOf(code, statusCode);
}

/** "Some aspect of the operation may have succeeded." */
const doubtful = new Set(['fatal_error', 'internal_error', 'request_timeout', 'service_unavailable']);
const codes: readonly (readonly [RegExp, Parameters<typeof outsideFault>[0], string])[] = [
  [
    /^(invalid_auth|not_authed|token_revoked|token_expired|account_inactive)$/,
    'credential-refused',
    'the chat provider does not take the token of this connection',
  ],
  [
    /^(missing_scope|not_allowed_token_type|no_permission|access_denied|ekm_access_denied|restricted_action.*)$/,
    'permission-missing',
    'the app of this connection may not do this',
  ],
  [
    /^(channel_not_found|message_not_found|thread_not_found|no_item_specified|user_not_found)$/,
    'not-found',
    'it is absent, or not visible to the app of this connection',
  ],
  [/^(is_archived|not_in_channel|cant_.*|is_inactive)$/, 'conflict', 'the chat provider cannot do this there'],
  [/^(msg_too_long|msg_blocks_too_long|too_long|metadata_too_large)$/, 'too-large', 'the chat provider takes less'],
];

function refusalOf(code: string | undefined, status: number): Fault {
  const shown = code !== undefined && /^[a-z0-9_]{1,64}$/.test(code) ? code : String(status);
  if (status === 401) return outsideFault('credential-refused', 'the chat provider does not take the token');
  const known = codes.find(([pattern]) => pattern.test(code ?? ''));
  if (known !== undefined) return outsideFault(known[1], `${known[2]} (${shown})`);
  return outsideFault('refused', `the chat provider refused it: ${shown}`);
}
