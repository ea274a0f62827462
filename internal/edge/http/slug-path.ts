// Paths below the webhook endpoints: whatever stands there that no endpoint is called answers as an endpoint does that is
// not there (docs/reference/http-api.md#errors), also what the framework or the parser would refuse in words of its own.

import { Fault } from '../../domain/fault.ts';
import { messagesTable } from '../../domain/messages.ts';
import { renderProblem } from './problem.ts';

const endpointsPath = '/api/v1/webhook-endpoints/';
/** What says of a path that it cannot be read, or is too long. */
const ofPath: readonly number[] = [400, 414];

export const noSuchResource = (): Fault => new Fault('not_found', 'not-found', messagesTable.notVisible);

/** The fault that a request is answered with: 404 for a path that cannot be an endpoint's, else the one that was thrown. */
export function asSlugFault(thrown: unknown, url: string): unknown {
  const [path = ''] = url.split('?', 1);
  const isPlain = /^[\w-]{1,200}$/.test(path.slice(endpointsPath.length).replace(/\/events$/, ''));
  if (!path.startsWith(endpointsPath) || isPlain) return thrown;
  return ofPath.includes(renderProblem(thrown, '').problem.status) ? noSuchResource() : thrown;
}

/** Whether a request that the parser refuses was for such a path, by what came of it. */
export function isUnreadableSlug(error: { readonly code?: string; readonly rawPacket?: unknown }): boolean {
  if (error.code !== 'HPE_INVALID_URL' || !Buffer.isBuffer(error.rawPacket)) return false;
  const [, url = ''] = error.rawPacket.toString('latin1', 0, 300).split(' ', 2);
  return url.startsWith(endpointsPath);
}
