// Secrets of a project and of an organization (contract, section 3). Metadata answers are built field by field: nothing
// that a row may hold besides can slip into one. Only reveal answers with a value.

import * as v from 'valibot';
import { listSecrets, type SecretMetadata, type SecretScope } from '../../../adapters/store/secrets/secrets.ts';
import {
  editSecret,
  findSecretMetadata,
  removeSecret,
  revealSecret,
  rotateSecretValue,
  writeSecret,
} from '../../../flows/secrets/secrets.ts';
import { secretName, secretPatch, secretPut, secretRotate } from '../../../../schemas/secret.ts';
import { Fault } from '../../../domain/fault.ts';
import { pageOf, pageQuery, pageSchema, readTextPage } from '../page.ts';
import { type Call, created, defineRoute, noContent, ok, type Route } from '../route.ts';

const metadata = v.object({
  name: v.string(),
  scope: v.picklist(['organization', 'project']),
  description: v.nullable(v.string()),
  protected: v.boolean(),
  expiresAt: v.nullable(v.string()),
  idleExpirySeconds: v.nullable(v.number()),
  injection: v.nullable(v.object({ hosts: v.array(v.string()), header: v.string(), format: v.optional(v.string()) })),
  lastAccessedAt: v.nullable(v.string()),
  lastRotatedAt: v.nullable(v.string()),
  createdAt: v.string(),
  updatedAt: v.string(),
  expired: v.boolean(),
});

const time = (date: Date | null): string | null => date?.toISOString() ?? null;
const show = (row: SecretMetadata) => ({
  name: row.name,
  scope: row.scope,
  description: row.description,
  protected: row.protected,
  expiresAt: time(row.expiresAt),
  idleExpirySeconds: row.idleExpirySeconds,
  injection: row.injection,
  lastAccessedAt: time(row.lastAccessedAt),
  lastRotatedAt: time(row.lastRotatedAt),
  createdAt: row.createdAt.toISOString(),
  updatedAt: row.updatedAt.toISOString(),
  expired: row.expired,
});

type Any = Pick<Call, 'params'>;

/** The name in the path. A name of another shape is told by its rule, never repeated. */
function nameOf({ params }: Any): string {
  const name = params['name'];
  if (v.is(secretName, name)) return name;
  throw new Fault('invalid', 'invalid-name', "A secret's name has 1 to 128 characters of A-Za-z0-9_.-");
}

/** The same calls stand at both scopes. */
interface Place {
  readonly base: string;
  readonly scope: 'org' | 'project';
  readonly what: string;
  scopeOf(call: Pick<Call, 'org' | 'project'>): SecretScope;
}

/** Calls without a value. */
function metadataRoutes({ base, scope, what, scopeOf }: Place): readonly Route[] {
  const one = `${base}/:name`;
  const common = { scope, confidential: true } as const;
  return [
    defineRoute({
      ...common,
      method: 'GET',
      path: base,
      summary: `Secrets of ${what}, expired ones included, never their values`,
      permission: 'secrets:list',
      query: v.strictObject(pageQuery),
      answers: { 200: pageSchema(metadata) },
      async handle(call) {
        const page = readTextPage(call.query);
        const rows = await listSecrets(call.ctx.db, scopeOf(call), {
          ...page,
          limit: page.limit + 1,
          now: call.ctx.runtime.now(),
        });
        return ok(pageOf(rows, page.limit, (row) => [row.name], show));
      },
    }),
    defineRoute({
      ...common,
      method: 'GET',
      path: one,
      summary: 'One secret, never its value',
      permission: 'secrets:list',
      answers: { 200: metadata },
      handle: async (call) => ok(show(await findSecretMetadata(call.ctx, scopeOf(call), nameOf(call)))),
    }),
    defineRoute({
      ...common,
      method: 'PATCH',
      path: one,
      summary: 'Change what is not the value: expiry only while unprotected and not expired',
      permission: 'secrets:write',
      body: secretPatch,
      answers: { 200: metadata },
      handle: async (call) => ok(show(await editSecret(call.ctx, scopeOf(call), call.actor, nameOf(call), call.body))),
    }),
    defineRoute({
      ...common,
      method: 'DELETE',
      path: one,
      summary: 'Delete a secret',
      permission: 'secrets:write',
      answers: { 204: null },
      async handle(call) {
        await removeSecret(call.ctx, scopeOf(call), call.actor, nameOf(call));
        return noContent;
      },
    }),
  ];
}

/** Calls that take a value, and the one that answers with it. */
function valueRoutes({ base, scope, scopeOf }: Place): readonly Route[] {
  const one = `${base}/:name`;
  const common = { scope, confidential: true } as const;
  return [
    defineRoute({
      ...common,
      method: 'PUT',
      path: one,
      summary: 'Write a secret with its value; what is left out gets its default',
      permission: 'secrets:write',
      body: secretPut,
      answers: { 200: metadata, 201: metadata },
      async handle(call) {
        const written = await writeSecret(call.ctx, scopeOf(call), call.actor, nameOf(call), call.body);
        return (written.created ? created : ok)(show(written.secret));
      },
    }),
    defineRoute({
      ...common,
      method: 'POST',
      path: `${one}/rotate`,
      summary: 'Give a secret that is there a new value',
      permission: 'secrets:write',
      body: secretRotate,
      answers: { 200: metadata },
      handle: async (call) =>
        ok(show(await rotateSecretValue(call.ctx, scopeOf(call), call.actor, nameOf(call), call.body.value))),
    }),
    defineRoute({
      ...common,
      method: 'POST',
      path: `${one}/reveal`,
      summary: 'The value of an unprotected secret of exactly this scope; recorded in the audit first',
      permission: 'secrets:reveal',
      answers: { 200: v.object({ value: v.string() }) },
      handle: async (call) => ok({ value: await revealSecret(call.ctx, scopeOf(call), call.actor, nameOf(call)) }),
    }),
  ];
}

const places: readonly Place[] = [
  {
    base: '/api/v1/orgs/:org/projects/:project/secrets',
    scope: 'project',
    what: 'a project',
    scopeOf: ({ project }) => ({ orgId: project.orgId, projectId: project.id }),
  },
  {
    base: '/api/v1/orgs/:org/secrets',
    scope: 'org',
    what: 'an organization',
    scopeOf: ({ org }) => ({ orgId: org.id, projectId: null }),
  },
];

export const secretRoutes: readonly Route[] = places.flatMap((place) => [
  ...metadataRoutes(place),
  ...valueRoutes(place),
]);
