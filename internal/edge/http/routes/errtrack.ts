// Setup of error-tracking connections, and the selection of projects (docs/reference/error-tracking.md#setup). Answers are
// for the caller alone: nothing of them is kept by a browser, and no address of them goes on to another site.

import * as api from '../../../../schemas/api/errtrack.ts';
import type { AttemptRow } from '../../../adapters/store/connections/errtrack-attempts.ts';
import {
  cancelSetup,
  enterSelection,
  enterSetup,
  listOptions,
  readSetup,
  selectRecipients,
  type SetupCaller,
  startSetup,
  takeCallback,
  updateSelection,
} from '../../../flows/connections/connections.ts';
import type { Call, Route, Serving } from '../route.ts';
import { serve } from '../route.ts';

const headers = { 'cache-control': 'no-store', 'referrer-policy': 'no-referrer' };
const personOf = ({ principal }: Pick<Call, 'principal'>) => ({
  principalId: principal.id,
  kind: principal.kind,
  tokenOrgId: principal.tokenOrgId,
});
const callerOf = (call: Pick<Call, 'principal' | 'actor'>): SetupCaller => ({ actor: call.actor, ...personOf(call) });
/** Who calls, and for a setup whether there is an application, comes before what was sent. */
const setup: Serving = { enter: (ctx, access) => enterSetup(ctx, personOf(access)) };
const selection: Serving = { enter: (ctx, access) => enterSelection(ctx, personOf(access)) };

const show = (row: AttemptRow) => ({
  attemptId: row.id,
  status: row.state,
  reason: row.reason,
  expiresAt: row.expiresAt.toISOString(),
  organizationId: row.orgId,
  projectId: row.projectId,
  destinationProjectIds: [...row.destinations],
  providerOrganization: row.organization,
  region: row.region,
  projects: row.state === 'awaiting_selection' ? [...(row.choices ?? [])] : [],
  providerGrantId: row.grantId,
});
const answer = (row: AttemptRow) => ({ status: 200 as const, headers, body: show(row) });

export const errtrackRoutes: readonly Route[] = [
  serve(
    api.startErrtrackSetup,
    async (call) => {
      const { attempt, authorizationUrl } = await startSetup(call.ctx, callerOf(call), call.body);
      return { status: 201 as const, headers, body: { ...show(attempt), authorizationUrl } };
    },
    setup,
  ),
  serve(
    api.takeErrtrackCallback,
    async (call) => answer(await takeCallback(call.ctx, callerOf(call), call.body)),
    setup,
  ),
  serve(
    api.getErrtrackAttempt,
    async (call) => answer(await readSetup(call.ctx, callerOf(call), call.params.attempt)),
    setup,
  ),
  serve(
    api.selectErrtrackRecipients,
    async (call) => answer(await selectRecipients(call.ctx, callerOf(call), call.params.attempt, call.body.recipients)),
    setup,
  ),
  serve(
    api.cancelErrtrackAttempt,
    async (call) => answer(await cancelSetup(call.ctx, callerOf(call), call.params.attempt)),
    setup,
  ),
  serve(
    api.listErrtrackProjects,
    async (call) => {
      const items = await listOptions(call.ctx, callerOf(call), call.query);
      const connected = items.some(({ selectedProjectIds }) => selectedProjectIds.length > 0);
      const body = { items: items.map((one) => ({ ...one })), nextCursor: null, errtrackConnection: { connected } };
      return { status: 200 as const, headers, body };
    },
    selection,
  ),
  serve(
    api.updateErrtrackProjects,
    async (call) => ({
      status: 200 as const,
      headers,
      body: { ...(await updateSelection(call.ctx, callerOf(call), call.body)) },
    }),
    selection,
  ),
  serve(
    api.allowErrtrackProjects,
    async (call) => ({
      status: 200 as const,
      headers,
      body: { ...(await updateSelection(call.ctx, callerOf(call), { ...call.body, errtrackProjectIds: 'all' })) },
    }),
    selection,
  ),
];
