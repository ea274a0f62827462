// Brings a claimed session up: secrets, sandbox, mounts, setup, harness, tools. What can never succeed is a Fault, and the
// session fails with its text; what may succeed later is any other error, and it is tried again. Everything that was
// brought up for a launch that fails is taken down here.

import { sha256Bytes } from '../../base/hash.ts';
import { HarnessFailure, planLaunch } from '../../adapters/harness/harness.ts';
import type { LaunchPlan } from '../../adapters/harness/types.ts';
import type {
  Sandbox,
  SandboxChanges,
  SandboxProvider,
  SandboxSpec,
  SandboxWatch,
  SetupCache,
} from '../../adapters/sandbox/sandbox.ts';
import { forgetSandbox, isAtHome, moveSession } from '../../adapters/store/sessions/hosts.ts';
import { type LaunchFacts, readLaunchFacts } from '../../adapters/store/sessions/launch.ts';
import { failpoint } from '../../base/failpoint.ts';
import { unlessAborted } from '../../base/waits.ts';
import { Fault } from '../../domain/fault.ts';
import type { ModelSpec } from '../../domain/spec.ts';
import { type FlowContext, sealingOf } from '../context.ts';
import type { HostPorts, Preset } from '../host-ports.ts';
import { channelPorts } from './channels.ts';
import { converse, starter } from './converse.ts';
import { systemPromptOf } from './environment.ts';
import { holdSession } from './hold.ts';
import {
  awaitEnd,
  givenUpMs,
  leftToOthersMs,
  untilStop,
  type Launched,
  type Launching,
  type LaunchRequest,
  launchOrStop,
} from './launching.ts';
import { artifactsPath, ResultCollector } from './result-collector.ts';
import { missingKey } from './model-keys.ts';
import { placeOf } from './place.ts';
import { networkOf } from './network.ts';
import { checkCeilings, checkImage, imageOf, imageSpec, notEnforcedOf } from './ceilings.ts';
import { effortOf, modelOf } from './model.ts';
import { provision } from './provision.ts';
import { keptAtEnd, restoredOf } from './snapshots.ts';
import { StageWatch } from './stage-watch.ts';
import { openSecrets, wireSession, type SessionWiring } from './wiring.ts';
import { watchWire } from './wire.ts';

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

/**
 * Launches. Throws Fault for what no retry mends, ProgramMissing, Capped, else an error that may pass; where the signal
 * ends it, whatever it was at.
 */
export const launch = (ctx: FlowContext, ports: HostPorts, request: LaunchRequest): Promise<Launched> =>
  launchOrStop(ctx, ports, request, bringUp);

async function bringUp(of: Launching): Promise<Omit<Launched, 'down'>> {
  const { ctx, ports, session, signal, mask } = of;
  const facts = await readLaunchFacts(ctx.db, session.sessionId);
  if (facts === undefined) throw new Fault('unprocessable', 'revision-gone', 'The agent revision is gone.');
  const { spec, environment, project } = facts;
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
  // An engine that fell silent is waited for as long as somebody wants the session from here.
  const { provider: sandboxes, facts: engine } = await unlessAborted(ports.sandboxes(preset.provider), signal);
  const stage = await openStage(of, facts, { sandboxes, model, preset, readOnlyPaths: program.readOnlyPaths });
  const { sandbox, money } = stage;
  const { cwd, notes } = await provision(ctx, { ports, session, facts, preset, ...stage, signal });
  signal.throwIfAborted();
  const results = new ResultCollector(ctx, { session, sandbox, mounts: spec.mounts, mask });
  const keepWork = keptAtEnd(of, { project, sandbox });
  of.stops.push(() => (of.progress.isStopped ? undefined : untilStop(results.now(), signal, leftToOthersMs.leavings)));
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
  await makeDirectories(of, sandbox, plan);
  const moved = await moveSession(ctx.db, session, ['provisioning'], 'starting', {
    tokenHash: sha256Bytes(token),
    sandboxHome: ports.home,
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
  const lasts = sandboxes.capabilities.survivesRestart;
  const start = starter(of, { ...stage, plan, argv: program.argv, cwd, secrets: [token, ...stage.masked], lasts });
  const { origin, knowsUpTo } = stage;
  const opened = await converse(of, facts, { start, authorization: plan.toolsAuthorization, origin, cwd, knowsUpTo });
  const { connection, isAmnesic, process: harness } = opened;
  const keep = { ...stage, process: harness, provider: sandboxes.name, project: facts.project };
  const leave = await holdSession(of, { ...keep, plan, cwd, results });
  const memory = { isAmnesic, knowsUpTo };
  return { connection, ...memory, money, sandbox, results, keepWork, ...leave };
}

async function makeDirectories({ signal }: Launching, sandbox: Sandbox, plan: LaunchPlan): Promise<void> {
  const directories = [...plan.directories, sandbox.pathIn(artifactsPath)];
  const made = await sandbox.run({ command: ['mkdir', '-p', ...directories], timeoutMs: 10_000, signal });
  if (made.code !== 0) throw new Error(`the sandbox cannot make a directory: ${made.output.trim()}`);
}

interface Stage extends SessionWiring {
  readonly sandbox: Sandbox;
  readonly isFresh: boolean;
  /** Of a snapshot that was put back, the message up to which its harness knows the conversation. */
  readonly knowsUpTo: number | undefined;
  /** Values that must not show. */
  readonly masked: readonly string[];
  readonly cache: SetupCache;
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
  const { ctx, ports, session, signal } = of;
  const { sandboxes, model, preset, readOnlyPaths } = given;
  checkImage(sandboxes, preset);
  const network = networkOf(ctx, ports, facts, sandboxes);
  const secrets = await openSecrets(ctx, of, facts, network);
  const watch = new StageWatch(ctx, session, sandboxes.name);
  const { sandbox, isFresh, restored } = await watch.staged(async (onStage) => {
    const asked = { readOnlyPaths, fenced: network.fenced, preset, onStage };
    const opened = await openSandbox(of, sandboxes, facts, asked);
    const restored = opened.isFresh ? await restoredOf(ctx, session, facts, opened.sandbox) : undefined;
    const isRestored = restored !== undefined;
    watch.path = isRestored ? 'restored' : opened.isFresh ? 'cold' : 'reopened';
    return { ...opened, isFresh: opened.isFresh && !isRestored, restored };
  });
  failpoint('session.sandbox-open');
  await watchWire(ctx, session, sandbox);
  const ways = await wireSession(ctx, ports, { ...of, facts, model, sandbox, network, secrets });
  signal.throwIfAborted();
  const cache = await ports.setupCache(sealingOf(ctx));
  const masked = secrets.values.filter((value) => value.length > 3);
  return {
    ...ways,
    sandbox,
    isFresh,
    knowsUpTo: restored?.saidSeq ?? undefined,
    isInline: secrets.isInline,
    masked,
    cache,
    watch,
  };
}

/** Programs of a box are its user's, whoever the daemon is. */
const runsAsRoot = (sandbox: Sandbox): boolean => sandbox.image === undefined && process.getuid?.() === 0;

async function openSandbox(
  of: Launching,
  sandboxes: SandboxProvider,
  facts: LaunchFacts,
  given: Pick<SandboxSpec, 'readOnlyPaths' | 'fenced'> & { readonly preset: Preset } & SandboxWatch,
): Promise<{ readonly sandbox: Sandbox; readonly isFresh: boolean }> {
  const { ctx, ports, session, stops, signal } = of;
  const { readOnlyPaths, fenced, preset, onStage } = given;
  const watch: SandboxWatch = { signal, ...(onStage !== undefined && { onStage }) };
  const { resources } = facts.environment ?? {};
  const changes: SandboxChanges = {
    fenced: fenced === true,
    channels: Object.entries(channelPorts).map(([name, port]) => ({ name, port })),
    readOnlyPaths: readOnlyPaths ?? [],
    ...imageSpec(sandboxes, facts, preset),
    epoch: Number(session.epoch),
    ...(resources !== undefined && { resources }),
  };
  const isKnown = isAtHome(session.sandboxHome, ports.home);
  const known = isKnown ? await sandboxes.reopen(session.sessionId, changes, watch) : null;
  // One that is being made must not be taken for one that is ready, whatever happens meanwhile.
  if (known === null && isKnown) await forgetSandbox(ctx.db, session);
  const sandbox = known ?? (await sandboxes.create({ id: session.sessionId, ...changes }, watch));
  const live = ctx.metrics.gauge('svc_sandbox_live', 'Sandboxes of this daemon that sessions run in', ['provider']);
  live.inc({ provider: sandbox.provider });
  stops.push(() => live.dec({ provider: sandbox.provider }));
  stops.push(() => awaitEnd(sandbox.stop(), signal, givenUpMs.stop));
  return { sandbox, isFresh: known === null };
}
