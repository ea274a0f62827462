// Receivers of a project: whom it tells of what happens in it. The key of a webhook goes in and never comes out.

import * as v from 'valibot';
import { conditionsList } from '../../internal/domain/notification.ts';
import { dryRun, dryRunQuery, json, projectPath, reasonBody, storable, timestamp } from './common.ts';
import { named, operation, pageOf, pageQuery } from './operation.ts';

const condition = v.picklist(conditionsList);
const kind = v.picklist(['chat', 'webhook']);
export const receiver = named(
  'Receiver',
  v.object({
    name: v.string(),
    kind,
    /** project: this project’s own; installation: of the configuration, which cannot be changed here. */
    scope: v.picklist(['project', 'installation']),
    /** What it is told of. */
    conditions: v.array(condition),
    suspended: v.boolean(),
    connection: v.optional(v.string()),
    channel: v.optional(v.string()),
    /** Of a webhook. Whole for who may change it; for others the rest of it is `/…`. */
    url: v.optional(v.string()),
    /** Of a webhook. */
    signed: v.optional(v.boolean()),
  }),
);

const settings = {
  /** Null, or absent where it is made: everything. */
  conditions: v.optional(
    v.nullable(
      v.pipe(
        v.array(condition),
        v.minLength(1),
        v.check((list) => new Set(list).size === list.length, 'Expected each condition once'),
      ),
    ),
  ),
  suspended: v.optional(v.boolean()),
  /** Of chat: the name of a chat connection. */
  connection: v.optional(v.pipe(v.string(), v.minLength(1), v.maxLength(128))),
  /** Of chat: the id of a channel. */
  channel: v.optional(v.pipe(v.string(), v.minLength(1), v.maxLength(200), storable)),
  /** Of webhook. */
  url: v.optional(v.pipe(v.string(), v.minLength(1), v.maxLength(4096), storable)),
};
const secret = v.pipe(v.string(), v.minLength(1), v.maxLength(4096), storable);

const common = { tag: 'notifications', scope: 'project' } as const;
const read = { ...common, method: 'GET', permission: 'receivers:read' } as const;
const write = { ...common, permission: 'receivers:write' } as const;
const base = `${projectPath}/receivers` as const;

export const listReceivers = operation({
  ...read,
  id: 'listReceivers',
  path: base,
  summary: 'Whom the project tells of what happens in it; those of the installation come with the first page',
  query: v.strictObject(pageQuery),
  answers: { 200: pageOf('ReceiverPage', receiver) },
});

export const createReceiver = operation({
  ...write,
  method: 'POST',
  id: 'createReceiver',
  path: base,
  summary: 'Tell a chat channel or a signed webhook of what happens in the project',
  confidential: true,
  body: named(
    'NewReceiver',
    v.strictObject({
      name: v.pipe(
        v.string(),
        v.regex(/^(?!\.{1,2}$)[A-Za-z0-9_.-]{1,128}$/, 'Expected 1 to 128 characters of A-Za-z0-9_.-, not only dots'),
      ),
      kind,
      ...settings,
      /** Of webhook: what it is signed with. */
      secret: v.optional(secret),
    }),
  ),
  answers: { 201: receiver },
});

export const getReceiver = operation({
  ...read,
  id: 'getReceiver',
  path: `${base}/:name`,
  summary: 'One receiver, never its key',
  answers: { 200: receiver },
});

export const updateReceiver = operation({
  ...write,
  method: 'PATCH',
  id: 'updateReceiver',
  path: `${base}/:name`,
  summary: 'Change a receiver; what is not given stays',
  confidential: true,
  body: named('ReceiverChange', v.strictObject({ ...settings, secret: v.optional(v.nullable(secret)) })),
  answers: { 200: receiver },
});

export const deleteReceiver = operation({
  ...write,
  method: 'DELETE',
  id: 'deleteReceiver',
  path: `${base}/:name`,
  summary: 'Tell it nothing any more',
  query: v.strictObject(dryRunQuery),
  body: reasonBody,
  answers: { 200: dryRun, 204: null },
});

export const testReceiver = operation({
  ...write,
  method: 'POST',
  id: 'testReceiver',
  path: `${base}/:name/test`,
  summary: 'Send a test, and say what became of it',
  answers: {
    200: named(
      'ReceiverTest',
      v.object({ name: v.string(), status: v.picklist(['done', 'refused', 'unknown']), code: v.optional(v.string()) }),
    ),
  },
});

export const notice = named(
  'Notice',
  v.object({
    id: v.string(),
    condition: v.picklist([...conditionsList, 'launch-failed']),
    /** Names and ids, by condition. */
    subject: json,
    at: timestamp,
    /** Whom it was told, and what became of that: origin is where its session came from. */
    tellings: v.array(
      v.object({
        receiver: v.string(),
        status: v.picklist(['pending', 'done', 'refused', 'unknown', 'dropped']),
        code: v.optional(v.string()),
      }),
    ),
  }),
);

export const listNotices = operation({
  ...read,
  id: 'listNotices',
  path: `${projectPath}/notices`,
  summary: 'What people were told, newest first, and what became of each telling',
  query: v.strictObject(pageQuery),
  answers: { 200: pageOf('NoticePage', notice) },
});
