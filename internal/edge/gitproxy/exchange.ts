// One request of a session's git, and how the code host's answers to it are judged.

import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Dispatcher } from 'undici';
import { Fault } from '../../domain/fault.ts';
import { limitSeconds, outsideFault, rateLimited } from '../../domain/outside.ts';
import { isLimit, namedSeconds } from '../../adapters/providers/codehost/codehost.ts';
import type { GitUpstream } from '../../flows/broker/broker.ts';
import type { FlowContext } from '../../flows/context.ts';
import type { GitRouteRequest } from '../../flows/ports.ts';

export interface Exchange {
  readonly ctx: FlowContext;
  readonly of: GitRouteRequest;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly pushMaxBytes: number;
  /** Sends a request on to the code host, with the credential. */
  forward(way: GitUpstream, path: string, body?: AsyncIterable<Uint8Array> | Buffer): Promise<Dispatcher.ResponseData>;
}

/** What the code host says of a request that it did not serve. */
export function judge(
  { statusCode: status, headers }: Pick<Dispatcher.ResponseData, 'statusCode' | 'headers'>,
  { needs }: Pick<GitUpstream, 'needs'>,
): Fault | undefined {
  if (status === 200) return undefined;
  if (isLimit(status, headers, ''))
    return rateLimited('the code host limits these calls', limitSeconds(namedSeconds(headers)));
  if (status === 401) return outsideFault('credential-refused', 'the code host does not take the credential');
  if (status === 403) {
    const lacks = needs === '' ? '' : `; it lacks one of ${needs}`;
    return outsideFault('permission-missing', `the installation may not do this${lacks}`);
  }
  if (status === 404 || (status >= 300 && status < 400))
    return outsideFault('not-found', 'the repository is absent, or has moved');
  return outsideFault('provider-unavailable', `the code host answered with ${status}`);
}

export async function reached<T>(sent: Promise<T>): Promise<T> {
  try {
    return await sent;
  } catch (error) {
    if (error instanceof Fault) throw error;
    throw outsideFault('provider-unavailable', 'the code host could not be reached');
  }
}
