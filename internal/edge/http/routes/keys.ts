// Master keys of the installation: what each version seals, and their rotation. For administrators of the organization
// that the installation began with. No answer holds a key or a piece of one.

import * as v from 'valibot';
import type { RotationRow } from '../../../adapters/store/secrets/keys.ts';
import { keyReport, startRotation } from '../../../flows/secrets/secrets.ts';
import { defineRoute, ok, type Route } from '../route.ts';

const rotation = v.object({
  id: v.string(),
  toVersion: v.number(),
  status: v.picklist(['running', 'done', 'failed']),
  total: v.number(),
  done: v.number(),
  detail: v.nullable(v.string()),
  retired: v.array(v.number()),
  startedAt: v.string(),
  finishedAt: v.nullable(v.string()),
});
const show = (row: RotationRow) => ({
  id: row.id,
  toVersion: row.toVersion,
  status: row.status,
  total: row.total,
  done: row.done,
  detail: row.detail,
  retired: row.retired,
  startedAt: row.startedAt.toISOString(),
  finishedAt: row.finishedAt?.toISOString() ?? null,
});

export const keyRoutes: readonly Route[] = [
  defineRoute({
    method: 'GET',
    path: '/api/v1/keys',
    summary: 'Versions of the master key, how much each seals and has sealed, and the latest rotation',
    scope: 'self',
    permission: 'keys:rotate',
    answers: {
      200: v.object({
        current: v.number(),
        versions: v.array(
          v.object({
            version: v.number(),
            status: v.picklist(['current', 'in-use', 'unused', 'retired']),
            rows: v.number(),
            wraps: v.number(),
            held: v.boolean(),
            due: v.boolean(),
          }),
        ),
        rotation: v.nullable(rotation),
      }),
    },
    async handle({ ctx }) {
      const report = await keyReport(ctx);
      return ok({ ...report, rotation: report.rotation === null ? null : show(report.rotation) });
    },
  }),
  defineRoute({
    method: 'POST',
    path: '/api/v1/keys/rotate',
    summary: 'Seal every stored value with the last key of the key file; versions that nothing uses then are retired',
    scope: 'self',
    permission: 'keys:rotate',
    answers: { 202: rotation },
    handle: async ({ ctx, actor }) => ({ status: 202, body: show(await startRotation(ctx, actor)) }),
  }),
];
