// Setup of error-tracking connections, and what each project selects of them.

import * as v from 'valibot';
import { named, operation, type Shape } from './operation.ts';

const nonempty = v.pipe(v.string(), v.minLength(1), v.maxLength(200));
const providerId = v.pipe(v.string(), v.regex(/^[1-9][0-9]{0,18}$/, 'a positive decimal string'));
const uuid = v.pipe(v.string(), v.regex(/^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$/, 'a UUID'));

export const providerProject = named('ErrtrackProject', v.object({ id: v.string(), slug: v.string() }));
export const attempt = named(
  'ErrtrackAttempt',
  v.object({
    attemptId: v.string(),
    status: v.picklist([
      'awaiting_authorization',
      'exchanging',
      'awaiting_selection',
      'completing',
      'completed',
      'failed',
      'expired',
      'cancelled',
      'uncertain',
    ]),
    reason: v.nullable(v.string()),
    expiresAt: v.string(),
    organizationId: v.string(),
    projectId: v.string(),
    destinationProjectIds: v.array(v.string()),
    /** Null before it is discovered. */
    providerOrganization: v.nullable(v.object({ id: v.string(), slug: v.string(), name: v.string() })),
    region: v.nullable(v.picklist(['us', 'de'])),
    /** While a selection is waited for. */
    projects: v.array(providerProject),
    providerGrantId: v.nullable(v.string()),
  }),
);
export type ErrtrackAttempt = Shape<typeof attempt>;
export const startedAttempt = named(
  'StartedErrtrackAttempt',
  v.object({ ...attempt.pipe[0].entries, authorizationUrl: v.nullable(v.string()) }),
);
export const connectionOption = named(
  'ErrtrackConnectionOption',
  v.object({
    id: v.string(),
    name: v.string(),
    organizationSlug: v.string(),
    organizationName: v.string(),
    region: v.picklist(['us', 'de']),
    projects: v.array(providerProject),
    selectedProjectIds: v.array(v.string()),
    available: v.boolean(),
  }),
);
export type ErrtrackConnectionOption = Shape<typeof connectionOption>;
export const connectionOptions = named(
  'ErrtrackConnectionOptions',
  v.object({
    items: v.array(connectionOption),
    nextCursor: v.null(),
    /** Whether this project has selected anything. */
    errtrackConnection: v.object({ connected: v.boolean() }),
  }),
);

const common = { tag: 'errtrack', scope: 'self' } as const;
const write = { ...common, permission: 'self:write' } as const;
const read = { ...common, method: 'GET', permission: 'self:read' } as const;
const description =
  'Needs an active administrator of the organization, in person, with `provider_grants:write` and `provider_grants:use`.';
export const installations = '/api/v1/connections/errtrack/installations' as const;

export const startErrtrackSetup = operation({
  ...write,
  method: 'POST',
  id: 'startErrtrackSetup',
  path: installations,
  summary: 'Begin to connect an error tracker; send the person to the authorizationUrl',
  description,
  body: named(
    'NewErrtrackAttempt',
    v.strictObject({
      organizationId: nonempty,
      projectId: nonempty,
      destinationProjectIds: v.optional(v.pipe(v.array(nonempty), v.minLength(1), v.maxLength(100))),
      resume: v.optional(v.boolean()),
    }),
  ),
  answers: { 201: startedAttempt },
});

export const takeErrtrackCallback = operation({
  ...write,
  method: 'POST',
  id: 'takeErrtrackCallback',
  path: `${installations}/callback`,
  summary: 'What the provider gave the person back; exchanged once',
  description,
  confidential: true,
  body: named(
    'ErrtrackCallback',
    v.strictObject({
      state: v.pipe(v.string(), v.regex(/^[A-Za-z0-9_-]{43}$/, '43 characters of base64url')),
      installationId: uuid,
      code: v.pipe(v.string(), v.regex(/^[\x20-\x7e]{1,8192}$/, '1 to 8,192 characters of printable ASCII')),
    }),
  ),
  answers: { 200: attempt },
});

export const getErrtrackAttempt = operation({
  ...read,
  id: 'getErrtrackAttempt',
  path: `${installations}/:attempt`,
  summary: 'How a setup stands',
  description,
  answers: { 200: attempt },
});

export const selectErrtrackRecipients = operation({
  ...write,
  method: 'PUT',
  id: 'selectErrtrackRecipients',
  path: `${installations}/:attempt/recipients`,
  summary: 'Choose which project gets which of the provider’s, and publish',
  description,
  body: named(
    'ErrtrackRecipients',
    v.strictObject({
      recipients: v.pipe(
        v.array(v.strictObject({ projectId: nonempty, errtrackProjectId: providerId })),
        v.minLength(1),
        v.maxLength(100),
      ),
    }),
  ),
  answers: { 200: attempt },
});

export const cancelErrtrackAttempt = operation({
  ...write,
  method: 'DELETE',
  id: 'cancelErrtrackAttempt',
  path: `${installations}/:attempt`,
  summary: 'Cancel an unfinished setup; nothing is undone at the provider',
  description,
  answers: { 200: attempt },
});

export const listErrtrackProjects = operation({
  ...read,
  id: 'listErrtrackProjects',
  path: '/api/v1/connections/errtrack/projects',
  summary: 'The organization’s error-tracking connections, and what a project has selected of them',
  description,
  query: v.strictObject({ organizationId: nonempty, projectId: nonempty }),
  answers: { 200: connectionOptions },
});

export const updateErrtrackProjects = operation({
  ...write,
  method: 'PUT',
  id: 'updateErrtrackProjects',
  path: '/api/v1/connections/errtrack/projects',
  summary: 'Select a project’s provider projects; nothing disconnects it',
  description,
  body: named(
    'ErrtrackSelection',
    v.strictObject({
      organizationId: nonempty,
      projectId: nonempty,
      providerGrantId: nonempty,
      errtrackProjectIds: v.pipe(v.array(providerId), v.maxLength(100)),
    }),
  ),
  answers: { 200: connectionOption },
});

export const allowErrtrackProjects = operation({
  ...write,
  method: 'PUT',
  id: 'allowErrtrackProjects',
  path: '/api/v1/connections/errtrack/projects/all',
  summary: 'Select every provider project that the connection sees, however many',
  description,
  body: named(
    'ErrtrackAllowance',
    v.strictObject({ organizationId: nonempty, projectId: nonempty, providerGrantId: nonempty }),
  ),
  answers: { 200: connectionOption },
});
