// Which addresses an outbound request may reach (docs/reference/configuration.md#settings). The check is made on the address
// that is connected to, when it is connected to, so that a name that answers differently the second time gains nothing.
// Decides nothing about schemes, redirects or credentials: those are the client's.

import { lookup as dnsLookup, type LookupAddress } from 'node:dns';
import { BlockList, isIP, type LookupFunction } from 'node:net';

const refused = new BlockList();
for (const [address, prefix] of [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.0.2.0', 24],
  ['192.88.99.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['198.51.100.0', 24],
  ['203.0.113.0', 24],
  ['224.0.0.0', 4],
  ['240.0.0.0', 4],
] as const) {
  refused.addSubnet(address, prefix, 'ipv4');
}
for (const [address, prefix] of [
  ['::', 96],
  ['64:ff9b:1::', 48],
  ['100::', 64],
  ['2001::', 23],
  ['2001:db8::', 32],
  ['3fff::', 20],
  ['5f00::', 16],
  ['fc00::', 7],
  ['fe80::', 10],
  ['fec0::', 10],
  ['ff00::', 8],
] as const) {
  refused.addSubnet(address, prefix, 'ipv6');
}

/** True for loopback, private, link-local, metadata, multicast and reserved addresses, in every form of writing them. */
export function isPrivateAddress(address: string): boolean {
  const bare = address.replace(/^\[|\]$/g, '').replace(/%.*$/, '');
  const family = isIP(bare);
  if (family === 4) return refused.check(bare, 'ipv4');
  if (family !== 6) return true;
  const embedded = embeddedIpv4(bare);
  return embedded === null ? refused.check(bare, 'ipv6') : refused.check(embedded, 'ipv4');
}

/** The IPv4 address inside a mapped (::ffff:0:0/96), NAT64 (64:ff9b::/96) or 6to4 (2002::/16) address. */
function embeddedIpv4(address: string): string | null {
  const groups = expand(address);
  const dotted = (high: number, low: number) => `${high >> 8}.${high & 255}.${low >> 8}.${low & 255}`;
  const at = (index: number) => groups[index] as number;
  const zero = (from: number, to: number) => groups.slice(from, to).every((group) => group === 0);
  if (zero(0, 5) && at(5) === 0xffff) return dotted(at(6), at(7));
  if (at(0) === 0x64 && at(1) === 0xff9b && zero(2, 6)) return dotted(at(6), at(7));
  return at(0) === 0x2002 ? dotted(at(1), at(2)) : null;
}

function expand(address: string): number[] {
  // The URL parser writes every IPv6 address in its shortest hexadecimal form.
  const [head = '', tail] = new URL(`http://[${address}]/`).hostname.slice(1, -1).split('::');
  const numbers = (part: string) => (part === '' ? [] : part.split(':').map((group) => Number.parseInt(group, 16)));
  if (tail === undefined) return numbers(head);
  const [before, after] = [numbers(head), numbers(tail)];
  return [...before, ...new Array<number>(8 - before.length - after.length).fill(0), ...after];
}

/** Why the host of a URL is refused before anything is resolved, or null. */
export function hostFault(hostname: string): string | null {
  const host = hostname
    .replace(/^\[|\]$/g, '')
    .replace(/\.$/, '')
    .toLowerCase();
  if (host === 'localhost' || host.endsWith('.localhost')) return 'it is this machine';
  return isIP(host) !== 0 && isPrivateAddress(host) ? 'its address is private' : null;
}

export class PrivateAddressError extends Error {
  constructor(hostname: string) {
    super(`${hostname} has a private address, and private networks need SVC_ALLOW_PRIVATE_NETWORK=true`);
    this.name = 'PrivateAddressError';
  }
}

/** A resolver for `net.connect` that answers with an error where any address of the name is private. */
export function guardedLookup(resolve: typeof dnsLookup = dnsLookup): LookupFunction {
  return (hostname, options, callback) => {
    resolve(hostname, { ...options, all: true }, (error: NodeJS.ErrnoException | null, found: LookupAddress[]) => {
      const first = found?.[0];
      if (error !== null || first === undefined) {
        callback(error ?? new Error(`${hostname} has no address`), '', 0);
      } else if (found.some(({ address }) => isPrivateAddress(address))) {
        callback(new PrivateAddressError(hostname), '', 0);
      } else if (options.all === true) callback(null, found);
      else callback(null, first.address, first.family);
    });
  };
}
