// The way on from the edge: to which address a host may lead, and which headers go along. A name is resolved here, each
// address of it is judged, and the one that was connected to is judged again.

import { type IncomingMessage, request as httpRequest, type ClientRequest, type OutgoingHttpHeaders } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { connect, isIP, type Socket } from 'node:net';
import { guardedLookup, hostFault, isPrivateAddress, PrivateAddressError } from '../../base/net/net.ts';

const connectMs = 15_000;

export interface Target {
  /** Without brackets. */
  readonly host: string;
  readonly port: number;
}

/** Of RFC 9110, 7.6.1: they are about one connection. */
const hop = new Set(
  'connection proxy-connection keep-alive proxy-authorization proxy-authenticate te trailer transfer-encoding upgrade'.split(
    ' ',
  ),
);

/** Headers as they came, in order and spelling, but for those of the connection alone and those it names. */
export function passedHeaders(message: IncomingMessage): OutgoingHttpHeaders {
  const named = new Set((message.headers.connection ?? '').toLowerCase().split(/[\s,]+/));
  const headers: { [name: string]: string | string[] } = {};
  for (const [name, values] of Object.entries(message.headersDistinct)) {
    if (hop.has(name) || named.has(name) || values === undefined) continue;
    headers[name] = values.length === 1 ? (values[0] ?? '') : values;
  }
  return headers;
}

/**
 * Headers of a request that goes on. A body that came in parts goes in parts: without a word of its length, some methods
 * would send it bare, and the host would read it as the next request.
 */
export function requestHeaders(message: IncomingMessage): OutgoingHttpHeaders {
  const isParted = message.headers['transfer-encoding'] !== undefined;
  return { ...passedHeaders(message), ...(isParted && { 'transfer-encoding': 'chunked' }) };
}

/** Throws PrivateAddressError for an address that is private as it is written. */
function judgeWritten({ host }: Target, allowPrivate: boolean): void {
  if (!allowPrivate && hostFault(host) !== null) throw new PrivateAddressError(host);
}

/** Ends a connection that has arrived where it must not. */
function judgeArrived(socket: Socket, { host }: Target, allowPrivate: boolean): void {
  if (allowPrivate) return;
  socket.once('connect', () => {
    if (isPrivateAddress(socket.remoteAddress ?? '')) socket.destroy(new PrivateAddressError(host));
  });
}

const wayOf = (allowPrivate: boolean) => (allowPrivate ? {} : { lookup: guardedLookup() });

/** A connection. Rejects with PrivateAddressError, or as the system says. */
export async function dial(target: Target, allowPrivate: boolean): Promise<Socket> {
  judgeWritten(target, allowPrivate);
  const socket = connect({ ...target, ...wayOf(allowPrivate), noDelay: true });
  judgeArrived(socket, target, allowPrivate);
  return new Promise((resolve, reject) => {
    const late = setTimeout(() => socket.destroy(new Error('it does not answer')), connectMs);
    const failed = (error: Error): void => {
      clearTimeout(late);
      reject(error);
    };
    // For good: one that is reset before anybody else listens would end the process.
    socket.on('error', failed);
    socket.once('connect', () => {
      clearTimeout(late);
      // What its judge says of it comes as an error of the stream.
      setImmediate(() => (socket.destroyed ? reject(new PrivateAddressError(target.host)) : resolve(socket)));
    });
  });
}

/** A request that goes on with these headers, verified where it is one of TLS. Throws PrivateAddressError. */
export function send(
  target: Target,
  allowPrivate: boolean,
  options: {
    readonly method: string;
    readonly path: string;
    readonly headers: OutgoingHttpHeaders;
    readonly isTls: boolean;
  },
): ClientRequest {
  judgeWritten(target, allowPrivate);
  const { isTls, ...message } = options;
  const common = { ...target, ...message, ...wayOf(allowPrivate), agent: false as const, setHost: false };
  const sent = isTls
    ? httpsRequest({ ...common, ...(isIP(target.host) === 0 && { servername: target.host }) })
    : httpRequest(common);
  sent.once('socket', (socket) => judgeArrived(socket, target, allowPrivate));
  return sent;
}

/** Why nothing came back, as a word for `x-svc-egress`. */
export function failureWord(error: unknown): 'denied' | 'tls' | 'unreachable' {
  if (error instanceof PrivateAddressError) return 'denied';
  const { code = '', reason, library } = error as NodeJS.ErrnoException & { reason?: string; library?: string };
  const isTls =
    /^(ERR_TLS|ERR_SSL|CERT|UNABLE_TO|SELF_SIGNED|DEPTH_ZERO|EPROTO|HOSTNAME_MISMATCH|INVALID_CA|CRL)/.test(code) ||
    library === 'SSL routines' ||
    reason?.includes('certificate') === true;
  return isTls ? 'tls' : 'unreachable';
}
