// API tokens: the caller's own, and those of an organization's members and service accounts.

import * as v from 'valibot';
import { expiresAt } from '../secret.ts';
import { displayName, dryRun, dryRunQuery, orgPath, reasonBody } from './common.ts';
import { namesOne, oneWho, whoEntries } from './members.ts';
import { named, operation, pageOf, pageQuery, type Shape } from './operation.ts';

const entries = {
  id: v.string(),
  name: v.string(),
  principal: v.object({ id: v.string(), kind: v.string(), name: v.string() }),
  /** The one organization that it opens; null for all of its principal's. */
  orgId: v.nullable(v.string()),
  createdAt: v.string(),
  expiresAt: v.nullable(v.string()),
  lastUsedAt: v.nullable(v.string()),
  revokedAt: v.nullable(v.string()),
};
export const token = named('Token', v.object(entries));
export type Token = Shape<typeof token>;
/** With its text, which is shown this once. */
export const createdToken = named('CreatedToken', v.object({ ...entries, token: v.string() }));
export type CreatedToken = Shape<typeof createdToken>;

const newToken = {
  name: displayName,
  /** Null, as left out: as long as the token of the call. */
  expiresAt: v.optional(expiresAt),
};
const page = pageOf('TokenPage', token);

export const listOwnTokens = operation({
  tag: 'tokens',
  method: 'GET',
  scope: 'self',
  permission: 'self:read',
  id: 'listOwnTokens',
  path: '/api/v1/tokens',
  summary: "The caller's own tokens, never their text",
  query: v.strictObject(pageQuery),
  answers: { 200: page },
});

export const createOwnToken = operation({
  tag: 'tokens',
  method: 'POST',
  scope: 'self',
  permission: 'self:write',
  id: 'createOwnToken',
  path: '/api/v1/tokens',
  summary: 'Create a token for the caller; its text is shown this once',
  body: v.strictObject(newToken),
  answers: { 201: createdToken },
});

export const revokeOwnToken = operation({
  tag: 'tokens',
  method: 'DELETE',
  scope: 'self',
  permission: 'self:write',
  id: 'revokeOwnToken',
  path: '/api/v1/tokens/:token',
  summary: 'Revoke one of the own tokens, by id',
  query: v.strictObject(dryRunQuery),
  body: reasonBody,
  answers: { 200: dryRun, 204: null },
});

export const listTokens = operation({
  tag: 'tokens',
  method: 'GET',
  scope: 'org',
  permission: 'tokens:read',
  id: 'listTokens',
  path: `${orgPath}/tokens`,
  summary: 'Tokens that open the organization, never their text',
  query: v.strictObject(pageQuery),
  answers: { 200: page },
});

export const createToken = operation({
  tag: 'tokens',
  method: 'POST',
  scope: 'org',
  permission: 'tokens:write',
  id: 'createToken',
  path: `${orgPath}/tokens`,
  summary: 'Create a token for a member or service account, for this organization alone; its text is shown this once',
  body: v.pipe(
    v.strictObject({ ...whoEntries, ...newToken }),
    v.check((input) => namesOne(input), oneWho),
  ),
  answers: { 201: createdToken },
});

export const revokeToken = operation({
  tag: 'tokens',
  method: 'DELETE',
  scope: 'org',
  permission: 'tokens:write',
  id: 'revokeToken',
  path: `${orgPath}/tokens/:token`,
  summary: 'Revoke a token, by id',
  query: v.strictObject(dryRunQuery),
  body: reasonBody,
  answers: { 200: dryRun, 204: null },
});
