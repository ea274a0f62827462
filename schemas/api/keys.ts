// Master keys of the installation: what each version seals, and their rotation. For administrators of the organization
// that the installation began with. No answer holds a key or a piece of one.

import * as v from 'valibot';
import { integer } from './common.ts';
import { named, operation, type Shape } from './operation.ts';

export const keyRotation = named(
  'KeyRotation',
  v.object({
    id: v.string(),
    toVersion: integer,
    status: v.picklist(['running', 'done', 'failed']),
    total: integer,
    done: integer,
    detail: v.nullable(v.string()),
    retired: v.array(integer),
    startedAt: v.string(),
    finishedAt: v.nullable(v.string()),
  }),
);
export type KeyRotation = Shape<typeof keyRotation>;

const keyVersion = named(
  'KeyVersion',
  v.object({
    version: integer,
    status: v.picklist(['current', 'in-use', 'unused', 'retired']),
    /** Stored values that it seals. */
    rows: integer,
    /** Values that it has sealed. */
    wraps: integer,
    held: v.boolean(),
    due: v.boolean(),
  }),
);
export const keyReport = named(
  'KeyReport',
  v.object({ current: integer, versions: v.array(keyVersion), rotation: v.nullable(keyRotation) }),
);
export type KeyReport = Shape<typeof keyReport>;

const common = { tag: 'keys', scope: 'self', permission: 'keys:rotate' } as const;

export const getKeys = operation({
  ...common,
  method: 'GET',
  id: 'getKeys',
  path: '/api/v1/keys',
  summary: 'Versions of the master key, how much each seals and has sealed, and the latest rotation',
  answers: { 200: keyReport },
});

export const rotateKeys = operation({
  ...common,
  method: 'POST',
  id: 'rotateKeys',
  path: '/api/v1/keys/rotate',
  summary: 'Seal every stored value with the last key of the key file; versions that nothing uses then are retired',
  answers: { 202: keyRotation },
});
