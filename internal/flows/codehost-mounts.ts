// Which connection stands behind a mount (docs/reference/compile.md#mounts): the project's code host, or the one that the mount's
// installation names.

import { sandboxesSettings } from '../base/config/sandbox-settings.ts';
import { cloneUrl } from '../adapters/providers/codehost/codehost.ts';
import { type SealedConnection, usableCodehosts } from '../adapters/store/secrets/credentials.ts';
import { Fault } from '../domain/fault.ts';
import { isLoopback } from '../domain/loopback.ts';
import type { Mount } from '../domain/spec.ts';
import type { FlowContext, ProjectRef } from './context.ts';
import { withoutEnd } from '../domain/text.ts';

/** A setting as text; numbers are identifiers that somebody did not quote. */
export const settingText = (value: unknown): string | undefined =>
  typeof value === 'string' && value !== '' ? value : typeof value === 'number' ? String(value) : undefined;

/** Where the API of a connection's code host answers: its own setting, else the installation's. */
export const apiUrlOf = (ctx: FlowContext, connection: SealedConnection): string | undefined =>
  settingText(connection.config['apiUrl']) ?? ctx.outbox?.codehostApiUrl;

/** Where git reads and writes a repository (`owner/name`) of a connection's code host. */
export function gitUrlOf(ctx: FlowContext, connection: SealedConnection | undefined, repository: string): string {
  const own = settingText(connection?.config['apiUrl']);
  const base = connection === undefined ? sandboxesSettings(ctx.config.file, ctx.config.fileDir).gitBaseUrl : undefined;
  const web = base ?? ctx.outbox?.codehostWebUrl;
  if (own !== undefined || web === undefined) return cloneUrl(own, repository);
  return `${withoutEnd(web, '/')}/${repository.split('/').map(encodeURIComponent).join('/')}.git`;
}

/**
 * Whether an origin is a connection's code host: where its repositories are, its API, or what that is called without `api.`. So
 * is this machine, where that may be asked at all: a code host that is tried out has its API and its git on ports of it.
 */
export function isOfCodehost(ctx: FlowContext, connection: SealedConnection, origin: string): boolean {
  if (isLoopback(new URL(origin).hostname)) return true;
  const api = apiUrlOf(ctx, connection);
  const isOwn = settingText(connection.config['apiUrl']) !== undefined;
  const web = isOwn ? undefined : ctx.outbox?.codehostWebUrl;
  const places = [cloneUrl(api, ''), ...(api === undefined ? [] : [api, api.replace('//api.', '//')]), web];
  return places.some((one) => one !== undefined && URL.parse(one)?.origin === origin);
}

/** Active code-host connections of a project. */
export const codehosts = (ctx: FlowContext, project: Pick<ProjectRef, 'id'>): Promise<SealedConnection[]> =>
  usableCodehosts(ctx.db, project.id);

/** The one of a mount. Throws Fault `mount-connection` where none fits, or several. */
export function codehostOf({ mountPath, auth }: Mount, hosts: readonly SealedConnection[]): SealedConnection {
  const wanted = auth.kind === 'codehostApp' ? auth.installationId : undefined;
  const of = wanted === undefined ? hosts : hosts.filter((one) => settingText(one.config['installationId']) === wanted);
  // An installation that no connection names may still be one of the only application that there is.
  const [found, ...others] = of.length === 0 && hosts.length === 1 ? hosts : of;
  if (found !== undefined && others.length === 0) return found;
  const why = found === undefined ? 'no active code-host connection fits' : 'several code-host connections fit';
  throw new Fault(
    'unprocessable',
    'mount-connection',
    `Mount ${mountPath}: ${why}; add one, or name its installationId`,
  );
}
