// Connections of a project to providers. Credentials go in and never come out.

import * as v from 'valibot';
import { connectionStatuses } from '../../internal/domain/connection.ts';
import { authorizePost, connectionPatch, connectionPost, credentialsPut } from '../connection.ts';
import { dryRun, dryRunQuery, integer, json, projectPath, reasonBody, timestamp } from './common.ts';
import { named, operation, pageOf, pageQuery, type Shape } from './operation.ts';

const entries = {
  id: v.string(),
  provider: v.string(),
  name: v.string(),
  status: v.picklist(connectionStatuses),
  /** Why it has that status, in one word. */
  reason: v.optional(v.string()),
  /** When its status became what it is. */
  since: v.optional(timestamp),
  /** Calls that have failed on it since then, and not for what they asked. */
  failedCalls: v.optional(integer),
  /** Where the provider sends its webhooks; null where it sends none. */
  intakeUrl: v.nullable(v.string()),
  /** Agents that use it by triggers, tools or mounts; where it is read, not where it is made. */
  usedBy: v.optional(integer),
};
export const connection = named('Connection', v.object(entries));
export type Connection = Shape<typeof connection>;
const level = v.picklist(['read', 'write']);
export const wholeConnection = named(
  'ConnectionDetail',
  v.object({
    ...entries,
    config: json,
    /** What the installation was granted, as mounts call it. */
    permissions: v.optional(v.record(v.string(), level)),
    /** Names as `owner/name`, where the provider has told them. */
    repositories: v.optional(
      v.object({ selection: v.picklist(['all', 'selected']), names: v.optional(v.array(v.string())) }),
    ),
    /** When the provider was asked last. */
    checkedAt: v.optional(v.string()),
    /** Until when the provider wants to be left alone, in whatever resource. */
    rateLimitedUntil: v.optional(v.string()),
  }),
);

const common = { tag: 'connections', scope: 'project' } as const;
const read = { ...common, method: 'GET', permission: 'connections:read' } as const;
const write = { ...common, permission: 'connections:write' } as const;
const base = `${projectPath}/connections` as const;

export const listConnections = operation({
  ...read,
  id: 'listConnections',
  path: base,
  summary: 'Connections, never their credentials',
  query: v.strictObject(pageQuery),
  answers: { 200: pageOf('ConnectionPage', connection) },
});

export const createConnection = operation({
  ...write,
  method: 'POST',
  id: 'createConnection',
  path: base,
  summary: 'Connect a provider; send its webhooks to the intakeUrl of the answer',
  confidential: true,
  body: named('NewConnection', connectionPost),
  answers: { 201: connection },
});

export const getConnection = operation({
  ...read,
  id: 'getConnection',
  path: `${base}/:name`,
  summary: 'One connection, never its credentials',
  answers: { 200: wholeConnection },
});

export const changeConnection = operation({
  ...write,
  method: 'PATCH',
  id: 'changeConnection',
  path: `${base}/:name`,
  summary: 'Change the settings that are given, such as the id of an installation that was made anew',
  description: 'Null takes a setting away. Of a code host the new installation has to be one of its application.',
  body: named('ConnectionPatch', connectionPatch),
  answers: { 200: wholeConnection },
});

export const deleteConnection = operation({
  ...write,
  method: 'DELETE',
  id: 'deleteConnection',
  path: `${base}/:name`,
  summary: 'Disconnect; optional triggers are skipped, required ones refuse it',
  query: v.strictObject(dryRunQuery),
  body: reasonBody,
  answers: { 200: dryRun, 204: null },
});

export const checkConnection = operation({
  ...write,
  method: 'POST',
  id: 'checkConnection',
  path: `${base}/:name/check`,
  summary: 'Ask the provider whether the connection works, and set its status to what it says',
  answers: { 200: wholeConnection },
});

export const setConnectionCredentials = operation({
  ...write,
  method: 'PUT',
  id: 'setConnectionCredentials',
  path: `${base}/:name/credentials`,
  summary: 'Replace the credentials that are given; the others stay',
  confidential: true,
  body: named('ConnectionCredentials', credentialsPut),
  answers: { 200: wholeConnection },
});

const attempt = {
  attemptId: v.string(),
  status: v.picklist([
    'awaiting_authorization',
    'exchanging',
    'completed',
    'failed',
    'uncertain',
    'expired',
    'cancelled',
  ]),
  expiresAt: v.string(),
};
export const consentAttempt = named(
  'ConsentAttempt',
  v.object({ ...attempt, connection: v.string(), reason: v.nullable(v.string()), scopes: v.array(v.string()) }),
);

export const authorizeConnection = operation({
  ...write,
  method: 'POST',
  id: 'authorizeConnection',
  path: `${base}/:name/authorize`,
  summary: 'Begin consent to a connection; send the person to the authorizationUrl',
  description:
    'For a person, not a service account. The attempt is over after 15 minutes; an earlier one is cancelled.',
  body: named('NewConsent', authorizePost),
  answers: { 201: named('StartedConsent', v.object({ ...attempt, authorizationUrl: v.string() })) },
});

export const getConsentAttempt = operation({
  ...read,
  id: 'getConsentAttempt',
  path: `${base}/:name/attempts/:attempt`,
  summary: 'An attempt of consent, as it stands',
  answers: { 200: consentAttempt },
});

export const cancelConsentAttempt = operation({
  ...write,
  method: 'DELETE',
  id: 'cancelConsentAttempt',
  path: `${base}/:name/attempts/:attempt`,
  summary: 'Cancel an attempt that still waits for its person',
  answers: { 200: consentAttempt },
});

const browser = { tag: 'connections', method: 'GET', scope: 'public', permission: null } as const;

export const takeConsentCallback = operation({
  ...browser,
  id: 'takeConsentCallback',
  path: '/oauth/callback',
  summary: 'Where an authorization server sends a browser back; its state admits it, once',
  query: v.looseObject({}),
  answers: { 303: null },
});

export const showConsentError = operation({
  ...browser,
  id: 'showConsentError',
  path: '/oauth/error',
  summary: 'The page of a consent that did not come about; always the same',
  query: v.looseObject({}),
  answers: { 200: null },
});

export const clientMetadata = operation({
  ...browser,
  id: 'clientMetadata',
  path: '/oauth/client-metadata.json',
  summary: 'Who the service is to authorization servers; only where it is reached by https',
  query: v.looseObject({}),
  answers: {
    200: v.object({
      client_id: v.string(),
      client_name: v.string(),
      redirect_uris: v.array(v.string()),
      grant_types: v.array(v.string()),
      response_types: v.array(v.string()),
      token_endpoint_auth_method: v.literal('none'),
      application_type: v.literal('web'),
    }),
  },
});
