// What a client may write about a connection (docs/reference/http-api.md#conventions). No message repeats what was sent.

import { isStorable } from '../internal/domain/text.ts';
import * as v from 'valibot';

const text = (max: number) =>
  v.pipe(
    v.string('Expected a string'),
    v.nonEmpty('Expected a text that is not empty'),
    v.check((value) => value.length <= max, `Expected at most ${max} characters`),
    v.check(isStorable, 'Expected text without NUL and lone surrogates'),
  );
/** Providers give numbers, people paste them as text. */
const id = v.union(
  [text(256), v.pipe(v.number(), v.safeInteger(), v.minValue(0))],
  'Expected a text that is not empty, or a whole number',
);
const credential = text(64 * 1024);

const isApiUrl = (value: string): boolean => {
  const url = URL.parse(value);
  if (url === null || !['https:', 'http:'].includes(url.protocol)) return false;
  return url.username === '' && url.password === '' && url.search === '' && url.hash === '';
};

const isRemoteUrl = (value: string): boolean => {
  const url = URL.parse(value);
  if (url === null || !['https:', 'http:'].includes(url.protocol)) return false;
  return url.username === '' && url.password === '' && url.hash === '';
};
const scopes = v.pipe(
  v.array(v.pipe(v.string('Expected a string'), v.regex(/^[\x21\x23-\x5b\x5d-\x7e]{1,200}$/, 'Expected a scope'))),
  v.maxLength(100, 'Expected at most 100 scopes'),
);
/** Providers with a shape of their own, and those that are connected elsewhere. */
const own = ['codehost', 'tracker', 'chat', 'errtrack', 'mcp'];

/** One of dots alone would be a step in an address: nothing would lead to it. */
const name = v.pipe(
  v.string('Expected a string'),
  v.regex(/^(?!\.{1,2}$)[A-Za-z0-9_.-]{1,128}$/, 'Expected 1 to 128 characters of A-Za-z0-9_.-, not only dots'),
);

const apiUrl = v.optional(
  v.pipe(text(2_048), v.check(isApiUrl, 'Expected an http or https address without credentials')),
);

export const connectionPost = v.variant(
  'provider',
  [
    v.strictObject({
      provider: v.literal('codehost'),
      name,
      config: v.optional(
        v.strictObject({
          apiUrl,
          appId: v.optional(id),
          installationId: v.optional(id),
          botLogin: v.optional(text(256)),
        }),
      ),
      credentials: v.strictObject({ webhookSecret: credential, privateKey: v.optional(credential) }),
    }),
    v.strictObject({
      provider: v.literal('tracker'),
      name,
      config: v.optional(v.strictObject({ apiUrl, botUserId: v.optional(id) })),
      credentials: v.strictObject({ webhookSecret: credential, apiKey: v.optional(credential) }),
    }),
    v.strictObject({
      provider: v.literal('chat'),
      name,
      config: v.optional(
        v.strictObject({
          apiUrl,
          provider: v.optional(v.literal('slack', 'Expected "slack"')),
          workspaceId: v.optional(id),
          botUserId: v.optional(id),
        }),
      ),
      credentials: v.strictObject({ signingSecret: credential, botToken: v.optional(credential) }),
    }),
    v.strictObject({
      provider: v.literal('mcp'),
      name,
      url: v.pipe(text(2_048), v.check(isRemoteUrl, 'Expected an https address without credentials or a fragment')),
      scopes: v.optional(scopes),
      clientId: v.optional(text(2_048)),
      credentials: v.optional(v.strictObject({ clientSecret: credential })),
    }),
    v.strictObject({
      provider: v.pipe(
        v.string(),
        v.regex(/^[A-Za-z0-9_.-]{1,64}$/),
        v.check((value) => !own.includes(value)),
      ),
      name,
      scopes: v.optional(scopes),
      // Told for what it most often is, a provider by another name than its own.
      credentials: v.optional(
        v.never(
          'Expected none with this provider: codehost, tracker, chat and mcp take them, one that the configuration names has its own',
        ),
      ),
    }),
  ],
  'Expected provider to be codehost, tracker, chat, mcp or one that the configuration names',
);

/** What `set-credentials` may replace; which of them go with a provider is checked there. */
export const credentialsPut = v.strictObject({
  credentials: v.pipe(
    v.strictObject({
      webhookSecret: v.optional(credential),
      privateKey: v.optional(credential),
      apiKey: v.optional(credential),
      signingSecret: v.optional(credential),
      botToken: v.optional(credential),
      clientSecret: v.optional(credential),
    }),
    v.check((given) => Object.keys(given).length > 0, 'Expected at least one credential'),
  ),
});
/** The credentials that a provider knows. */
export const credentials: { readonly [provider: string]: readonly string[] } = {
  codehost: ['webhookSecret', 'privateKey'],
  tracker: ['webhookSecret', 'apiKey'],
  chat: ['signingSecret', 'botToken'],
  mcp: ['clientSecret'],
};

const orNone = <T extends v.GenericSchema>(schema: T) => v.optional(v.nullable(schema));
/** What `edit` may change: null takes a setting away. Which of them go with a provider is checked there. */
export const connectionPatch = v.strictObject({
  config: v.pipe(
    v.strictObject({
      apiUrl: orNone(v.pipe(text(2_048), v.check(isApiUrl, 'Expected an http or https address without credentials'))),
      appId: orNone(id),
      installationId: orNone(id),
      botLogin: orNone(text(256)),
      workspaceId: orNone(id),
      botUserId: orNone(id),
    }),
    v.check((given) => Object.keys(given).length > 0, 'Expected at least one setting'),
  ),
});
/** The settings of a provider that may change. */
export const settingsTable: { readonly [provider: string]: readonly string[] } = {
  codehost: ['apiUrl', 'appId', 'installationId', 'botLogin'],
  tracker: ['apiUrl', 'botUserId'],
  chat: ['apiUrl', 'workspaceId', 'botUserId'],
};

export const authorizePost = v.strictObject({ scopes: v.optional(scopes) });

export type ConnectionInput = v.InferOutput<typeof connectionPost>;
