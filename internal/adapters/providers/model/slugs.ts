// Which models the provider that takes any vendor/model slug has, as it tells everybody: no key goes out. Asked once an
// hour at most, and never for longer than a sync can wait; a provider that does not answer says nothing.

import { Agent, request } from 'undici';
import { guardedLookup } from '../../../base/net/net.ts';
import { withoutEnd } from '../../../domain/text.ts';
import { addressOf, type ModelUpstreamOptions } from './upstream.ts';

export interface SlugsOptions extends Pick<ModelUpstreamOptions, 'addresses' | 'allowPrivate'> {
  /** Milliseconds on a clock that never goes back. */
  readonly now?: () => number;
  /** Hears why there was no answer to be read. */
  readonly unread?: (error: unknown) => void;
}

const limits = { waitMs: 2_000, bodyBytes: 8 * 1024 * 1024 } as const;
/** How long an answer holds, and how long nobody is asked again where there was none; milliseconds. */
const ages = { known: 3_600_000, unknown: 60_000 } as const;

/** Reads the list; undefined where the provider cannot be reached within two seconds or answers with none. Never throws. */
export function createSlugs(options: SlugsOptions): () => Promise<ReadonlySet<string> | undefined> {
  const now = options.now ?? (() => performance.now());
  let last: { readonly until: number; readonly slugs: Promise<ReadonlySet<string> | undefined> } | undefined;
  return () => {
    if (last !== undefined && now() < last.until) return last.slugs;
    const slugs = readSlugs(options).catch((error: unknown) => {
      options.unread?.(error);
      return undefined;
    });
    const asked = { until: now() + ages.known, slugs };
    last = asked;
    void slugs.then((found) => {
      if (found === undefined && last === asked) last = { slugs, until: now() + ages.unknown };
    });
    return slugs;
  };
}

async function readSlugs(options: SlugsOptions): Promise<ReadonlySet<string> | undefined> {
  const base = addressOf(options, 'provider-c');
  const agent = new Agent({
    maxResponseSize: limits.bodyBytes,
    connect: options.allowPrivate ? {} : { lookup: guardedLookup() },
  });
  try {
    const answer = await request(`${base.origin}${withoutEnd(base.pathname, '/')}/v1/models`, {
      dispatcher: agent,
      headers: { accept: 'application/json', 'accept-encoding': 'identity' },
      signal: AbortSignal.timeout(limits.waitMs),
    });
    return answer.statusCode === 200 ? slugsOf(await answer.body.json()) : undefined;
  } finally {
    // What is still being sent is broken off.
    await agent.destroy();
  }
}

/** `{data: [{id, canonical_slug?}]}`; a list without any slug is none. */
function slugsOf(body: unknown): ReadonlySet<string> | undefined {
  const { data } = (body ?? {}) as { data?: unknown };
  if (!Array.isArray(data)) return undefined;
  const named = data.flatMap((row: { id?: unknown; canonical_slug?: unknown } | null) => [
    row?.id,
    row?.canonical_slug,
  ]);
  const slugs = new Set(named.filter((name): name is string => typeof name === 'string' && name.includes('/')));
  return slugs.size === 0 ? undefined : slugs;
}
