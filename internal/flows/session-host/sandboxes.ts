// What a host runs sessions in, for operators (docs/reference/sessions.md#engines): each provider with what it can and why
// it cannot the rest, the sandboxes that are there, and the end of those that no live session owns.

import { hostname } from 'node:os';
import { EngineError } from '../../adapters/engine/engine.ts';
import type {
  SandboxCapabilities,
  SandboxFacts,
  SandboxName,
  SandboxProvider,
} from '../../adapters/sandbox/sandbox.ts';
import { sandboxSessions, sessionPeers } from '../../adapters/store/operations/peers.ts';
import { isAtHome } from '../../adapters/store/sessions/hosts.ts';
import { endedSessions, liveSessions } from '../../adapters/store/sessions/turns.ts';
import { firstOrgId } from '../../adapters/store/secrets/keys.ts';
import { recordAudit } from '../../adapters/store/tenancy/audit.ts';
import { Fault } from '../../domain/fault.ts';
import { uuid } from '../../domain/uuid.ts';
import type { Actor, FlowContext } from '../context.ts';
import type { HostPorts } from '../host-ports.ts';
import { askAll, type ForwardedRequest } from '../peers.ts';
import { inTime } from './looks.ts';
import { keepsWork } from './snapshots.ts';

export interface ProviderView {
  readonly provider: SandboxName;
  readonly isDefault: boolean;
  readonly works: boolean;
  /** What it is, or why it does not work. */
  readonly why: string;
  readonly version: string | null;
  readonly runtimes: readonly string[];
  readonly capabilities: SandboxCapabilities | null;
  /** Why a capability is missing. */
  readonly missing: { readonly [capability: string]: string };
}

const reasons: { readonly [capability in Exclude<keyof SandboxCapabilities, 'isolation' | 'resources'>]: string } = {
  injectionEdge: 'it has no network of its own at whose edge a secret could be added',
  networkFence: 'it has no network of its own that could be fenced',
  snapshot:
    'home and work of its sessions are not kept: it needs SVC_DATABASE_URL and sandboxes.snapshots.maxMB over 0',
  images: 'it shows the machine’s own programs',
  commit: 'build steps change home alone; only a container engine keeps the whole image',
  warm: 'its sandboxes start in milliseconds; none stands ready',
  survivesRestart: 'its sandboxes end with the daemon that started them',
};

/** What a provider can here: work is kept only where daemons share a database. */
export function factsHere(ctx: FlowContext, facts: SandboxFacts): SandboxFacts {
  const { capabilities } = facts;
  return { ...facts, capabilities: { ...capabilities, snapshot: capabilities.snapshot && keepsWork(ctx) } };
}

/** Why it cannot what it cannot, by capability. */
export function missingOf({ capabilities, resources, engine }: SandboxFacts): { [capability: string]: string } {
  const lacking = Object.entries(reasons).filter(([name]) => capabilities[name as keyof typeof reasons] === false);
  return {
    ...(capabilities.isolation === 'none' && { isolation: 'programs run as the daemon’s user on its machine' }),
    ...Object.fromEntries(lacking),
    ...(engine !== undefined && ofEngines(capabilities, engine.commit)),
    ...(!capabilities.resources && { resources: resources.replace(/^not enforced( by the service)?: /, '') }),
  };
}

/** What an engine's are missing for reasons of their own. */
const ofEngines = ({ commit, warm }: SandboxCapabilities, whyNoCommit: string | null) => ({
  ...(!commit && { commit: whyNoCommit ?? 'the engine cannot make an image of a box' }),
  ...(!warm && { warm: 'boxes are made when a session asks for one' }),
});

const engines: ReadonlySet<string> = new Set(['docker', 'kubernetes']);

/** A provider as it opens, or why it does not; without a name the default. An engine is waited for as `inTime` says. */
export async function openProvider({ config }: FlowContext, host: HostPorts, name: SandboxName | undefined) {
  const provider = name ?? (config.sandbox === 'auto' ? 'bubblewrap' : config.sandbox);
  const open = () => host.sandboxes(name);
  const opening = engines.has(provider) ? inTime(host, `open ${provider}`, open) : open();
  const opened = await opening.catch((error: unknown) => {
    if (error instanceof Fault || error instanceof EngineError) return error;
    throw error;
  });
  return { name, provider, opened };
}

/** The default and those that presets name. */
export const openedProviders = (ctx: FlowContext, host: HostPorts) =>
  Promise.all([undefined, ...host.providers].map((name) => openProvider(ctx, host, name)));

/** Every provider that sessions of this host run on, the default first. */
export async function providersOf(ctx: FlowContext, host: HostPorts): Promise<ProviderView[]> {
  const views: ProviderView[] = [];
  for (const { name, provider, opened } of await openedProviders(ctx, host)) {
    if (opened instanceof Error) {
      const failed = {
        works: false,
        why: opened instanceof EngineError ? `${opened.code}: ${opened.message}` : opened.message,
        version: null,
        runtimes: [],
        capabilities: null,
        missing: {},
      };
      views.push({ provider, isDefault: name === undefined, ...failed });
      continue;
    }
    const facts = factsHere(ctx, opened.facts);
    if (views.some(({ provider }) => provider === facts.inUse)) continue;
    views.push({
      provider: facts.inUse,
      isDefault: name === undefined,
      works: true,
      why: facts.why,
      version: facts.version ?? null,
      runtimes: facts.engine?.runtimes ?? (facts.version === undefined ? [] : [facts.version]),
      capabilities: facts.capabilities,
      missing: missingOf(facts),
    });
  }
  return views;
}

export interface EngineView {
  /** The daemon that runs sessions with it. */
  readonly daemon: string;
  readonly providers: readonly ProviderView[];
  readonly fenced: boolean;
  readonly allow: readonly string[] | null;
}

/** Of this daemon, where it runs sessions, else of another that does; without providers where none is reached. */
export async function engineView(
  ctx: FlowContext,
  path: string,
  on: ForwardedRequest | undefined,
): Promise<EngineView> {
  const { host } = ctx;
  if (host !== undefined) {
    const { allow = null, fenced } = host;
    return { daemon: ctx.daemonId, providers: await providersOf(ctx, host), fenced: fenced || allow !== null, allow };
  }
  const peers = on === undefined ? [] : await sessionPeers(ctx.db, ctx.daemonId);
  const { answers } =
    on === undefined ? { answers: [] } : await askAll<EngineView>(ctx, peers, { method: 'GET', path }, on);
  return answers[0] ?? { daemon: ctx.daemonId, providers: [], fenced: false, allow: null };
}

const isSession = (id: string): boolean => uuid.test(id);

/** A box in which an image is built for a session is its session's. */
const sessionOf = (id: string): string => id.replace(/-build$/, '');

/** An engine that does not say what it has. */
interface Away {
  readonly provider: SandboxName;
  readonly why: string;
  /** It did open; one that does not is told of as such. */
  readonly isOpen: boolean;
}

/** The default and those that presets name, as far as they work; providers of this machine see each other's sandboxes. */
async function workingProviders(
  ctx: FlowContext,
  host: HostPorts,
): Promise<{ readonly providers: readonly SandboxProvider[]; readonly away: readonly Away[] }> {
  const working = new Map<string, SandboxProvider>();
  const away: Away[] = [];
  for (const { name, provider, opened } of await openedProviders(ctx, host)) {
    if (opened instanceof Fault && name === undefined) throw opened;
    // One that does not answer is asked again with the next look.
    if (opened instanceof EngineError) away.push({ provider, why: opened.message, isOpen: false });
    if (opened instanceof Error) continue;
    const isSeen =
      opened.provider.alwaysFenced !== true && [...working.values()].some((one) => one.alwaysFenced !== true);
    if (!isSeen) working.set(opened.facts.inUse, opened.provider);
  }
  return { providers: [...working.values()], away };
}

export interface SandboxView {
  /** Of the session that it was made for. */
  readonly session: string;
  readonly provider: string | null;
  /** Running: programs run in it; resting: its files wait for its session; left: no live session owns it. */
  readonly state: 'running' | 'resting' | 'left';
  readonly org: string | null;
  readonly project: string | null;
  readonly agent: string | null;
  readonly sessionState: string | null;
  readonly image: string | null;
  readonly daemon: string;
}

/** What is here, and the engines that do not say what they have. */
export async function ownSandboxes(
  ctx: FlowContext,
): Promise<{ readonly items: readonly SandboxView[]; readonly away: readonly Away[] }> {
  if (ctx.host === undefined || !(await ctx.host.hasLeftovers())) return { items: [], away: [] };
  const { home } = ctx.host;
  const { providers, away } = await workingProviders(ctx, ctx.host);
  const silent: Away[] = [];
  const looks = providers.map(async (provider) => {
    const list = () => provider.list();
    const listed = provider.alwaysFenced === true ? await inTime(provider, 'list', list) : await list();
    if (!(listed instanceof EngineError)) return listed;
    silent.push({ provider: provider.name, why: listed.message, isOpen: true });
    return [];
  });
  const seen = (await Promise.all(looks)).flat();
  const running = new Set(seen.flatMap((one) => (one.running ? [one.id] : [])));
  const ids = [...new Set(seen.map(({ id }) => id))].toSorted().filter(isSession);
  const found = ids.map((id) => ({ id, running: running.has(id) }));
  const known = await sandboxSessions(
    ctx.db,
    found.map(({ id }) => id),
  );
  const items = found.map(({ id, running }): SandboxView => {
    const session = known.get(id);
    // Of one that another daemon has taken over what is here rests, though its box has this one's label.
    const isHere = session !== undefined && (session.home === null || isAtHome(session.home, home));
    const state = session?.live !== true ? 'left' : running && isHere ? 'running' : 'resting';
    const { org = null, project = null, agent = null } = session ?? {};
    const { provider: kind = null, image = null } = session?.sandbox ?? {};
    const sessionState = session?.state ?? null;
    return { session: id, provider: kind, state, org, project, agent, sessionState, image, daemon: ctx.daemonId };
  });
  return { items, away: [...away, ...silent] };
}

/** What `unreachable` calls an engine of this host. */
const placeOf = (provider: SandboxName): string => `${provider} on ${hostname()}`;

/** What other daemons say to a request that is handed on to them; nobody is asked where it may not be. */
async function others<T extends { readonly unreachable: readonly string[] }>(
  ctx: FlowContext,
  what: Parameters<typeof askAll>[2],
  on: ForwardedRequest | undefined,
): Promise<{ readonly answers: readonly T[]; readonly unreachable: readonly string[] }> {
  if (on === undefined) return { answers: [], unreachable: [] };
  const { answers, unreachable } = await askAll<T>(ctx, await sessionPeers(ctx.db, ctx.daemonId), what, on);
  return { answers, unreachable: [...unreachable, ...answers.flatMap((one) => one.unreachable)] };
}

interface Listed {
  readonly items: readonly SandboxView[];
  readonly unreachable: readonly string[];
}

/** Of all daemons that are reached; `unreachable`: hosts of the others, and engines that say nothing any more. */
export async function listSandboxes(ctx: FlowContext, path: string, on: ForwardedRequest | undefined): Promise<Listed> {
  const [own, asked] = await Promise.all([ownSandboxes(ctx), others<Listed>(ctx, { method: 'GET', path }, on)]);
  return {
    items: [...own.items, ...asked.answers.flatMap(({ items }) => items)],
    unreachable: [...own.away.flatMap((one) => (one.isOpen ? placeOf(one.provider) : [])), ...asked.unreachable],
  };
}

type Owned = (ids: readonly string[]) => Promise<ReadonlySet<string>>;

/** Of what is found those that a live session owns. */
const ownedByLive =
  (ctx: FlowContext): Owned =>
  async (ids) => {
    const live = await liveSessions(ctx.db, ids.filter((id) => isSession(sessionOf(id))).map(sessionOf));
    // What is called by no session's id is not ours to remove.
    return new Set(ids.filter((id) => live.has(sessionOf(id)) || !isSession(sessionOf(id))));
  };

/** Ends what no live session owns, on this host. Gives the sessions whose sandboxes they were. */
export const reapOwn = async (ctx: FlowContext): Promise<string[]> => allReaped(await reap(ctx, ownedByLive(ctx)));

/** As `reapOwn`, of sessions that have ended alone, but for those that a host is still at. */
export async function reapEnded(ctx: FlowContext, held: ReadonlySet<string>): Promise<string[]> {
  const owned: Owned = async (ids) => {
    const ended = await endedSessions(ctx.db, ids.filter((id) => isSession(sessionOf(id))).map(sessionOf));
    return new Set(ids.filter((id) => !ended.has(sessionOf(id)) || held.has(sessionOf(id))));
  };
  return allReaped(await reap(ctx, owned));
}

interface Reaping {
  readonly reaped: string[];
  /** Of which not all was removed. */
  readonly silent: readonly SandboxName[];
  readonly failures: readonly unknown[];
}

function allReaped({ reaped, failures }: Reaping): string[] {
  if (failures.length > 0) throw failures[0];
  return reaped;
}

/** How long an engine is waited for that removes what is left; what takes longer goes on by itself. */
const reapMs = 10_000;

async function reap(ctx: FlowContext, owned: Owned): Promise<Reaping> {
  if (ctx.host === undefined || !(await ctx.host.hasLeftovers())) return { reaped: [], silent: [], failures: [] };
  // An engine first: once the files on this machine are gone, nothing here tells whose its boxes were.
  const { providers, away: closed } = await workingProviders(ctx, ctx.host);
  const all = providers.toSorted((a, b) => Number(b.alwaysFenced) - Number(a.alwaysFenced));
  const gone = new Set<string>();
  const failures: unknown[] = [];
  const silent: SandboxName[] = [];
  const left = new Set<string>();
  const failed = (id: string, error: unknown): void => {
    left.add(id);
    ctx.runtime.log.warn({ sandbox: id, err: error }, 'host.sandbox_not_reaped');
  };
  const isAway = (): boolean => closed.length + failures.length > 0;
  const keptFrom = async (provider: SandboxProvider, ids: readonly string[]): Promise<ReadonlySet<string>> => {
    const isHere = provider.alwaysFenced !== true && isAway();
    return new Set([
      ...(await owned(ids)),
      ...left,
      ...(isHere ? await mayBeBoxed(ctx, ids, failures.length > 0) : []),
    ]);
  };
  for (const provider of all) {
    const remove = async (): Promise<void> => {
      const removed = await provider.reap((ids) => keptFrom(provider, ids), failed);
      const fresh = removed.filter((id) => !gone.has(id));
      for (const id of fresh) gone.add(id);
      tellReaped(ctx, fresh);
    };
    try {
      const late = provider.alwaysFenced === true ? await inTime(provider, 'reap', remove, reapMs) : await remove();
      if (late instanceof EngineError) throw late;
    } catch (error) {
      failures.push(error);
      silent.push(provider.name);
    }
  }
  return { reaped: [...gone], silent, failures };
}

/**
 * Of what is found on this machine, what may be that of an engine which cannot be asked now: what lies here says whose its box
 * is. `andUnknown`: also that of which nothing is known.
 */
async function mayBeBoxed(ctx: FlowContext, ids: readonly string[], andUnknown: boolean): Promise<string[]> {
  const known = await sandboxSessions(ctx.db, ids.filter(isSession));
  return ids.filter((id) => {
    const provider = known.get(id)?.sandbox?.provider;
    return provider === undefined ? andUnknown : engines.has(provider);
  });
}

function tellReaped(ctx: FlowContext, sandboxes: readonly string[]): void {
  const help = 'Sandboxes that were ended because no live session owns them';
  const reaped = ctx.metrics.counter('svc_sandbox_reaped_total', help);
  if (sandboxes.length === 0) return;
  reaped.inc(sandboxes.length);
  ctx.runtime.log.info({ sandboxes }, 'host.sandboxes_reaped');
}

interface Reaped {
  readonly reaped: readonly string[];
  readonly unreachable: readonly string[];
}

/** As `reapOwn`, on all daemons that are reached; `unreachable`: see `listSandboxes`. The entry of the audit is committed before anything is ended. */
export async function reapSandboxes(
  ctx: FlowContext,
  path: string,
  on: ForwardedRequest | undefined,
  actor: Actor,
): Promise<Reaped> {
  await ctx.db.tx(async (tx) =>
    recordAudit(tx, {
      orgId: await firstOrgId(tx),
      projectId: null,
      principal: actor,
      action: 'sandboxes.reaped',
      detail: { daemon: ctx.daemonId },
    }),
  );
  const handedOn = { method: 'POST', path, body: {} } as const;
  const [own, asked] = await Promise.all([reap(ctx, ownedByLive(ctx)), others<Reaped>(ctx, handedOn, on)]);
  for (const error of own.failures) {
    if (!(error instanceof EngineError)) throw error;
    ctx.runtime.log.warn({ err: error }, 'host.engine_not_reaped');
  }
  return {
    reaped: [...own.reaped, ...asked.answers.flatMap(({ reaped }) => reaped)],
    unreachable: [...own.silent.map(placeOf), ...asked.unreachable],
  };
}
