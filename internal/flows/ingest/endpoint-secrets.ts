// Secrets of webhook endpoints, ready to prove with. What is kept here is believed only with its guard: the statement that
// records an event looks up whether the name still means that value, so that a rotated secret counts from the next
// request on. Before anybody is turned away the secret is read anew, together with those who ask at the same time.

import { createSecretKey } from 'node:crypto';
import { sha256Bytes } from '../../base/hash.ts';
import { LRUCache } from '../../base/lru.ts';
import type { IngestEndpoint } from '../../adapters/store/resources/endpoints.ts';
import type { FlowContext } from '../context.ts';
import type { Credential, CredentialCache } from '../ports.ts';
import { openSecret } from '../sealed.ts';
import { FreshReads } from './fresh.ts';

/** Bytes of secrets are those of each endpoint that names one: thousands may name the same, of a megabyte. */
const most = { entries: 10_000, bytes: 16 * 1_048_576 } as const;
const keptMs = 10_000;

export class EndpointSecrets implements CredentialCache {
  readonly #entries = new LRUCache<string, { readonly credential: Credential; readonly until: number }>({
    max: most.entries,
    maxSize: most.bytes,
    sizeCalculation: ({ credential }) => Math.min(most.bytes, 1 + (credential.key?.symmetricKeySize ?? 0)),
  });
  readonly #reads = new FreshReads<Credential | undefined>();

  known(key: string, now: Date): Credential | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined || entry.until <= performance.now()) return undefined;
    return entry.credential.notedUntil > now.getTime() ? entry.credential : undefined;
  }

  async read(key: string, load: () => Promise<Credential | undefined>): Promise<Credential | undefined> {
    const askedAt = performance.now();
    const credential = await this.#reads.get(key, load);
    if (credential === undefined) this.#entries.delete(key);
    else this.#entries.set(key, { credential, until: askedAt + keptMs });
    return credential;
  }
}

/** Under which a credential is kept. */
export const credentialKey = (endpoint: IngestEndpoint, name: string): string => `${endpoint.id} ${name}`;

/** What the name means to an endpoint now; undefined: absent or expired. */
export async function loadCredential(
  ctx: FlowContext,
  endpoint: IngestEndpoint,
  name: string,
): Promise<Credential | undefined> {
  const { orgId, projectId } = endpoint;
  const reader = { kind: 'endpoint', name: endpoint.name } as const;
  const secret = await openSecret(ctx, { id: projectId, orgId }, name, reader);
  if (secret === undefined) return undefined;
  const { id, mark, text, notedUntil } = secret;
  return {
    key: text === '' ? undefined : createSecretKey(text, 'utf8'),
    digest: sha256Bytes(text),
    guard: { orgId, projectId, name, secretId: id, mark },
    notedUntil,
  };
}
