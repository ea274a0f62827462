// Outbound requests of this room: https only, and only to public addresses, unless the installation allows private
// networks (contract, SVC_ALLOW_PRIVATE_NETWORK). The address is checked where the connection is made, so that a name
// that resolves to something else the second time gains nothing.

import { lookup as resolveName } from 'node:dns';
import type { LookupAddress, LookupOptions } from 'node:dns';
import { BlockList, isIP } from 'node:net';
import { Agent } from 'undici';
import type { Dispatcher } from 'undici';

export interface TemplateNetwork {
  /** Lets requests reach loopback and private addresses, and use plain http. Default false. */
  readonly allowPrivate?: boolean;
  /** PEM certificates that are trusted besides the built-in ones. */
  readonly ca?: string;
}

const IPV4_PRIVATE: readonly (readonly [string, number])[] = [
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
];
/** Only 2000::/3 is global; inside it, what tunnels to IPv4 or documents. */
const IPV6_SPECIAL: readonly (readonly [string, number])[] = [
  ['2001::', 23],
  ['2001:db8::', 32],
  ['2002::', 16],
];

const blocked4 = new BlockList();
for (const [net, bits] of IPV4_PRIVATE) blocked4.addSubnet(net, bits, 'ipv4');
const blocked6 = new BlockList();
for (const [net, bits] of IPV6_SPECIAL) blocked6.addSubnet(net, bits, 'ipv6');
const global6 = new BlockList();
global6.addSubnet('2000::', 3, 'ipv6');

/** True for an address that the public internet routes. */
export function isPublicAddress(address: string): boolean {
  if (isIP(address) === 4) return !blocked4.check(address, 'ipv4');
  return isIP(address) === 6 && global6.check(address, 'ipv6') && !blocked6.check(address, 'ipv6');
}

/** The rule refused a request; the message says what would allow it. */
export class RefusedAddressError extends Error {
  constructor(what: string) {
    super(`${what}; SVC_ALLOW_PRIVATE_NETWORK=true would allow it`);
    this.name = 'RefusedAddressError';
  }
}
const privateAddress = (host: string): RefusedAddressError => new RefusedAddressError(`${host} is a private address`);

type LookupDone = (error: Error | null, address: string | LookupAddress[], family?: number) => void;

function guardedLookup(host: string, options: LookupOptions, done: LookupDone): void {
  resolveName(host, { ...options, all: true }, (error, addresses) => {
    const first = addresses?.[0];
    if (error !== null || first === undefined) return done(error ?? new Error(`${host} has no address`), '');
    if (!addresses.every((entry) => isPublicAddress(entry.address))) return done(privateAddress(host), '');
    return options.all ? done(null, addresses) : done(null, first.address, first.family);
  });
}

/** A dispatcher that keeps the rule. The caller closes it. */
export function createDispatcher(network: TemplateNetwork): Dispatcher {
  return new Agent({
    headersTimeout: 15_000,
    bodyTimeout: 30_000,
    connect: {
      timeout: 10_000,
      ...(network.ca !== undefined && { ca: network.ca }),
      ...(network.allowPrivate ? {} : { lookup: guardedLookup }),
    },
  });
}

/** Refuses what can be told from the URL alone: other schemes, and literal addresses, which are never looked up. */
export function checkUrl(url: URL, network: TemplateNetwork): void {
  if (url.protocol !== 'https:' && !(url.protocol === 'http:' && network.allowPrivate)) {
    throw new RefusedAddressError(`${url.hostname} is asked for over ${url.protocol.slice(0, -1)}, not https`);
  }
  const host = url.hostname.replace(/^\[|\]$/g, '');
  if (!network.allowPrivate && isIP(host) !== 0 && !isPublicAddress(host)) throw privateAddress(host);
}
