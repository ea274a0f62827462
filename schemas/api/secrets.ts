// Secrets of a project and of an organization. Only reveal answers with a value.

import * as v from 'valibot';
import { secretPatch, secretPut, secretRotate } from '../secret.ts';
import { dryRun, dryRunQuery, integer, orgPath, projectPath, reasonBody } from './common.ts';
import { named, operation, pageOf, pageQuery, type Shape } from './operation.ts';

/** What is known of a secret; never its value. */
export const secret = named(
  'Secret',
  v.object({
    name: v.string(),
    scope: v.picklist(['organization', 'project']),
    description: v.nullable(v.string()),
    protected: v.boolean(),
    expiresAt: v.nullable(v.string()),
    idleExpirySeconds: v.nullable(integer),
    injection: v.nullable(v.object({ hosts: v.array(v.string()), header: v.string(), format: v.optional(v.string()) })),
    lastAccessedAt: v.nullable(v.string()),
    lastRotatedAt: v.nullable(v.string()),
    createdAt: v.string(),
    updatedAt: v.string(),
    expired: v.boolean(),
  }),
);
export type Secret = Shape<typeof secret>;

const secretPage = pageOf('SecretPage', secret);
const secretValue = named('SecretValue', v.object({ value: v.string() }));
const write = named('SecretWrite', secretPut);
const patch = named('SecretPatch', secretPatch);
const rotation = named('SecretRotation', secretRotate);

/** The same calls stand at both scopes: those without a value, */
function withoutValue<
  const P extends string,
  const S extends 'org' | 'project',
  const N extends 'OrganizationSecret' | 'Secret',
>(base: P, scope: S, noun: N, owner: string) {
  const common = { tag: 'secrets', scope, confidential: true } as const;
  const one = `${base}/:name` as const;
  return {
    list: operation({
      ...common,
      method: 'GET',
      id: `list${noun}s`,
      path: base,
      summary: `Secrets of ${owner}, expired ones included, never their values`,
      permission: 'secrets:list',
      query: v.strictObject(pageQuery),
      answers: { 200: secretPage },
    }),
    get: operation({
      ...common,
      method: 'GET',
      id: `get${noun}`,
      versioned: true,
      path: one,
      summary: 'One secret, never its value',
      permission: 'secrets:list',
      answers: { 200: secret },
    }),
    update: operation({
      ...common,
      method: 'PATCH',
      id: `update${noun}`,
      versioned: true,
      path: one,
      summary: 'Change what is not the value: expiry only while unprotected and not expired',
      permission: 'secrets:write',
      body: patch,
      answers: { 200: secret },
    }),
    remove: operation({
      ...common,
      method: 'DELETE',
      id: `delete${noun}`,
      versioned: true,
      path: one,
      summary: 'Delete a secret',
      permission: 'secrets:write',
      query: v.strictObject(dryRunQuery),
      body: reasonBody,
      answers: { 200: dryRun, 204: null },
    }),
  };
}

/** and those that take a value, and the one that answers with it. */
function withValue<
  const P extends string,
  const S extends 'org' | 'project',
  const N extends 'OrganizationSecret' | 'Secret',
>(base: P, scope: S, noun: N) {
  const common = { tag: 'secrets', scope, confidential: true } as const;
  const one = `${base}/:name` as const;
  return {
    write: operation({
      ...common,
      method: 'PUT',
      id: `write${noun}`,
      versioned: true,
      path: one,
      summary: 'Write a secret with its value; what is left out gets its default',
      permission: 'secrets:write',
      body: write,
      answers: { 200: secret, 201: secret },
    }),
    rotate: operation({
      ...common,
      method: 'POST',
      id: `rotate${noun}`,
      versioned: true,
      path: `${one}/rotate`,
      summary: 'Give a secret that is there a new value',
      permission: 'secrets:write',
      body: rotation,
      answers: { 200: secret },
    }),
    reveal: operation({
      ...common,
      method: 'POST',
      id: `reveal${noun}`,
      path: `${one}/reveal`,
      summary: 'The value of an unprotected secret of exactly this scope; recorded in the audit first',
      permission: 'secrets:reveal',
      answers: { 200: secretValue },
    }),
  };
}

const inProject = [`${projectPath}/secrets`, 'project', 'Secret'] as const;
const inOrganization = [`${orgPath}/secrets`, 'org', 'OrganizationSecret'] as const;
export const projectSecrets = { ...withoutValue(...inProject, 'a project'), ...withValue(...inProject) };
export const organizationSecrets = {
  ...withoutValue(...inOrganization, 'an organization'),
  ...withValue(...inOrganization),
};
