// What a setting takes as the address of a provider, and as a host of its files.

import * as v from 'valibot';

export const Address = v.pipe(
  v.string(),
  v.check((text) => {
    const url = URL.canParse(text) ? new URL(text) : undefined;
    const isWeb = url?.protocol === 'https:' || url?.protocol === 'http:';
    return isWeb && `${url.username}${url.password}${url.search}${url.hash}` === '';
  }, 'an absolute http(s) URL without credentials or query'),
);

/** Whether what ends with a port ends with one that there is. */
export const hasPort = (text: string): boolean => {
  const port = Number(/:(\d+)$/.exec(text)?.[1] ?? 1);
  return port >= 1 && port <= 65_535;
};

const entry = 'host or host:port';
export const HostEntry = v.pipe(v.string(), v.regex(/^[a-z0-9.-]+(:\d{1,5})?$/, entry), v.check(hasPort, entry));
