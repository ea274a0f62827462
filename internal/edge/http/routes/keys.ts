// Master keys of the installation: what each version seals, and their rotation. For administrators of the organization
// that the installation began with. No answer holds a key or a piece of one.

import * as api from '../../../../schemas/api/keys.ts';
import type { RotationRow } from '../../../adapters/store/secrets/keys.ts';
import { keyReport, startRotation } from '../../../flows/secrets/secrets.ts';
import { accepted, ok, type Route, serve } from '../route.ts';

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
  serve(api.getKeys, async ({ ctx }) => {
    const report = await keyReport(ctx);
    return ok({ ...report, rotation: report.rotation === null ? null : show(report.rotation) });
  }),
  serve(api.rotateKeys, async ({ ctx, actor }) => accepted(show(await startRotation(ctx, actor)))),
];
