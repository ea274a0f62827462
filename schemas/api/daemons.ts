// The daemons of an installation, as they show themselves in its database. For administrators of the organization that the
// installation began with.

import * as v from 'valibot';
import { integer, timestamp } from './common.ts';
import { named, operation, pageOf, pageQuery } from './operation.ts';

export const daemon = named(
  'Daemon',
  v.object({
    id: v.string(),
    /** What it does: api, sync, route, schedule, session. */
    roles: v.array(v.string()),
    host: v.string(),
    pid: integer,
    /** Live: it has shown itself within 15 s; silent: it has not, and what it held is about to be taken over. */
    status: v.picklist(['live', 'silent']),
    startedAt: timestamp,
    beatAt: timestamp,
    /** The one that answers. */
    self: v.boolean(),
  }),
);

export const listDaemons = operation({
  tag: 'server',
  scope: 'self',
  permission: 'jobs:retry',
  method: 'GET',
  id: 'listDaemons',
  path: '/api/v1/daemons',
  summary: 'Daemons of the installation, oldest first',
  query: v.strictObject(pageQuery),
  answers: { 200: pageOf('DaemonPage', daemon) },
});
