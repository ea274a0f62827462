// Required secrets exist and are live when an apply names them (docs/reference/compile.md#environments, Webhook endpoint).

import type { EnvMap, Tool } from '../../domain/spec.ts';
import { messageOf } from '../../domain/messages.ts';
import type { Facts } from './facts.ts';
import type { Report } from './report.ts';
import type { DesiredResource } from './types.ts';

interface SecretAt {
  readonly resource: DesiredResource;
  readonly path: readonly (string | number)[];
  readonly name: string;
}

/** The words are those of a launch that lacks the secret (docs/reference/messages.md). */
function checkSecret(facts: Facts, at: SecretAt, report: Report): void {
  if (facts.current.liveSecrets.has(at.name)) return;
  const expired = facts.current.expiredSecrets.has(at.name);
  report({
    resource: at.resource,
    path: at.path,
    code: 'secret-missing',
    message: expired ? messageOf('secretExpired', at.name) : messageOf('secretNotFound', at.name),
    hint: expired
      ? `Write a new value with: svc secret set ${at.name}`
      : `Set it with: svc secret set ${at.name} (in the project or the organization)`,
  });
}

/** `$secret` references of an agent's or an environment's env; optional ones need not exist. */
export function checkEnv(facts: Facts, resource: DesiredResource, env: EnvMap, report: Report): void {
  for (const [key, value] of Object.entries(env)) {
    if (typeof value === 'string' || value.optional === true) continue;
    checkSecret(facts, { resource, path: ['env', key], name: value.$secret }, report);
  }
}

/** The token of a remote tool with bearer auth. */
export function checkToken(facts: Facts, resource: DesiredResource, alias: string, tool: Tool, report: Report): void {
  if (tool.kind !== 'mcp_remote' || tool.auth.kind !== 'bearer') return;
  checkSecret(facts, { resource, path: ['tools', alias, 'auth', 'token'], name: tool.auth.token.$secret }, report);
}

/**
 * A secret that expires when no launch has used it for a while, behind an endpoint: requests of callers restart no clock, so
 * it expires under them.
 */
export function checkIdleExpiry(
  facts: Facts,
  resource: DesiredResource,
  at: { readonly ordinal: number; readonly endpoint: string; readonly name: string; readonly isOwn: boolean },
  report: Report,
): void {
  if (!facts.current.idleSecrets.has(at.name)) return;
  report({
    resource,
    path: ['triggers', at.ordinal, ...(at.isOwn ? ['auth', 'secretRef'] : ['endpoint'])],
    code: 'endpoint-idle-expiry',
    severity: 'warning',
    message: `Secret ${at.name} of webhook endpoint ${at.endpoint} has an idle expiry, which requests to the endpoint do not restart`,
    hint: `Give it an absolute expiry or none, or write it anew in time: svc secret edit ${at.name}`,
  });
}

/** The secret that a trigger's own `auth` names; an inherited one is the endpoint's affair and shown as its problem. */
export function checkEndpointSecret(
  facts: Facts,
  resource: DesiredResource,
  ordinal: number,
  name: string,
  report: Report,
): void {
  checkSecret(facts, { resource, path: ['triggers', ordinal, 'auth', 'secretRef'], name }, report);
}
