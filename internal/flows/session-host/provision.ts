// What a fresh sandbox is given before its harness starts (docs/reference/compile.md#environments and #mounts): the image's
// build steps, mounts, cloned outside so that no token enters, and the setup steps. A sandbox that is opened again has them
// already.

import {
  buildImage,
  mountRepository,
  runSetup,
  type Sandbox,
  type SetupCache,
} from '../../adapters/sandbox/sandbox.ts';
import type { ClaimedSession } from '../../adapters/store/sessions/hosts.ts';
import type { LaunchFacts } from '../../adapters/store/sessions/launch.ts';
import type { FlowContext } from '../context.ts';
import type { HostPorts, Preset } from '../host-ports.ts';
import { markMounted } from './result-collector.ts';
import { isCloned, mountRequests } from './mounts.ts';
import type { StageWatch } from './stage-watch.ts';

export interface Provisioned {
  /** Where the harness starts, as the sandbox sees it. */
  readonly cwd: string;
  /** What a person should know of it. */
  readonly notes: readonly string[];
}

export interface Provisioning {
  readonly ports: HostPorts;
  readonly session: ClaimedSession;
  readonly facts: LaunchFacts;
  readonly preset: Preset;
  readonly sandbox: Sandbox;
  readonly cache: SetupCache;
  readonly isFresh: boolean;
  /** Where its git reaches the mounts. */
  readonly gitUrl: string | undefined;
  readonly env: Readonly<Record<string, string>>;
  /** Of `env`, what leads to the network. */
  readonly networkEnv: Readonly<Record<string, string>>;
  readonly masked: readonly string[];
  readonly signal: AbortSignal;
  readonly watch: StageWatch;
}

/** Throws Fault for what no retry mends: a ref or a repository that is not there, a step that fails. */
export async function provision(ctx: FlowContext, of: Provisioning): Promise<Provisioned> {
  const { facts, sandbox } = of;
  const { workingDirectory } = facts.spec;
  const notes: string[] = [];
  // An image is the engine's, and what was kept of a session may go on where nobody has built it yet.
  if (of.isFresh || sandbox.build !== undefined) await of.watch.steps(() => prepareImage(ctx, of));
  if (of.isFresh) {
    await of.watch.timed('mounting', () => mountAll(ctx, of, notes));
  }
  notes.push(...(await nameOrigins(ctx, of)));
  const cwd = workingDirectory === undefined ? sandbox.workDir : await sandbox.makeDirectory(workingDirectory);
  if (of.isFresh) await of.watch.steps(() => setUp(ctx, of));
  // What a step changed of a clone's settings comes with the origin that the session had in which it ran.
  if (of.isFresh && facts.environment?.setup.some((step) => step.cache !== undefined)) await nameOrigins(ctx, of);
  return { cwd, notes };
}

async function mountAll(ctx: FlowContext, of: Provisioning, notes: string[]): Promise<void> {
  const { facts, sandbox, session, signal } = of;
  const kept = facts.spec.mounts.some(isCloned) ? await of.ports.mirrors() : null;
  for (const request of await mountRequests(ctx, facts.project, facts.spec.mounts, session.mountRefs)) {
    const mounted = await mountRepository(sandbox, request, {
      allowPrivateNetwork: ctx.config.allowPrivateNetwork,
      path: of.ports.path,
      ...(kept !== null && { mirrors: { kept, scope: facts.project.id } }),
      signal,
    });
    await markMounted(sandbox, request.mountPath);
    if (mounted.isMoved) notes.push(`${request.mountPath} is at ${mounted.path}: this sandbox cannot show it there`);
  }
}

const originMs = 20_000;
/** Tells every clone where its origin is now: the port is the session's, and another one after each launch. */
async function nameOrigins(
  ctx: FlowContext,
  { facts, sandbox, session, gitUrl, signal }: Provisioning,
): Promise<string[]> {
  const notes: string[] = [];
  for (const mount of gitUrl === undefined ? [] : facts.spec.mounts.filter(isCloned)) {
    const url = `${gitUrl}/${mount.repository}.git`;
    const command = ['git', '-C', sandbox.pathIn(mount.mountPath), 'config', 'remote.origin.url', url];
    const set = await sandbox.run({ command, timeoutMs: originMs, signal });
    if (set.code === 0) continue;
    ctx.runtime.log.warn(
      { sessionId: session.sessionId, mountPath: mount.mountPath, output: set.output },
      'git.no_origin',
    );
    notes.push(`${mount.mountPath}: git in this sandbox could not be told where its origin is`);
  }
  return notes;
}

const scopeOf = ({ facts }: Provisioning): string => `${facts.project.id}/${facts.spec.environment}`;
/** By content where there is an image, else by name. */
const imageOf = ({ preset, sandbox }: Provisioning): string =>
  sandbox.image?.digest ?? preset.rootfs?.digest ?? preset.name;

async function prepareImage(ctx: FlowContext, of: Provisioning): Promise<void> {
  const { facts, sandbox, cache, signal } = of;
  const { environment } = facts;
  if (environment === null) return;
  const plain = Object.entries(environment.env).filter((pair): pair is [string, string] => typeof pair[1] === 'string');
  await buildImage(sandbox, {
    cache,
    // Steps run once for a project, whatever its environments are called.
    scope: facts.project.id,
    now: ctx.runtime.now(),
    signal,
    onStep: of.watch.onStep(),
    image: imageOf(of),
    steps: environment.steps,
    env: Object.fromEntries(plain),
    networkEnv: of.networkEnv,
  });
}

async function setUp(ctx: FlowContext, of: Provisioning): Promise<void> {
  const { facts, sandbox, cache, env, masked, signal } = of;
  const { environment, spec } = facts;
  if (environment === null) return;
  await runSetup(sandbox, {
    cache,
    scope: `${scopeOf(of)}/${imageOf(of)}`,
    now: ctx.runtime.now(),
    signal,
    onStep: of.watch.onStep(),
    setup: environment.setup,
    ...(environment.setupCache !== undefined && { setupCache: environment.setupCache }),
    env,
    masked,
    ...(spec.workingDirectory !== undefined && { workingDirectory: spec.workingDirectory }),
    clones: spec.mounts.filter(isCloned).map(({ mountPath }) => mountPath),
  });
}
