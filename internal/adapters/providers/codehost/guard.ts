// Where this adapter may connect: https and public addresses, unless the installation allows private networks. The
// address is checked at the moment of the connection, so that a name cannot change its mind in between.

import { Agent } from 'undici';
import { guardedLookup, hostFault } from '../../../base/net/net.ts';

const open = new Agent();
const guarded = new Agent({ connect: { lookup: guardedLookup() } });

/** The dispatcher for an address. Throws Error where the address itself is not allowed. */
export function dispatcherFor(url: URL, allowPrivate: boolean): Agent {
  if (allowPrivate) return open;
  if (url.protocol !== 'https:' || hostFault(url.hostname) !== null) {
    throw new Error(`${url.origin} is not a public https address (SVC_ALLOW_PRIVATE_NETWORK allows it)`);
  }
  return guarded;
}
