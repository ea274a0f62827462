// What a host runs sessions in, for operators (docs/reference/sessions.md#engines): each provider with what it can and why
// it cannot the rest, the sandboxes that are there, and the end of those that no live session owns.

import { EngineError } from '../../adapters/engine/engine.ts';
import type {
  SandboxCapabilities,
  SandboxFacts,
  SandboxName,
  SandboxProvider,
} from '../../adapters/sandbox/sandbox.ts';
import { sandboxSessions, sessionPeers } from '../../adapters/store/operations/peers.ts';
import { endedSessions, liveSessions } from '../../adapters/store/sessions/turns.ts';
import { firstOrgId } from '../../adapters/store/secrets/keys.ts';
import { recordAudit } from '../../adapters/store/tenancy/audit.ts';
import { Fault } from '../../domain/fault.ts';
import { uuid } from '../../domain/uuid.ts';
import type { Actor, FlowContext } from '../context.ts';
import type { HostPorts } from '../host-ports.ts';
import { askAll, type ForwardedRequest } from '../peers.ts';
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

/** Every provider that sessions of this host run on, the default first. */
export async function providersOf(ctx: FlowContext, host: HostPorts): Promise<ProviderView[]> {
  const views: ProviderView[] = [];
  const { sandbox } = ctx.config;
  const byDefault = sandbox === 'auto' ? 'bubblewrap' : sandbox;
  for (const name of [undefined, ...host.providers]) {
    const opened = await host.sandboxes(name).catch((error: unknown) => {
      if (error instanceof Fault || error instanceof EngineError) return error;
      throw error;
    });
    if (opened instanceof Error) {
      const failed = {
        works: false,
        why: opened instanceof EngineError ? `${opened.code}: ${opened.message}` : opened.message,
        version: null,
        runtimes: [],
        capabilities: null,
        missing: {},
      };
      views.push({ provider: name ?? byDefault, isDefault: name === undefined, ...failed });
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

/** The default and those that presets name, as far as they work; providers of this machine see each other's sandboxes. */
async function openProviders(host: HostPorts): Promise<SandboxProvider[]> {
  const opened = new Map<string, SandboxProvider>();
  for (const name of [undefined, ...host.providers]) {
    const found = await host.sandboxes(name).catch((error: unknown) => {
      // One that does not answer is asked again with the next look.
      if (error instanceof EngineError || (error instanceof Fault && name !== undefined)) return null;
      throw error;
    });
    const isSeen =
      found?.provider.alwaysFenced !== true && [...opened.values()].some((one) => one.alwaysFenced !== true);
    if (found !== null && !isSeen) opened.set(found.facts.inUse, found.provider);
  }
  return [...opened.values()];
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

export async function ownSandboxes(ctx: FlowContext): Promise<SandboxView[]> {
  if (ctx.host === undefined || !(await ctx.host.hasLeftovers())) return [];
  const seen = await Promise.all((await openProviders(ctx.host)).map((provider) => provider.list()));
  const running = new Set(seen.flat().flatMap((one) => (one.running ? [one.id] : [])));
  const ids = [...new Set(seen.flat().map(({ id }) => id))].toSorted().filter(isSession);
  const found = ids.map((id) => ({ id, running: running.has(id) }));
  const known = await sandboxSessions(
    ctx.db,
    found.map(({ id }) => id),
  );
  return found.map(({ id, running }) => {
    const session = known.get(id);
    // Of one that another daemon has taken over what is here rests, though its box has this one's label.
    const isHere = session?.home === null || session?.home === ctx.config.dataDir;
    const state = session?.live !== true ? 'left' : running && isHere ? 'running' : 'resting';
    const { org = null, project = null, agent = null } = session ?? {};
    const { provider: kind = null, image = null } = session?.sandbox ?? {};
    const sessionState = session?.state ?? null;
    return { session: id, provider: kind, state, org, project, agent, sessionState, image, daemon: ctx.daemonId };
  });
}

/** Of all daemons that are reached; `unreachable`: hosts of the others. */
export async function listSandboxes(
  ctx: FlowContext,
  path: string,
  on: ForwardedRequest | undefined,
): Promise<{ readonly items: readonly SandboxView[]; readonly unreachable: readonly string[] }> {
  const own = await ownSandboxes(ctx);
  if (on === undefined) return { items: own, unreachable: [] };
  const peers = await sessionPeers(ctx.db, ctx.daemonId);
  const asked = await askAll<{ items: SandboxView[] }>(ctx, peers, { method: 'GET', path }, on);
  return { items: [...own, ...asked.answers.flatMap(({ items }) => items)], unreachable: asked.unreachable };
}

/** Ends what no live session owns, on this host. Gives the sessions whose sandboxes they were. */
export const reapOwn = (ctx: FlowContext): Promise<string[]> =>
  reap(ctx, async (ids) => {
    const live = await liveSessions(ctx.db, ids.filter((id) => isSession(sessionOf(id))).map(sessionOf));
    // What is called by no session's id is not ours to remove.
    return new Set(ids.filter((id) => live.has(sessionOf(id)) || !isSession(sessionOf(id))));
  });

/** As `reapOwn`, of sessions that have ended alone, but for those that a host is still at. */
export const reapEnded = (ctx: FlowContext, held: ReadonlySet<string>): Promise<string[]> =>
  reap(ctx, async (ids) => {
    const ended = await endedSessions(ctx.db, ids.filter((id) => isSession(sessionOf(id))).map(sessionOf));
    return new Set(ids.filter((id) => !ended.has(sessionOf(id)) || held.has(sessionOf(id))));
  });

async function reap(
  ctx: FlowContext,
  owned: (ids: readonly string[]) => Promise<ReadonlySet<string>>,
): Promise<string[]> {
  if (ctx.host === undefined || !(await ctx.host.hasLeftovers())) return [];
  // An engine first: once the files on this machine are gone, nothing here tells whose its boxes were.
  const all = (await openProviders(ctx.host)).toSorted((a, b) => Number(b.alwaysFenced) - Number(a.alwaysFenced));
  const gone = new Set<string>();
  const failures: unknown[] = [];
  const left = new Set<string>();
  const failed = (id: string, error: unknown): void => {
    left.add(id);
    ctx.runtime.log.warn({ sandbox: id, err: error }, 'host.sandbox_not_reaped');
  };
  for (const provider of all) {
    // What tells whose a box is stays as long as its engine may have it.
    if (!provider.alwaysFenced && failures.length > 0) break;
    try {
      const removed = await provider.reap(async (ids) => new Set([...(await owned(ids)), ...left]), failed);
      for (const id of removed) gone.add(id);
    } catch (error) {
      failures.push(error);
    }
  }
  const removed = [...gone];
  const reaped = ctx.metrics.counter(
    'svc_sandbox_reaped_total',
    'Sandboxes that were ended because no live session owns them',
  );
  if (removed.length > 0) {
    reaped.inc(removed.length);
    ctx.runtime.log.info({ sandboxes: removed }, 'host.sandboxes_reaped');
  }
  if (failures.length > 0) throw failures[0];
  return removed;
}

/** As `reapOwn`, on all daemons that are reached. The entry of the audit is committed before anything is ended. */
export async function reapSandboxes(
  ctx: FlowContext,
  path: string,
  on: ForwardedRequest | undefined,
  actor: Actor,
): Promise<{ readonly reaped: readonly string[]; readonly unreachable: readonly string[] }> {
  await ctx.db.tx(async (tx) =>
    recordAudit(tx, {
      orgId: await firstOrgId(tx),
      projectId: null,
      principal: actor,
      action: 'sandboxes.reaped',
      detail: { daemon: ctx.daemonId },
    }),
  );
  const own = await reapOwn(ctx);
  if (on === undefined) return { reaped: own, unreachable: [] };
  const peers = await sessionPeers(ctx.db, ctx.daemonId);
  const asked = await askAll<{ reaped: string[] }>(ctx, peers, { method: 'POST', path, body: {} }, on);
  return { reaped: [...own, ...asked.answers.flatMap(({ reaped }) => reaped)], unreachable: asked.unreachable };
}
