// What a client may write about a connection (contract, section 3). No message repeats what was sent.

import * as v from 'valibot';

const text = (max: number) =>
  v.pipe(
    v.string('Expected a string'),
    v.nonEmpty('Expected a text that is not empty'),
    v.check((value) => value.length <= max, `Expected at most ${max} characters`),
    v.check((value) => value.isWellFormed() && !value.includes('\0'), 'Expected text without NUL and lone surrogates'),
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

const name = v.pipe(
  v.string('Expected a string'),
  v.regex(/^[A-Za-z0-9_.-]{1,128}$/, 'Expected 1 to 128 characters of A-Za-z0-9_.-'),
);

export const connectionPost = v.variant(
  'provider',
  [
    v.strictObject({
      provider: v.literal('codehost'),
      name,
      config: v.optional(
        v.strictObject({
          apiUrl: v.optional(
            v.pipe(text(2_048), v.check(isApiUrl, 'Expected an http or https address without credentials')),
          ),
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
      config: v.optional(v.strictObject({ botUserId: v.optional(id) })),
      credentials: v.strictObject({ webhookSecret: credential, apiKey: v.optional(credential) }),
    }),
    v.strictObject({
      provider: v.literal('chat'),
      name,
      config: v.optional(
        v.strictObject({
          provider: v.optional(v.literal('slack', 'Expected "slack"')),
          workspaceId: v.optional(id),
          botUserId: v.optional(id),
        }),
      ),
      credentials: v.strictObject({ signingSecret: credential, botToken: v.optional(credential) }),
    }),
  ],
  'Expected provider to be codehost, tracker or chat',
);

export type ConnectionInput = v.InferOutput<typeof connectionPost>;
