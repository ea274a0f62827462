// Outbound requests of this room: https only, and only to public addresses, unless the installation allows private
// networks (docs/reference/configuration.md#settings). The address is checked where the connection is made, so that a name
// that resolves to something else the second time gains nothing.

import { Agent } from 'undici';
import type { Dispatcher } from 'undici';
import { guardedLookup, hostFault } from '../../../base/net/net.ts';

export interface TemplateNetwork {
  /** Lets requests reach loopback and private addresses, and use plain http. Default false. */
  readonly allowPrivate?: boolean;
  /** PEM certificates that are trusted besides the built-in ones. */
  readonly ca?: string;
}

/** The rule refused a request; the message says what would allow it. */
export class RefusedAddressError extends Error {
  constructor(what: string) {
    super(`${what}; SVC_ALLOW_PRIVATE_NETWORK=true would allow it`);
    this.name = 'RefusedAddressError';
  }
}

/** A dispatcher that keeps the rule. The caller closes it. */
export function createDispatcher(network: TemplateNetwork): Dispatcher {
  return new Agent({
    headersTimeout: 15_000,
    bodyTimeout: 30_000,
    connect: {
      timeout: 10_000,
      ...(network.ca !== undefined && { ca: network.ca }),
      ...(network.allowPrivate ? {} : { lookup: guardedLookup() }),
    },
  });
}

/** Refuses what can be told from the URL alone: other schemes, and literal addresses, which are never looked up. */
export function checkUrl(url: URL, network: TemplateNetwork): void {
  if (url.protocol !== 'https:' && !(url.protocol === 'http:' && network.allowPrivate)) {
    throw new RefusedAddressError(`${url.hostname} is asked for over ${url.protocol.slice(0, -1)}, not https`);
  }
  const fault = network.allowPrivate ? null : hostFault(url.hostname);
  if (fault !== null) throw new RefusedAddressError(`${url.hostname} is refused: ${fault}`);
}
