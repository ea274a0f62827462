// Sign-in of people's browsers, and the device grant of the command line.

import * as v from 'valibot';
import { integer } from './common.ts';
import { named, operation, pageOf, pageQuery, type Shape } from './operation.ts';

const secretText = v.pipe(v.string(), v.minLength(1), v.maxLength(200));
/** A hand-off as in the address that it came with. */
const base = { tag: 'signin', scope: 'self' } as const;

export const openSession = operation({
  tag: 'signin',
  method: 'POST',
  scope: 'public',
  permission: null,
  id: 'openSession',
  path: '/api/v1/auth/sessions',
  summary: 'Sign a browser in with a token or a hand-off; sets the session cookie and answers its key',
  confidential: true,
  body: named(
    'SignIn',
    v.union(
      [v.strictObject({ token: secretText }), v.strictObject({ handoff: secretText })],
      'Expected token or handoff',
    ),
  ),
  answers: { 201: named('OpenedSession', v.object({ key: v.string(), expiresAt: v.string() })) },
});

export const createHandoff = operation({
  ...base,
  method: 'POST',
  permission: 'self:write',
  id: 'createHandoff',
  path: '/api/v1/auth/handoffs',
  summary: 'A one-time way into a browser, valid for a minute; for people only',
  answers: { 201: named('Handoff', v.object({ handoff: v.string(), url: v.string(), expiresAt: v.string() })) },
});

export const giveSessionKey = operation({
  tag: 'signin',
  method: 'POST',
  scope: 'public',
  permission: null,
  id: 'giveSessionKey',
  path: '/api/v1/auth/key',
  summary: 'The key of a session that a provider vouched for, once; called with its cookie',
  answers: { 201: named('SessionKey', v.object({ key: v.string() })) },
});

export const webSession = named(
  'WebSession',
  v.object({
    id: v.string(),
    method: v.string(),
    createdAt: v.string(),
    lastUsedAt: v.string(),
    expiresAt: v.string(),
    /** The one of this call. */
    current: v.boolean(),
  }),
);

export const listWebSessions = operation({
  ...base,
  method: 'GET',
  permission: 'self:read',
  id: 'listWebSessions',
  path: '/api/v1/auth/sessions',
  summary: "The caller's browsers that are signed in",
  query: v.strictObject(pageQuery),
  answers: { 200: pageOf('WebSessions', webSession) },
});

export const endWebSession = operation({
  ...base,
  method: 'DELETE',
  permission: 'self:write',
  id: 'endWebSession',
  path: '/api/v1/auth/sessions/:session',
  summary: 'Sign one of the own browsers out, by id',
  answers: { 204: null },
});

export const signOut = operation({
  ...base,
  method: 'POST',
  permission: 'self:write',
  id: 'signOut',
  path: '/api/v1/auth/signout',
  summary: 'Sign this browser out',
  answers: { 204: null },
});

export const listSigninMethods = operation({
  tag: 'signin',
  method: 'GET',
  scope: 'public',
  permission: null,
  id: 'listSigninMethods',
  path: '/api/v1/auth/methods',
  summary: 'The ways to sign in',
  answers: {
    200: named(
      'SigninMethods',
      v.object({
        methods: v.array(
          v.object({ kind: v.picklist(['oidc', 'github']), name: v.string(), label: v.string(), url: v.string() }),
        ),
        /** Whether API tokens sign in. */
        tokens: v.boolean(),
      }),
    ),
  },
});
export type SigninMethods = Shape<(typeof listSigninMethods)['answers'][200]>;

const grantError = named('GrantError', v.object({ error: v.string(), error_description: v.optional(v.string()) }));
const form = { tag: 'signin', method: 'POST', scope: 'public', permission: null, rawBody: true, form: true } as const;
const cliId = v.literal('svc-cli');

export const authorizeDevice = operation({
  ...form,
  id: 'authorizeDevice',
  path: '/api/v1/oauth/device_authorization',
  summary: 'Begin a device grant (RFC 8628) as the client svc-cli; takes a form',
  sends: v.looseObject({
    client_id: cliId,
    host: v.optional(
      v.pipe(v.string(), v.description('The machine of the command line, for the person who lets it in.')),
    ),
  }),
  answers: {
    200: named(
      'DeviceAuthorization',
      v.object({
        device_code: v.string(),
        user_code: v.string(),
        verification_uri: v.string(),
        expires_in: integer,
        interval: integer,
      }),
    ),
    400: grantError,
    401: grantError,
    /** Too many command lines wait. */
    429: grantError,
  },
});

export const deviceToken = operation({
  ...form,
  id: 'deviceToken',
  path: '/api/v1/oauth/token',
  summary: 'Poll for the token of a device grant (RFC 8628); takes a form',
  sends: v.looseObject({
    grant_type: v.literal('urn:ietf:params:oauth:grant-type:device_code'),
    device_code: v.string(),
    client_id: cliId,
  }),
  answers: {
    200: named(
      'DeviceToken',
      v.object({
        access_token: v.string(),
        token_type: v.literal('Bearer'),
        expires_in: integer,
        /** By which it is revoked. */
        token_id: v.string(),
      }),
    ),
    400: grantError,
    401: grantError,
  },
});

export const decideDevice = operation({
  ...base,
  method: 'POST',
  permission: 'self:write',
  id: 'decideDevice',
  path: '/device',
  summary: 'Look at the command line behind a code, or let it in or not',
  body: named(
    'DeviceDecision',
    v.strictObject({
      userCode: v.pipe(v.string(), v.minLength(1), v.maxLength(40)),
      decision: v.optional(v.picklist(['allow', 'deny'])),
    }),
  ),
  answers: {
    200: named(
      'DeviceState',
      v.object({
        status: v.picklist(['pending', 'allowed', 'denied']),
        /** Of the command line; absent once decided. */
        host: v.optional(v.string()),
        address: v.optional(v.string()),
        expiresAt: v.optional(v.string()),
      }),
    ),
  },
});
