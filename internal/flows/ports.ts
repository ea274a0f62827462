// The adapters that flows reach the outside through, as flows see them: made once per daemon, handed on in the context.
// A test that must not wait for a network or a worker hands in its own.

import type { InstallationToken, MintRequest } from '../adapters/providers/codehost/codehost.ts';
import type {
  BlobStore,
  Credentials,
  HostCache,
  NetworkSettings,
  ProbeReport,
  RepoSource,
  RepoTarget,
  VerifyPolicy,
} from '../adapters/repo/types.ts';
import type { KeyRing, Sealer } from '../adapters/seal/seal.ts';
import type { IngestEndpoint } from '../adapters/store/endpoints.ts';
import type { NewEvent, RecordedEvent } from '../adapters/store/events.ts';
import type { CompileInput, CompileOutput } from '../core/compile/types.ts';
import type { ResolvedTemplate, TemplateLock, UnresolvedTemplate } from '../words/bundle.ts';
import type { Catalog } from '../words/catalog.ts';

export interface SourceOptions {
  readonly credentials?: Credentials;
  readonly blobs: BlobStore;
  readonly verify: VerifyPolicy | null;
}

export interface SyncPorts {
  readonly catalog: Catalog;
  /** SHA-256 (hex) of the catalog: a changed one is a reason to compile again. */
  readonly catalogHash: string;
  openSource(target: RepoTarget, options: SourceOptions): RepoSource;
  /** What a server supports; throws `RepoCondition` where it cannot be asked. */
  probe(url: string, credentials: Credentials | undefined): Promise<ProbeReport>;
  /** Compiles in a worker, within its time limit; never throws for what an author wrote. */
  compile(input: Pick<CompileInput, 'bundle' | 'context' | 'templates'>): Promise<CompileOutput>;
  /** A lock repeats an earlier resolution exactly; `secret` gives the value of a registry's token. */
  resolveTemplates(
    specifiers: readonly string[],
    options: { readonly lock?: TemplateLock; readonly secret: (name: string) => Promise<string | undefined> },
  ): Promise<ReadonlyMap<string, ResolvedTemplate | UnresolvedTemplate>>;
  /** Runs `fn` when this process has a connection to spare, of its whole budget and of the host's. */
  limited<T>(host: string, fn: () => Promise<T>): Promise<T>;
  /** Period of the full comparison of a repository with what is stored. */
  readonly resyncSeconds: number;
  readonly sealer: Sealer;
  /** What the sealer seals with. */
  readonly keyRing: KeyRing;
  /** When this process last noted a use of a secret by the service itself, in milliseconds. */
  readonly noted: Map<string, number>;
  /** A token of a code host's installation, asked for under the network rules. */
  mintToken(request: Omit<MintRequest, 'allowPrivate'>): Promise<InstallationToken>;
  readonly network: NetworkSettings;
  readonly hostCache: HostCache;
  /** Installation tokens by connection id, until four fifths of their life. */
  readonly tokens: Map<string, { readonly token: string; readonly until: Date }>;
  stop(): Promise<void>;
}

/** What takes events in: made once per daemon. */
export interface IngestPorts {
  /** True where this installation routes events: whoever records one asks for its routing too. */
  readonly routing: boolean;
  /** The endpoint that takes events under a slug. */
  endpoint(slug: string, now: Date): Promise<IngestEndpoint | undefined>;
  /** What `load` gives, by a read that starts after this call; calls of one key share reads. */
  fresh(key: string, load: () => Promise<string | undefined>): Promise<string | undefined>;
  /** Records an event together with those that arrive at the same time; resolves after the commit. */
  record(event: NewEvent): Promise<RecordedEvent>;
  /**
   * Makes room for a body of so many bytes (undefined: not announced) before any of it is read; the answer gives the
   * room back. Throws Fault `unavailable` where there is none.
   */
  admit(bytes: number | undefined): () => void;
  stop(): Promise<void>;
}
