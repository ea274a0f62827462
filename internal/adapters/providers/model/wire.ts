// The calls of each provider, as a table. What is not in it does not exist.

import type { ModelProvider } from '../../../domain/spec.ts';

/** The shape of a call that costs money. */
export type Wire = 'messages' | 'responses' | 'chat';

export interface Endpoint {
  /** `free` calls are passed on unmetered. */
  readonly kind: 'metered' | 'free';
  readonly wire: Wire;
  /** The body names a model. */
  readonly hasBody: boolean;
}

interface Row extends Endpoint {
  readonly method: 'GET' | 'POST';
  readonly path: RegExp;
}

const metered = (wire: Wire, path: RegExp): Row => ({ kind: 'metered', wire, hasBody: true, method: 'POST', path });
const free = (wire: Wire, method: Row['method'], path: RegExp): Row => ({
  kind: 'free',
  wire,
  hasBody: method === 'POST',
  method,
  path,
});
const models = /^\/v1\/models(?:\/[A-Za-z0-9][A-Za-z0-9._:-]*){0,3}$/;

const table: { readonly [provider in ModelProvider]: readonly Row[] } = {
  'provider-a': [
    metered('messages', /^\/v1\/messages$/),
    free('messages', 'POST', /^\/v1\/messages\/count_tokens$/),
    free('messages', 'GET', models),
  ],
  'provider-b': [
    metered('responses', /^\/v1\/responses(?:\/compact)?$/),
    metered('chat', /^\/v1\/chat\/completions$/),
    free('responses', 'POST', /^\/v1\/responses\/input_tokens$/),
    free('responses', 'GET', models),
  ],
  'provider-c': [
    metered('responses', /^\/v1\/responses$/),
    metered('chat', /^\/v1\/chat\/completions$/),
    free('chat', 'GET', models),
  ],
};

/** The call at a path below the provider's part of the address, without its query; undefined for any other. */
export function endpointOf(provider: ModelProvider, method: string, path: string): Endpoint | undefined {
  return table[provider].find((row) => row.method === method && row.path.test(path));
}
