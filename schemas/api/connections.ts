// Connections of a project to providers. Credentials go in and never come out.

import * as v from 'valibot';
import { connectionPost } from '../connection.ts';
import { json, projectPath } from './common.ts';
import { named, operation, pageOf, pageQuery, type Shape } from './operation.ts';

const entries = {
  id: v.string(),
  provider: v.string(),
  name: v.string(),
  status: v.picklist(['active', 'inactive']),
  /** Where the provider sends its webhooks. */
  intakeUrl: v.string(),
};
export const connection = named('Connection', v.object(entries));
export type Connection = Shape<typeof connection>;
export const wholeConnection = named('ConnectionDetail', v.object({ ...entries, config: json }));

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

export const deleteConnection = operation({
  ...write,
  method: 'DELETE',
  id: 'deleteConnection',
  path: `${base}/:name`,
  summary: 'Disconnect; optional triggers are skipped, required ones refuse it',
  answers: { 204: null },
});
