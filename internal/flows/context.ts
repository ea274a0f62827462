// What every flow is given: the database, the clock and other inputs from outside (`Runtime`), the configuration, metrics,
// the ports of this daemon, and who acts. Wired once in cmd/svcd; a room that brings a further capability adds it here as a
// field. Holds no logic of its own.

import type { InstallationReceiver } from '../base/config/notification-settings.ts';
import type { Config } from '../base/config/config.ts';
import type { Metrics } from '../base/metrics/metrics.ts';
import type { Runtime } from '../base/runtime.ts';
import type { Database } from '../adapters/store/store.ts';
import type { HostPorts } from './host-ports.ts';
import type {
  CatalogPorts,
  CheckPort,
  EgressRoutes,
  GitRoutes,
  ImpactSides,
  IngestPorts,
  ModelRoutes,
  Found,
  SoughtStep,
  SealingPorts,
  SyncPorts,
  TokenPorts,
} from './ports.ts';

export type { ProjectRef } from '../domain/project.ts';

/** How writes go out. Here and not in ports.ts, because a reader is given the context, which names those. */
export interface OutboxPorts {
  /** By a call's `provider`: looks once whether a step arrived at it. Where the look throws, that stays unknown. */
  readonly readers: { readonly [provider: string]: (ctx: FlowContext, step: SoughtStep) => Promise<Found> };
  /** The least time between two writes to one installation of a code host. */
  readonly writeSpacingMs?: number;
  /** Where code hosts answer whose connection does not say so. */
  readonly codehostApiUrl?: string;
  /** Where their repositories are. */
  readonly codehostWebUrl?: string;
  /** The provider's own tool server, for reading what the service does not serve. */
  readonly codehostMcpUrl?: string | undefined;
  /** Hosts, or host:port, from which attachments are downloaded. */
  readonly attachmentHosts?: readonly string[];
  /** Where chat providers and trackers answer whose connection does not say so. */
  readonly chatApiUrl?: string;
  readonly trackerApiUrl?: string;
  /** Hosts, or host:port, of the chat provider's files. */
  readonly chatFileHosts?: readonly string[];
  /** Whom the installation tells of what happens in its projects. */
  readonly receivers?: readonly InstallationReceiver[];
}

export interface FlowContext {
  readonly db: Database;
  readonly runtime: Runtime;
  readonly config: Config;
  readonly metrics: Metrics;
  /** This process in svc.daemons. */
  readonly daemonId: string;
  /** Public base address without a trailing slash; known once the server listens. */
  readonly baseUrl: string;
  /** What reads repositories and compiles them; absent in tests that need none of it. */
  readonly sync?: SyncPorts;
  /**
   * Matches stored events again after a run has applied, to tell what it changed for them; absent in tests that need none of
   * it.
   */
  readonly impacts?: { offer(run: string, sides: ImpactSides): void };
  /** The models, presets and tools that agents may name; absent in tests that need none of it. */
  readonly catalog?: CatalogPorts;
  /** What opens sealed values; absent in tests that need none of it. */
  readonly sealing?: SealingPorts;
  /** What mints tokens of code hosts; absent in tests that need none of it. */
  readonly installations?: TokenPorts;
  /** What takes events in; absent in tests that need none of it. */
  readonly ingest?: IngestPorts;
  /** How sessions reach their models; absent in a daemon without the role `session`. */
  readonly models?: ModelRoutes;
  /** How sessions' git reaches their mounts; absent in a daemon without the role `session`. */
  readonly git?: GitRoutes;
  /** How fenced sessions reach what they may; absent in a daemon without the role `session`. */
  readonly egress?: EgressRoutes;
  /** What runs sessions; absent in a daemon without the role `session`. */
  readonly host?: HostPorts;
  /** Tells the code host of checks; absent: it is told of none. */
  readonly checks?: CheckPort;
  /** How writes go out and are found again; absent in tests that send nothing. */
  readonly outbox?: OutboxPorts;
}

/** The ports, which this daemon has to have been wired with: throws where it was not, which is our bug. */
function wired<T>(ports: T | undefined, name: string): T {
  if (ports === undefined) throw new Error(`this daemon was wired without ${name}`);
  return ports;
}

export const syncPortsOf = (ctx: FlowContext): SyncPorts => wired(ctx.sync, 'its sync ports');
export const catalogOf = (ctx: FlowContext): CatalogPorts => wired(ctx.catalog, 'a catalog');
export const sealingOf = (ctx: FlowContext): SealingPorts => wired(ctx.sealing, 'a key ring');
export const tokensOf = (ctx: FlowContext): TokenPorts => wired(ctx.installations, 'its way to mint tokens');

/** The daemon's ports of intake. Throws where it was wired without. */
export function ingestOf(ctx: FlowContext): IngestPorts {
  return wired(ctx.ingest, 'its ports of intake');
}

/** Who does something, as the audit names it. A system actor has no id; its name says which part of the daemon it is. */
export interface Actor {
  readonly kind: 'user' | 'service_account' | 'session' | 'system';
  readonly id: string | null;
  readonly name: string;
  readonly requestId?: string;
  /** Why, in the actor's own words: `detail.reason` of its audit entries. */
  readonly reason?: string;
}
