// Where this adapter may connect: https and public addresses, unless the installation allows private networks. The
// address is checked at the moment of the connection, so that a name cannot change its mind in between.

import { lookup, type LookupAddress, type LookupOptions } from 'node:dns';
import { BlockList, isIPv6 } from 'node:net';
import { Agent } from 'undici';

const closed = new BlockList();
for (const [address, prefix] of [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['224.0.0.0', 3],
] as const) {
  closed.addSubnet(address, prefix, 'ipv4');
}
closed.addSubnet('::', 96, 'ipv6');
closed.addSubnet('64:ff9b::', 96, 'ipv6');
closed.addSubnet('2002::', 16, 'ipv6');
closed.addSubnet('fc00::', 7, 'ipv6');
closed.addSubnet('fe80::', 10, 'ipv6');
closed.addSubnet('ff00::', 8, 'ipv6');

/** Whether an address is one that only the installation's own network has. */
export function isClosedAddress(address: string): boolean {
  return closed.check(address, isIPv6(address) ? 'ipv6' : 'ipv4');
}

type Found = (error: NodeJS.ErrnoException | null, address: string | LookupAddress[], family?: number) => void;

function publicLookup(host: string, options: LookupOptions, found: Found): void {
  lookup(host, options, (error: NodeJS.ErrnoException | null, address: string | LookupAddress[], family?: number) => {
    const addresses = typeof address === 'string' ? [address] : (address ?? []).map((one) => one.address);
    if (error === null && addresses.some(isClosedAddress)) {
      found(Object.assign(new Error(`${host} is not a public address`), { code: 'EACCES' }), address, family);
      return;
    }
    found(error, address, family);
  });
}

const open = new Agent();
const guarded = new Agent({ connect: { lookup: publicLookup } });

/** The dispatcher for an address. Throws Error where the address itself is not allowed. */
export function dispatcherFor(url: URL, allowPrivate: boolean): Agent {
  if (allowPrivate) return open;
  const host = url.hostname.replace(/^\[|\]$/g, '');
  const isLiteral = /^[\d.]+$/.test(host) || host.includes(':');
  if (url.protocol !== 'https:' || (isLiteral && isClosedAddress(host))) {
    throw new Error(`${url.origin} is not a public https address (SVC_ALLOW_PRIVATE_NETWORK allows it)`);
  }
  return guarded;
}
