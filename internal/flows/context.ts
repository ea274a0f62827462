// What every flow is given: the database, the clock and its kin, configuration, metrics, and whoever acts.
// Wired once in cmd/svcd; an owner of a further capability adds it here as a field. Holds no logic of its own.

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

/** How writes go out; here and not among the other ports, since a reader is given the context. */
export interface OutboxPorts {
  /** By a call's `provider`: looks once whether a step arrived. It may throw: then nobody knows. */
  readonly readers: { readonly [provider: string]: (ctx: FlowContext, step: SoughtStep) => Promise<Found> };
  /** How far apart writes to one installation of a code host go out. */
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
  /** What matches stored events again for a run that has applied; absent in tests that need none of it. */
  readonly impacts?: { offer(run: string, sides: ImpactSides): void };
  /** What there is to choose from; absent in tests that need none of it. */
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
  /** The code host's checks; absent: nobody outside is told of them. */
  readonly checks?: CheckPort;
  /** Who finds writes again, by provider; absent in tests that send nothing. */
  readonly outbox?: OutboxPorts;
}

/** Ports that this daemon was wired with. Throws where it was wired without. */
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
  /** Why, in its own words; `detail.reason` of what it leaves in the audit. */
  readonly reason?: string;
}
