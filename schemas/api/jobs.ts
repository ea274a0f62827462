// Jobs of the installation that gave up. For administrators of the organization that the installation began with.

import * as v from 'valibot';
import { integer, timestamp } from './common.ts';
import { named, operation, pageOf, pageQuery } from './operation.ts';

const parkedJob = named(
  'ParkedJob',
  v.object({ id: v.string(), task: v.string(), attempts: integer, reason: v.string(), since: timestamp }),
);

export const listJobs = operation({
  tag: 'jobs',
  method: 'GET',
  scope: 'self',
  permission: 'jobs:retry',
  id: 'listJobs',
  path: '/api/v1/jobs',
  summary: 'Jobs that have used up their attempts, with the reason, newest first',
  query: v.strictObject(pageQuery),
  answers: { 200: pageOf('ParkedJobPage', parkedJob) },
});

export const retryJobs = operation({
  tag: 'jobs',
  method: 'POST',
  scope: 'self',
  permission: 'jobs:retry',
  id: 'retryJobs',
  path: '/api/v1/jobs/retry',
  summary: 'Give every job that gave up its attempts back',
  answers: { 200: named('RetriedJobs', v.object({ retried: integer })) },
});
