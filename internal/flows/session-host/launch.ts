// Brings a claimed session up: secrets, sandbox, mounts, setup, harness, tools. What can never succeed is a Fault, and the
// session fails with its text; what may succeed later is any other error, and it is tried again. Everything that was
// brought up for a launch that fails is taken down here.

import { createHash } from 'node:crypto';
import { connectHarness, type HarnessConnection, HarnessFailure, planLaunch } from '../../adapters/harness/harness.ts';
import type { HarnessListener, LaunchPlan } from '../../adapters/harness/types.ts';
import type {
  Sandbox,
  SandboxChanges,
  SandboxProvider,
  SandboxSpec,
  SandboxWatch,
  SetupCache,
} from '../../adapters/sandbox/sandbox.ts';
import { type ClaimedSession, forgetSandbox, moveSession } from '../../adapters/store/sessions/hosts.ts';
import { type LaunchFacts, readLaunchFacts } from '../../adapters/store/sessions/launch.ts';
import { failpoint } from '../../base/failpoint.ts';
import { Fault } from '../../domain/fault.ts';
import type { ModelSpec } from '../../domain/spec.ts';
import { mcpServerNames } from '../../domain/tool-names.ts';
import { type FlowContext, sealingOf } from '../context.ts';
import { placeholderOf, resolveSecrets } from '../secrets/secrets.ts';
import { aliasSegment, sessionAliases } from '../sessions/sessions.ts';
import type { HostPorts, Preset } from '../host-ports.ts';
import { channelPorts, type ModelBudget, openGit, openModelRoute, openTools } from './channels.ts';
import { environmentOf, secretUses, systemPromptOf } from './environment.ts';
import type { Semaphore } from '../../base/semaphore.ts';
import type { Mask } from './mask.ts';
import { artifactsPath, Leavings } from './leavings.ts';
import { missingKey } from './model-keys.ts';
import { placeOf } from './place.ts';
import { checkInjections, networkOf, openEdge } from './network.ts';
import { checkCeilings, checkImage, imageOf, imageSpec, notEnforcedOf } from './ceilings.ts';
import { effortOf, modelOf } from './model.ts';
import { provision } from './provision.ts';
import { isRestored, keepWork } from './snapshots.ts';
import { StageWatch } from './stage-watch.ts';
import { watchWire } from './wire.ts';

const listedWithinMs = 30_000;

export interface Launched {
  readonly connection: HarnessConnection;
  readonly money: ModelBudget;
  readonly sandbox: Sandbox;
  readonly leavings: Leavings;
  /** What it holds is kept for another daemon, once its harness has ended. */
  keepWork(): void;
  /** True where the conversation could not be resumed and the harness begins anew. */
  readonly isAmnesic: boolean;
  /** Ends the process and what was opened for it; the sandbox's files stay. Safe again. */
  down(): Promise<void>;
}

/** A program that is not there now and may be later: the session waits for it. */
export class ProgramMissing extends Error {
  readonly waitsFor: 'harness' | 'key';

  constructor(message: string, waitsFor: 'harness' | 'key' = 'harness') {
    super(message);
    this.waitsFor = waitsFor;
  }
}

const lastWordsChars = 400;

/** An error's message, and of a harness that went away the last that it said. */
export function failureText(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const said = error instanceof HarnessFailure ? error.stderrTail.trim() : '';
  if (said === '') return error.message;
  return `${error.message}; it said: ${said.slice(-lastWordsChars).replace(/\s+/g, ' ')}`;
}

type Stop = () => Promise<void> | void;

export interface LaunchRequest {
  readonly session: ClaimedSession;
  readonly listener: HarnessListener;
  /** Told what must not be repeated. */
  readonly mask: Mask;
  /** Hears when a spend cap is reached. */
  readonly onCapped: () => void;
  /** Through which harnesses start. */
  readonly gate: Semaphore;
  /** Ends the launch early: what it has started is taken down at once. */
  readonly signal: AbortSignal;
}

/**
 * Launches. Throws Fault for what no retry mends, ProgramMissing, Capped, else an error that may pass; where the signal
 * ends it, whatever it was at.
 */
export async function launch(ctx: FlowContext, ports: HostPorts, request: LaunchRequest): Promise<Launched> {
  const { session, signal } = request;
  const stops: Stop[] = [];
  const takeDown = async (): Promise<void> => {
    for (let stop = stops.pop(); stop !== undefined; stop = stops.pop()) {
      try {
        await stop();
      } catch (error) {
        ctx.runtime.log.warn({ err: error, sessionId: session.sessionId }, 'session.teardown_failed');
      }
    }
  };
  // One at a time, and again for what was opened meanwhile.
  let downing: Promise<void> = Promise.resolve();
  const down = (): Promise<void> => (downing = downing.then(takeDown));
  const onAbort = (): void => void down();
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    signal.throwIfAborted();
    return { ...(await bringUp({ ...request, ctx, ports, stops })), down };
  } catch (error) {
    await down();
    throw error;
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}

interface Launching extends LaunchRequest {
  readonly ctx: FlowContext;
  readonly ports: HostPorts;
  readonly stops: Stop[];
}

async function bringUp(of: Launching): Promise<Omit<Launched, 'down'>> {
  const { ctx, ports, session, signal, mask } = of;
  const facts = await readLaunchFacts(ctx.db, session.sessionId);
  if (facts === undefined) throw new Fault('unprocessable', 'revision-gone', 'The agent revision is gone.');
  const { spec, environment } = facts;
  if (environment === null) {
    throw new Fault('unprocessable', 'environment-gone', `Environment ${spec.environment} is not there any more.`);
  }
  checkCeilings(ctx, facts, environment);
  const preset = await ports.preset(environment.image.name);
  const program = await ports.program(spec.harness, preset);
  if ('missing' in program) throw new ProgramMissing(program.missing);
  const model = modelOf(ctx, spec);
  // An adapter does nothing without its model; what a configured command needs nobody knows.
  const noKey = program.installed ? await missingKey(ctx, facts.project, model.provider) : undefined;
  if (noKey !== undefined) throw new ProgramMissing(`${noKey.message}; ${noKey.hint}`, 'key');
  const { provider: sandboxes, facts: engine } = await ports.sandboxes(preset.provider);
  const stage = await openStage(of, facts, { sandboxes, model, preset, readOnlyPaths: program.readOnlyPaths });
  const { sandbox, money } = stage;
  const { cwd, notes } = await provision(ctx, { ports, session, facts, preset, ...stage, signal });
  signal.throwIfAborted();
  const leavings = new Leavings(ctx, { session, sandbox, mounts: spec.mounts, mask });
  let isKept = false;
  // Before the sandbox is stopped, and after its harness is.
  of.stops.push(() => (isKept ? keepWork(ctx, { session, project: facts.project, sandbox }) : undefined));
  of.stops.push(() => leavings.now());
  ports.places.set(session.sessionId, placeOf({ ...stage, cwd, mask }));
  of.stops.push(() => void ports.places.delete(session.sessionId));
  failpoint('session.provisioned');

  const token = ctx.runtime.randomBytes(32).toString('base64url');
  mask.hide([token]);
  const plan = planLaunch({
    harness: spec.harness,
    toolsToken: token,
    model: { provider: model.provider, id: model.id, baseUrl: money.baseUrl, keyed: money.keyed },
    effort: effortOf(ctx, spec, model),
    ...systemPromptOf(facts, session),
    approvals: environment.approvals,
    home: sandbox.home,
    asRoot: runsAsRoot(sandbox),
    isolated: sandboxes.capabilities.isolation !== 'none',
    installed: program.installed,
  });
  const directories = [...plan.directories, sandbox.pathIn(artifactsPath)];
  const made = await sandbox.run({ command: ['mkdir', '-p', ...directories], timeoutMs: 10_000, signal });
  if (made.code !== 0) throw new Error(`the sandbox cannot make a directory: ${made.output.trim()}`);
  const moved = await moveSession(ctx.db, session, ['provisioning'], 'starting', {
    tokenHash: createHash('sha256').update(token).digest(),
    sandboxHome: homeOf(ctx),
    sandbox: {
      provider: sandbox.provider,
      isolation: sandboxes.capabilities.isolation,
      ...(engine.version !== undefined && { runtime: engine.version }),
      ...imageOf(preset, sandboxes.capabilities, sandbox),
      fenced: sandbox.fenced,
      notEnforced: notEnforcedOf({ ...stage, preset, capabilities: sandboxes.capabilities }),
      notes,
    },
  });
  if (!moved) throw new Error('the session is not this host’s any more');
  const start = starter(of, { ...stage, plan, argv: program.argv, cwd, secrets: [token, ...stage.masked] });
  const opened = await converse(of, facts, {
    start,
    authorization: plan.toolsAuthorization,
    origin: stage.origin,
    cwd,
  });
  return { ...opened, money, sandbox, leavings, keepWork: () => void (isKept = true) };
}

interface Stage {
  readonly sandbox: Sandbox;
  readonly isFresh: boolean;
  readonly money: ModelBudget;
  /** Where its tools are, as it sees them. */
  readonly origin: string;
  /** Where its git reaches the mounts; undefined where there are none. */
  readonly gitUrl: string | undefined;
  readonly env: Readonly<Record<string, string>>;
  /** Values that must not show. */
  readonly masked: readonly string[];
  readonly cache: SetupCache;
  readonly networkEnv: Readonly<Record<string, string>>;
  /** Secrets that are to be injected stand in its environment. */
  readonly isInline: boolean;
  readonly watch: StageWatch;
}

/** What a harness stands on: secrets, the sandbox, and its ways to model and tools. */
async function openStage(
  of: Launching,
  facts: LaunchFacts,
  given: {
    readonly sandboxes: SandboxProvider;
    readonly model: ModelSpec;
    readonly preset: Preset;
    readonly readOnlyPaths: readonly string[];
  },
): Promise<Stage> {
  const { ctx, ports, session, signal, stops, mask, onCapped } = of;
  const { sandboxes, model, preset, readOnlyPaths } = given;
  checkImage(sandboxes, preset);
  const network = networkOf(ctx, ports, facts, sandboxes);
  const mode = network.hasEdge ? 'edge-injection' : 'env';
  const use = { session: session.sessionId, mode } as const;
  const secrets = await resolveSecrets(ctx, facts.project, secretUses(facts), use);
  stops.push(() => secrets.wipe());
  const { injections } = secrets;
  checkInjections(network, injections);
  const placeholders = new Set(injections.map(({ name }) => placeholderOf(name)));
  const delivered = [...secrets.env.values()].map(String).filter((value) => !placeholders.has(value));
  const values = [...delivered, ...injections.flatMap(({ value, raw }) => [String(value), String(raw)])];
  mask.hide(values);
  const watch = new StageWatch(ctx, session, sandboxes.name);
  const { sandbox, isFresh } = await watch.staged(async (onStage) => {
    const asked = { readOnlyPaths, fenced: network.fenced, preset, onStage };
    const opened = await openSandbox(of, sandboxes, facts, asked);
    const restored = opened.isFresh && (await isRestored(ctx, session, facts, opened.sandbox));
    watch.path = restored ? 'restored' : opened.isFresh ? 'cold' : 'reopened';
    return { ...opened, isFresh: opened.isFresh && !restored };
  });
  failpoint('session.sandbox-open');
  await watchWire(ctx, session, sandbox);
  const money = await openModelRoute(ctx, { session, spec: facts.spec, model, sandbox, mask, stops, onCapped });
  const origin = await openTools(ports.tools(), sandbox, stops);
  const networkEnv = await openEdge(ctx, { network, sessionId: session.sessionId, injections, sandbox, stops });
  const artifacts = { SVC_ARTIFACTS: sandbox.pathIn(artifactsPath) };
  const env = { ...environmentOf(ctx, session, facts, secrets.env), ...artifacts, ...networkEnv };
  const gitUrl = await openGit(ctx, { session, spec: facts.spec, project: facts.project, sandbox, stops });
  signal.throwIfAborted();
  const cache = await ports.setupCache(sealingOf(ctx));
  const masked = values.filter((value) => value.length > 3);
  const isInline = secrets.inline.length > 0;
  return { sandbox, isFresh, money, origin, gitUrl, env, networkEnv, isInline, masked, cache, watch };
}

/** Starts the harness, each time in a new process in place of the one before. */
function starter(
  of: Launching,
  given: {
    readonly sandbox: Sandbox;
    readonly plan: LaunchPlan;
    readonly argv: readonly string[];
    readonly env: Readonly<Record<string, string>>;
    readonly cwd: string;
    readonly secrets: readonly string[];
  },
): () => Promise<HarnessConnection> {
  const { ctx, session, listener, signal, stops } = of;
  const { sandbox, plan, argv, env, cwd, secrets } = given;
  let running: (() => Promise<void>) | undefined;
  return async () => {
    await running?.();
    const child = await sandbox.spawn({ argv, env: { ...env, ...plan.env }, cwd });
    let connection: HarnessConnection | undefined;
    // The process first: what its last words wait for may be away.
    running = async () => {
      await child.kill();
      await connection?.close();
    };
    stops.push(running);
    signal.throwIfAborted();
    failpoint('session.spawned');
    const log = ctx.runtime.log.child({ sessionId: session.sessionId });
    connection = await connectHarness({ process: child, plan, listener, log, secrets });
    return connection;
  };
}

interface Conversing {
  /** A new process of the harness. */
  readonly start: () => Promise<HarnessConnection>;
  /** Of requests to its tool servers. */
  readonly authorization: string;
  readonly origin: string;
  readonly cwd: string;
}

/** Opens or resumes the conversation, and waits until every tool server has been listed. */
async function converse(
  of: Launching,
  facts: LaunchFacts,
  { start, authorization, origin, cwd }: Conversing,
): Promise<Pick<Launched, 'connection' | 'isAmnesic'>> {
  const { ctx, ports, session } = of;
  const { sessionId } = session;
  const aliases = sessionAliases(facts.spec, facts.hasChecks);
  const named = mcpServerNames(aliases);
  if (!named.ok) {
    const sharing = named.collisions.map((group) => group.join(' and ')).join('; ');
    throw new Fault('unprocessable', 'tool-names', `Tool aliases look alike to the harness: ${sharing}.`);
  }
  const mcpServers = aliases.map((alias) => ({
    name: named.names.get(alias) ?? alias,
    url: `${origin}/api/v1/sessions/${sessionId}/mcp/${aliasSegment(alias)}`,
    headers: { authorization },
  }));
  const opened = await of.gate.run(async () => {
    of.signal.throwIfAborted();
    ports.listings.forget(sessionId);
    const conversation = await openConversation(session, start, { cwd, mcpServers });
    const silent = await ports.listings.wait(sessionId, aliases, listedWithinMs);
    if (silent.length > 0) throw new Error(`the harness has not listed its tools: ${silent.join(', ')}`);
    return conversation;
  });
  of.signal.throwIfAborted();
  failpoint('session.opened');
  const isUp = await moveSession(ctx.db, session, ['starting'], 'idle', {
    reason: null,
    harnessSession: opened.harnessSession,
  });
  if (!isUp) throw new Error('the session is not this host’s any more');
  return { connection: opened.connection, isAmnesic: opened.isAmnesic };
}

/** The conversation that the session had, or where the harness has it no more, one that begins anew in a new process. */
async function openConversation(
  { harnessSession }: ClaimedSession,
  start: () => Promise<HarnessConnection>,
  request: Parameters<HarnessConnection['open']>[0],
): Promise<Pick<Launched, 'connection' | 'isAmnesic'> & { readonly harnessSession: string }> {
  if (harnessSession !== null) {
    const connection = await start();
    try {
      const { sessionId } = await connection.resume(harnessSession, request);
      return { connection, isAmnesic: false, harnessSession: sessionId };
    } catch (error) {
      // A connection that refused is over.
      if (!(error instanceof HarnessFailure) || error.kind !== 'cannot_resume') throw error;
    }
  }
  const connection = await start();
  const { sessionId } = await connection.open(request);
  return { connection, isAmnesic: harnessSession !== null, harnessSession: sessionId };
}

/** Programs of a box are its user's, whoever the daemon is. */
const runsAsRoot = (sandbox: Sandbox): boolean => sandbox.image === undefined && process.getuid?.() === 0;

const homeOf = (ctx: FlowContext): string => ctx.config.dataDir;

async function openSandbox(
  of: Launching,
  sandboxes: SandboxProvider,
  facts: LaunchFacts,
  given: Pick<SandboxSpec, 'readOnlyPaths' | 'fenced'> & { readonly preset: Preset } & SandboxWatch,
): Promise<{ readonly sandbox: Sandbox; readonly isFresh: boolean }> {
  const { ctx, session, stops } = of;
  const { readOnlyPaths, fenced, preset, onStage } = given;
  const watch: SandboxWatch = onStage === undefined ? {} : { onStage };
  const { resources } = facts.environment ?? {};
  const changes: SandboxChanges = {
    fenced: fenced === true,
    channels: Object.entries(channelPorts).map(([name, port]) => ({ name, port })),
    readOnlyPaths: readOnlyPaths ?? [],
    ...imageSpec(sandboxes, facts, preset),
    epoch: Number(session.epoch),
    ...(resources !== undefined && { resources }),
  };
  const isKnown = session.sandboxHome === homeOf(ctx);
  const known = isKnown ? await sandboxes.reopen(session.sessionId, changes, watch) : null;
  // One that is being made must not be taken for one that is ready, whatever happens meanwhile.
  if (known === null && isKnown) await forgetSandbox(ctx.db, session);
  const sandbox = known ?? (await sandboxes.create({ id: session.sessionId, ...changes }, watch));
  const live = ctx.metrics.gauge('svc_sandbox_live', 'Sandboxes of this daemon that sessions run in', ['provider']);
  live.inc({ provider: sandbox.provider });
  stops.push(() => live.dec({ provider: sandbox.provider }));
  stops.push(() => sandbox.stop());
  return { sandbox, isFresh: known === null };
}
