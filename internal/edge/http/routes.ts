// Every route of the API but the server's own (routes/health.ts): one line per family. The order does not matter; two
// routes on one path, or one without a permission, fail the start.

import type { Route } from './route.ts';
import { agentRoutes } from './routes/agents.ts';
import { applyRoutes } from './routes/apply.ts';
import { auditRoutes } from './routes/audit.ts';
import { bindingRoutes } from './routes/bindings.ts';
import { callRoutes } from './routes/calls.ts';
import { connectionRoutes } from './routes/connections.ts';
import { daemonRoutes } from './routes/daemons.ts';
import { endpointRoutes } from './routes/endpoints.ts';
import { errtrackRoutes } from './routes/errtrack.ts';
import { eventRoutes } from './routes/events.ts';
import { intakeRoutes } from './routes/intake.ts';
import { jobRoutes } from './routes/jobs.ts';
import { keyRoutes } from './routes/keys.ts';
import { memberRoutes } from './routes/members.ts';
import { scheduleRoutes } from './routes/schedules.ts';
import { oauthRoutes } from './routes/oauth.ts';
import { overviewRoutes } from './routes/overview.ts';
import { receiverRoutes } from './routes/receivers.ts';
import { reconcileRoutes } from './routes/reconciles.ts';
import { repositoryRoutes } from './routes/repositories.ts';
import { sandboxRoutes } from './routes/sandbox.ts';
import { secretRoutes } from './routes/secrets.ts';
import { sessionResultRoutes } from './routes/session-results.ts';
import { sessionRoutes } from './routes/sessions.ts';
import { signinRoutes } from './routes/signin.ts';
import { tenancyRoutes } from './routes/tenancy.ts';
import { tokenRoutes } from './routes/tokens.ts';
import { triggerRoutes } from './routes/triggers.ts';
import { webhookRoutes } from './routes/webhooks.ts';

export const routes: readonly Route[] = [
  ...tenancyRoutes,
  ...memberRoutes,
  ...tokenRoutes,
  ...signinRoutes,
  ...auditRoutes,
  ...applyRoutes,
  ...secretRoutes,
  ...connectionRoutes,
  ...receiverRoutes,
  ...oauthRoutes,
  ...errtrackRoutes,
  ...keyRoutes,
  ...jobRoutes,
  ...daemonRoutes,
  ...sandboxRoutes,
  ...overviewRoutes,
  ...agentRoutes,
  ...endpointRoutes,
  ...eventRoutes,
  ...sessionRoutes,
  ...sessionResultRoutes,
  ...callRoutes,
  ...bindingRoutes,
  ...scheduleRoutes,
  ...triggerRoutes,
  ...repositoryRoutes,
  ...reconcileRoutes,
  ...intakeRoutes,
  ...webhookRoutes,
];

/** What a daemon without the role `api` serves for others that hand on what is asked of its sessions. */
export const hostRoutes: readonly Route[] = routes.filter(({ id }) =>
  ['execSession', 'execSessionInput', 'getSandbox', 'listSandboxes', 'reapSandboxes'].includes(id),
);
