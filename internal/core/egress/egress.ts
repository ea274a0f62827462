// What a fenced session may reach (docs/reference/sessions.md#network): lists of hosts, what two of them allow together,
// whether one host and port is allowed, and on which of them a secret's header is added. Decides from values alone:
// it resolves no name, and whether an address is private is judged where it is connected to.

import { type HostPattern, patternOf, registries } from '../../domain/host-entry.ts';

const expand = (list: readonly string[]): string[] => list.flatMap((entry) => registries[entry] ?? [entry]);

/** Whether what the second allows is allowed by the first too, hosts alone. */
function coversHost(wide: HostPattern, narrow: HostPattern): boolean {
  if (!wide.isWildcard) return !narrow.isWildcard && wide.host === narrow.host;
  const isBelow = narrow.host.endsWith(`.${wide.host}`);
  return isBelow || (narrow.isWildcard && narrow.host === wide.host);
}

const written = ({ isWildcard, host }: HostPattern, port: number): string => `${isWildcard ? '*.' : ''}${host}:${port}`;

/**
 * What two lists allow together: an entry of one survives where the other covers it, port by port. Undefined stands for
 * a list that was not given; both undefined: there is none. Entries of the answer have no registry names.
 */
export function intersectHosts(
  one: readonly string[] | undefined,
  other: readonly string[] | undefined,
): readonly string[] | undefined {
  if (one === undefined || other === undefined) {
    const only = one ?? other;
    return only === undefined ? undefined : [...new Set(expand(only))];
  }
  const [first, second] = [one, other].map((list) =>
    expand(list)
      .map(patternOf)
      .filter((pattern) => pattern !== undefined),
  ) as [HostPattern[], HostPattern[]];
  const kept = (from: readonly HostPattern[], by: readonly HostPattern[]): string[] =>
    from.flatMap((pattern) =>
      pattern.ports
        .filter((port) => by.some((wide) => wide.ports.includes(port) && coversHost(wide, pattern)))
        .map((port) => written(pattern, port)),
    );
  return [...new Set([...kept(first, second), ...kept(second, first)])].sort();
}

/** The host of a request as entries are written: lower case, without a dot at its end. */
export const plainHost = (host: string): string => host.toLowerCase().replace(/\.$/, '');

/** Whether a list allows this host at this port. */
export function allows(list: readonly string[], host: string, port: number): boolean {
  const asked: HostPattern = { isWildcard: false, host: plainHost(host), ports: [port] };
  return expand(list).some((entry) => {
    const pattern = patternOf(entry);
    return pattern !== undefined && pattern.ports.includes(port) && coversHost(pattern, asked);
  });
}

/** Whether a list allows this host at any port. */
export function allowsHost(list: readonly string[], host: string): boolean {
  const asked: HostPattern = { isWildcard: false, host: plainHost(host), ports: [] };
  return expand(list).some((entry) => {
    const pattern = patternOf(entry);
    return pattern !== undefined && coversHost(pattern, asked);
  });
}

/** The host of an injection that no entry allows, with its secret; undefined where there is none. */
export function injectionOutside(
  list: readonly string[],
  injections: readonly { readonly name: string; readonly hosts: readonly string[] }[],
): { readonly name: string; readonly host: string } | undefined {
  return injections
    .flatMap(({ name, hosts }) => hosts.map((host) => ({ name, host })))
    .find(({ host }) => !allowsHost(list, host));
}
