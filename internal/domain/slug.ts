// Slugs of organizations that are taken: the first step of a page's address is an organization's, or one of these.

const reserved: ReadonlySet<string> = new Set([
  ...['api', 'assets', 'connections', 'device', 'docs', 'oauth', 'schemas', 'signin', 'signout'],
  ...['healthz', 'readyz', 'metrics'],
]);

export const isReservedSlug = (slug: string): boolean => reserved.has(slug);
