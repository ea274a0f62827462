// One request to a provider: its address, its key, the few headers that pass either way. Redirects are not followed.

import type { Readable } from 'node:stream';
import { Agent, request } from 'undici';
import { guardedLookup, hostFault, PrivateAddressError } from '../../../base/net/net.ts';
import type { ModelProvider } from '../../../domain/spec.ts';
import { withoutEnd } from '../../../domain/text.ts';

export interface ModelUpstreamOptions {
  /** Base addresses that replace the vendors' own; a path in them stays in front. */
  readonly addresses?: { readonly [provider in ModelProvider]?: string | undefined };
  /** The key of a provider, at the moment of the call; undefined where there is none. */
  readonly key: (provider: ModelProvider, projectId: string) => Promise<string | undefined>;
  /** Lets requests reach loopback and private addresses, and use plain http. */
  readonly allowPrivate: boolean;
  /** Silence before the answer begins, and within it; milliseconds. */
  readonly silenceMs?: number;
}

interface UpstreamRequest {
  readonly provider: ModelProvider;
  /** Whose key it is. */
  readonly projectId: string;
  readonly method: 'GET' | 'POST';
  /** Below the base address, with its query. */
  readonly path: string;
  readonly headers: { readonly [name: string]: string | readonly string[] | undefined };
  readonly body: Buffer | null;
  readonly signal: AbortSignal;
}
export interface UpstreamAnswer {
  readonly status: number;
  /** Those that pass. */
  readonly headers: { readonly [name: string]: string | string[] };
  /** Without parameters, in lower case. */
  readonly mediaType: string;
  readonly encoding: string | undefined;
  readonly body: Readable;
  /** Takes the key out of a text. */
  scrub(text: string): string;
}

/** `outcome` unknown: it may have been made and charged. The message holds neither key nor address. */
export class UpstreamFailure extends Error {
  readonly outcome: 'not-sent' | 'unknown';
  constructor(outcome: 'not-sent' | 'unknown', message: string) {
    super(message);
    this.name = 'UpstreamFailure';
    this.outcome = outcome;
  }
}

export interface ModelUpstream {
  /** Sends one request. Throws UpstreamFailure, or the signal's reason. */
  send(request: UpstreamRequest): Promise<UpstreamAnswer>;
  close(): Promise<void>;
}

const addresses: { readonly [provider in ModelProvider]: string } = {
  'provider-a': 'https://api.anthropic.com',
  'provider-b': 'https://api.openai.com',
  'provider-c': 'https://openrouter.ai/api',
};

const keyHeader = (provider: ModelProvider, key: string): { readonly [name: string]: string } =>
  provider === 'provider-a' ? { 'x-api-key': key } : { authorization: `Bearer ${key}` };

const sent =
  /^(?:accept|content-type|user-agent|anthropic-version|anthropic-beta|openai-beta|originator|session[_-]id|conversation[_-]id|thread[_-]id|version|x-app|x-client-request-id|x-codex-[a-z-]+|x-stainless-[a-z-]+)$/;
const answered =
  /^(?:content-type|cache-control|retry-after|retry-after-ms|x-should-retry|request-id|x-request-id|openai-processing-ms|openai-model|openai-version|anthropic-ratelimit-[a-z-]+|x-ratelimit-[a-z-]+)$/;

/** Failures to connect: nothing was sent. */
const notSent = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'UND_ERR_CONNECT_TIMEOUT',
  'CERT_HAS_EXPIRED',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'ERR_TLS_CERT_ALTNAME_INVALID',
]);

function pick(
  headers: { readonly [name: string]: string | readonly string[] | undefined },
  allowed: RegExp,
): { [name: string]: string | string[] } {
  const found: { [name: string]: string | string[] } = {};
  for (const [name, value] of Object.entries(headers)) {
    if (value !== undefined && allowed.test(name)) found[name] = typeof value === 'string' ? value : [...value];
  }
  return found;
}

/** Keeps connections; `close` ends them. */
export function createUpstream(options: ModelUpstreamOptions): ModelUpstream {
  const silenceMs = options.silenceMs ?? 600_000;
  const agent = new Agent({
    headersTimeout: silenceMs,
    bodyTimeout: silenceMs,
    keepAliveTimeout: 15_000,
    connect: { timeout: 10_000, ...(options.allowPrivate ? {} : { lookup: guardedLookup() }) },
  });
  return {
    async send({ provider, projectId, method, path, headers, body, signal }) {
      const base = addressOf(options, provider);
      const key = await keyOf(options, provider, projectId);
      try {
        const answer = await request(`${base.origin}${withoutEnd(base.pathname, '/')}${path}`, {
          dispatcher: agent,
          method,
          signal,
          body,
          headers: { ...pick(headers, sent), 'accept-encoding': 'identity', ...keyHeader(provider, key) },
        });
        // Whoever reads it learns of its failures; one that nobody reads must not end the process.
        answer.body.on('error', () => undefined);
        const type = answer.headers['content-type'];
        const encoding = answer.headers['content-encoding'];
        return {
          status: answer.statusCode,
          headers: pick(answer.headers, answered),
          mediaType: (typeof type === 'string' ? (type.split(';')[0] ?? '') : '').trim().toLowerCase(),
          encoding: typeof encoding === 'string' ? encoding : undefined,
          body: answer.body,
          scrub: (text) => text.replaceAll(key, '[removed]'),
        };
      } catch (error) {
        if (signal.aborted) throw error;
        throw failureOf(error, provider);
      }
    },
    close: () => agent.destroy(),
  };
}

/** Throws UpstreamFailure where the network rules refuse it. */
export function addressOf(
  options: Pick<ModelUpstreamOptions, 'addresses' | 'allowPrivate'>,
  provider: ModelProvider,
): URL {
  const base = new URL(options.addresses?.[provider] ?? addresses[provider]);
  if (options.allowPrivate) return base;
  const fault = base.protocol === 'https:' ? hostFault(base.hostname) : 'it is not https';
  if (fault === null) return base;
  throw new UpstreamFailure(
    'not-sent',
    `The address of ${provider} is refused: ${fault}. SVC_ALLOW_PRIVATE_NETWORK=true would allow it.`,
  );
}

async function keyOf(options: ModelUpstreamOptions, provider: ModelProvider, projectId: string): Promise<string> {
  const key = (await options.key(provider, projectId))?.trim();
  if (key !== undefined && /^[\x21-\x7e]+$/.test(key)) return key;
  const what = key === undefined || key === '' ? 'No key is configured' : 'The key that is configured cannot be used';
  throw new UpstreamFailure('not-sent', `${what} for ${provider}; see providers.model of the configuration.`);
}

/** Foreign errors keep their text to themselves: their code is enough. */
function failureOf(error: unknown, provider: ModelProvider): UpstreamFailure {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  if (cause instanceof PrivateAddressError) {
    return new UpstreamFailure('not-sent', `${provider} is refused: ${cause.message}.`);
  }
  const code = (error as { code?: unknown } | null)?.code;
  const word = typeof code === 'string' && /^[A-Z0-9_]+$/.test(code) ? code : 'unknown error';
  const outcome = notSent.has(word) ? 'not-sent' : 'unknown';
  const what = outcome === 'not-sent' ? 'cannot be reached' : 'did not answer';
  return new UpstreamFailure(outcome, `${provider} ${what} (${word}).`);
}
