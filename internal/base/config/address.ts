// What a setting takes as the address of a provider.

import * as v from 'valibot';

export const Address = v.pipe(
  v.string(),
  v.check((text) => {
    const url = URL.canParse(text) ? new URL(text) : undefined;
    const isWeb = url?.protocol === 'https:' || url?.protocol === 'http:';
    return isWeb && `${url.username}${url.password}${url.search}${url.hash}` === '';
  }, 'an absolute http(s) URL without credentials or query'),
);
