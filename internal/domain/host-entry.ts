// Entries of a list of hosts that a session may reach, as they are written (docs/reference/sessions.md#network).

/** `host`, `*.domain`, either with a port; `@name` is a list that ships. Lower case. */
const entry =
  /^(\*\.)?(?=.{1,253}(?::\d+)?$)[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?)*$/;
const address6 = /^\[[0-9a-f:.]+\]$/;

/** Package registries by name, with what their clients download from. Last held against their documentation on 2026-11-20. */
export const registries: { readonly [name: string]: readonly string[] } = {
  '@npm': ['registry.npmjs.org', 'registry.yarnpkg.com'],
  '@pypi': ['pypi.org', 'files.pythonhosted.org'],
  '@crates': ['crates.io', 'index.crates.io', 'static.crates.io'],
  '@go': ['proxy.golang.org', 'sum.golang.org'],
  '@rubygems': ['rubygems.org', 'index.rubygems.org'],
  '@maven': ['repo.maven.apache.org', 'repo1.maven.org'],
  '@debian': ['deb.debian.org', 'security.debian.org'],
};

/** Ports of an entry without one. */
const defaultPorts = [80, 443] as const;
export const entryShape = 'a host, *.domain, either with :port, or a list such as @npm';
/** Of one list. */
export const entriesMax = 256;

export interface HostPattern {
  readonly isWildcard: boolean;
  /** Without `*.`. */
  readonly host: string;
  readonly ports: readonly number[];
}

/** Undefined where it is no entry. */
export function patternOf(text: string): HostPattern | undefined {
  const [, name = '', port] = /^(.*?)(?::(\d{1,5}))?$/.exec(text) ?? [];
  const ports = port === undefined ? defaultPorts : [Number(port)];
  if (ports.some((one) => one < 1 || one > 65_535)) return undefined;
  const isAddress = address6.test(name) && URL.canParse(`http://${name}/`);
  if (!isAddress && !entry.test(name)) return undefined;
  const isWildcard = name.startsWith('*.');
  return { isWildcard, host: isWildcard ? name.slice(2) : name, ports };
}

/** Whether a text is an entry of a list. */
export const isEntry = (text: string): boolean => Object.hasOwn(registries, text) || patternOf(text) !== undefined;
