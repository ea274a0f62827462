// Git of a session's mounts (docs/reference/tools.md#the-code-host): which repository an address means, whether the mount
// lets it be read or written, and the credential for the way on. A push is a write like any other: its row stands before it
// is sent.

import type { AgentSpec } from '../../domain/spec.ts';
import type { Json, JsonObject } from '../../domain/json.ts';
import { outsideFault } from '../../domain/outside.ts';
import { codehostOf, codehosts, gitUrlOf } from '../codehost-mounts.ts';
import type { FlowContext, ProjectRef } from '../context.ts';
import { type HeldToken, installationToken, permissionText, type TokenRequest } from '../installation-token.ts';
import { type Call, performWrite, refusedBefore } from '../outbox/outbox.ts';
import { isSameRepository, mountsOf, permissionsFor, type Want } from './confine.ts';

export interface GitSession {
  readonly sessionId: string;
  readonly agent: string;
  readonly project: ProjectRef;
  readonly spec: Pick<AgentSpec, 'mounts'>;
}

export interface GitUpstream {
  /** Address of the repository at the code host. */
  readonly upstream: string;
  /** Value of the Authorization header; undefined for a public repository. `refused`: the one that was not taken. */
  authorization(refused?: HeldToken): Promise<(HeldToken & { readonly header: string }) | undefined>;
  readonly connectionId: string | null;
  /** The permissions that it is asked with, in words; empty for a public repository. */
  readonly needs: string;
  /** What a reader of the outbox needs to look at it. */
  readonly probe: JsonObject;
}

const wantsByService: { readonly [service: string]: readonly Want[] } = {
  fetch: ['contents:read'],
  push: ['contents:write', 'workflows:write?'],
};

/**
 * The way to a mount's repository. Undefined where no mount is that repository. Throws Fault `capability-missing`, whose
 * message is for the person at the terminal, or `connection-inactive`.
 */
export async function gitUpstream(
  ctx: FlowContext,
  of: GitSession,
  { owner, repo, service }: { readonly owner: string; readonly repo: string; readonly service: 'fetch' | 'push' },
): Promise<GitUpstream | undefined> {
  const named = of.spec.mounts.filter((mount) => isSameRepository(mount.repository, `${owner}/${repo}`));
  const [first] = named;
  if (first === undefined) return undefined;
  const hosts = await codehosts(ctx, of.project);
  const wants = wantsByService[service] ?? [];
  for (const mount of mountsOf(of.spec, owner, repo)) {
    const permissions = permissionsFor(mount, wants);
    if (permissions === undefined) continue;
    const connection = codehostOf(mount, hosts);
    const { installationId } = mount.auth;
    const request: TokenRequest = { connection, installationId, repository: mount.repository, permissions };
    return {
      upstream: gitUrlOf(ctx, connection, mount.repository),
      connectionId: connection.id,
      needs: permissionText(permissions),
      probe: { repository: mount.repository, permissions, ...(installationId !== undefined && { installationId }) },
      async authorization(refused) {
        const held = await installationToken(ctx, request, refused);
        return { ...held, header: `Basic ${Buffer.from(`x-access-token:${held.token}`).toString('base64')}` };
      },
    };
  }
  if (service === 'fetch' && first.auth.kind === 'none') {
    const [host] = hosts.length === 1 ? hosts : [];
    const upstream = gitUrlOf(ctx, host, first.repository);
    return { upstream, connectionId: null, needs: '', probe: {}, authorization: async () => undefined };
  }
  const needs = service === 'fetch' ? 'contents: read' : 'contents: write';
  throw outsideFault('capability-missing', `the mount of ${first.repository} does not have the capability ${needs}`);
}

const callOf = (of: GitSession, connectionId: string | null): Call => ({
  project: of.project,
  sessionId: of.sessionId,
  provider: 'codehost',
  connectionId,
  alias: 'git',
  tool: 'push',
});

/** A push that is refused before anything is sent is a row all the same. */
export function noteRefusedPush(ctx: FlowContext, of: GitSession, code: string): Promise<void> {
  return refusedBefore(ctx, callOf(of, null), { write: true, code });
}

/**
 * Sends a push, once. `refs`: name → object that it is to have, null where it is deleted. `send` throws Fault or
 * OutcomeUnknown; what is found then counts as sent. Throws Fault.
 */
export async function sendPush(
  ctx: FlowContext,
  of: GitSession,
  push: { readonly way: GitUpstream; readonly refs: { readonly [name: string]: string | null }; send(): Promise<Json> },
): Promise<Json> {
  return performWrite(ctx, {
    ...callOf(of, push.way.connectionId),
    actor: { kind: 'session', id: of.sessionId, name: of.agent },
    input: push.refs,
    run: async (step) => ({
      answer: await step({ probe: { ...push.way.probe, kind: 'push', refs: push.refs }, last: true }, () =>
        push.send(),
      ),
    }),
  });
}
