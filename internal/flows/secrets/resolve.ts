// What a launch gets for its `$secret` references: values for the environment, placeholders and a plan for the edge.

import {
  takeResolved,
  type Resolution,
  type ResolvedRow,
  type WantedSecret,
} from '../../adapters/store/secrets/secret-resolution.ts';
import { Fault } from '../../domain/fault.ts';
import { messageOf } from '../../domain/messages.ts';
import { type FlowContext, type ProjectRef, sealingOf } from '../context.ts';
import type { EdgeInjection } from '../ports.ts';

/** One `$secret` reference of a launch: of a merged env, or of a remote tool, whose token never enters the sandbox. */
export interface SecretUse {
  readonly variable?: string;
  /** The alias of the tool. */
  readonly tool?: string;
  readonly name: string;
  readonly optional?: boolean;
}

export interface ResolvedSecrets {
  /** By environment variable: a value, or `svc-injected-secret:<name>`. */
  readonly env: ReadonlyMap<string, Buffer>;
  /** For the sandbox's network edge: HTTPS requests to these exact hosts get the header. */
  readonly injections: readonly EdgeInjection[];
  /** Secrets that are to be injected and stand in `env` as they are, because there is no edge. */
  readonly inline: readonly string[];
  /** Overwrites every value; call it once they have been handed over. */
  wipe(): void;
}

/**
 * Resolves the references of one launch in one round trip. Stamps and `secret.access` entries (principal
 * `secret-resolver`) are committed before any value is opened; where they cannot be written, or a required secret is
 * absent, nothing is released. `mode` says whether the sandbox has a network edge that injects (`edge-injection`);
 * without one, injected secrets are delivered like the others. Throws Fault `unprocessable` with the spec's texts
 * (`Secret not found: <name>`, `Secret has expired: <name>`) or for two secrets that claim one host and header.
 */
export async function resolveSecrets(
  ctx: FlowContext,
  project: ProjectRef,
  uses: readonly SecretUse[],
  options: { readonly session: string; readonly mode: 'env' | 'edge-injection' },
): Promise<ResolvedSecrets> {
  const wanted = wantedOf(uses);
  const edge = options.mode === 'edge-injection';
  if (wanted.length === 0) return { env: new Map(), injections: [], inline: [], wipe: () => undefined };
  const resolution = await takeResolved(ctx.db, {
    orgId: project.orgId,
    projectId: project.id,
    wanted,
    sessionId: options.session,
    edge,
    now: ctx.runtime.now(),
  });
  requireAll(wanted, resolution);
  return release(ctx, project, wanted, resolution.sealed, edge);
}

/** What stands in the environment for a secret that is injected. */
export const placeholderOf = (name: string): string => `svc-injected-secret:${name}`;

/** One entry per secret, in the order of first mention; required where any reference requires it. */
function wantedOf(uses: readonly SecretUse[]): WantedSecret[] {
  const byName = new Map<string, { required: boolean; variables: string[]; tools: string[] }>();
  for (const { name, variable, tool, optional } of uses) {
    const entry = byName.get(name) ?? { required: false, variables: [], tools: [] };
    entry.required ||= optional !== true;
    if (variable !== undefined) entry.variables.push(variable);
    if (tool !== undefined) entry.tools.push(tool);
    byName.set(name, entry);
  }
  return [...byName].map(([name, entry]) => ({ name, ...entry }));
}

function requireAll(wanted: readonly WantedSecret[], resolution: Resolution): void {
  const states = new Map(resolution.rows.map((row) => [row.name, row.state]));
  const sealed = new Set(resolution.sealed.map((row) => row.name));
  for (const { name, required } of wanted) {
    if (!required || states.get(name) === 'live') continue;
    if (states.get(name) === 'expired')
      throw new Fault('unprocessable', 'secret-expired', messageOf('secretExpired', name));
    throw new Fault('unprocessable', 'secret-not-found', messageOf('secretNotFound', name));
  }
  const { conflict } = resolution;
  if (conflict !== null) {
    throw new Fault(
      'unprocessable',
      'injection-conflict',
      `Injected secrets ${conflict.a} and ${conflict.b} both claim header ${conflict.header} of host ${conflict.host}`,
    );
  }
  // Deleted between the reading and the lock.
  const gone = wanted.find(({ name, required }) => required && !sealed.has(name));
  if (gone !== undefined) throw new Fault('unprocessable', 'secret-not-found', messageOf('secretNotFound', gone.name));
}

function release(
  ctx: FlowContext,
  project: ProjectRef,
  wanted: readonly WantedSecret[],
  sealed: readonly ResolvedRow[],
  edge: boolean,
): ResolvedSecrets {
  const env = new Map<string, Buffer>();
  const injections: EdgeInjection[] = [];
  const inline: string[] = [];
  const wipe = (): void => {
    for (const value of env.values()) value.fill(0);
    for (const { value, raw } of injections) for (const held of [value, raw]) held.fill(0);
  };
  const variables = new Map(wanted.map((one) => [one.name, one.variables]));
  const { sealer } = sealingOf(ctx);
  try {
    for (const row of sealed) {
      const { name, injection } = row;
      // The token of a remote tool is opened at each call, where it is added.
      if (variables.get(name)?.length === 0) continue;
      const projectId = row.projectId ?? undefined;
      const value = sealer.open(row, { orgId: project.orgId, projectId, name, use: 'secret' });
      const isInjected = edge && injection !== null;
      for (const variable of variables.get(name) ?? []) {
        env.set(variable, isInjected ? Buffer.from(placeholderOf(name)) : Buffer.from(value));
      }
      if (isInjected) {
        const { hosts, header, format } = injection;
        injections.push({ name, hosts, header, value: headerValue(name, format, value), raw: Buffer.from(value) });
      } else if (injection !== null) inline.push(name);
      value.fill(0);
    }
  } catch (error) {
    wipe();
    throw error;
  }
  return { env, injections, inline, wipe };
}

/** The text of the header. A value with a line break would be two headers. */
function headerValue(name: string, format: string | undefined, value: Buffer): Buffer {
  if (value.some((byte) => (byte < 0x20 && byte !== 0x09) || byte === 0x7f)) {
    throw new Fault(
      'unprocessable',
      'injection-value',
      `Secret ${name} cannot be injected: its value holds a line break or another control character`,
    );
  }
  if (format === undefined) return Buffer.from(value);
  const parts = format.split('{value}').flatMap((part, index) => [...(index === 0 ? [] : [value]), Buffer.from(part)]);
  return Buffer.concat(parts);
}
