// The first page of a project and the stream of what changes in it (docs/reference/http-api.md#overview).

import * as api from '../../../../schemas/api/overview.ts';
import { diagnoseConsents } from '../../../flows/connections/connections.ts';
import { readOverview, watchChanges } from '../../../flows/console/console.ts';
import { diagnoseSessions } from '../../../flows/session-host/session-host.ts';
import { diagnose, diagnoseRoles } from '../../../flows/doctor.ts';
import { diagnoseKeys } from '../../../flows/secrets/secrets.ts';
import { listGrants } from '../../../flows/tenancy/tenancy.ts';
import { ok, type Route, serve, streaming } from '../route.ts';
import { showMe } from './tenancy.ts';

export const overviewRoutes: readonly Route[] = [
  serve(api.getOverview, async ({ ctx, project, principal, session, can }) => {
    const operates = can('jobs:retry');
    // What is wrong with a connection itself stands in the overview's own reading.
    const doctor = async () => [
      ...(await diagnoseRoles(ctx)),
      ...(await diagnose(ctx, project, { operates })),
      ...(await diagnoseConsents(ctx, project)),
      ...(await diagnoseSessions(ctx, project, { operates })),
      ...(await diagnoseKeys(ctx, { operates })),
    ];
    const [overview, grants] = await Promise.all([
      readOverview(ctx, project, { look: doctor, for: operates ? 'operators' : 'all' }),
      listGrants(ctx, principal.id, principal.tokenOrgId),
    ]);
    // The page is of one project: what the caller may do elsewhere is not part of it.
    const here = grants
      .filter(({ id }) => id === project.orgId)
      .map((org) => ({ ...org, projects: org.projects.filter(({ id }) => id === project.id) }));
    return ok({ ...overview, viewer: showMe(ctx, { principal, session, orgs: here, own: [] }) });
  }),
  serve(api.streamChanges, async ({ ctx, project, query, lastEventId, signal }) => {
    const given = query.topics?.split(',');
    const topics = api.topics.filter((topic) => given === undefined || given.includes(topic));
    const since = query.since === undefined ? undefined : new Date(query.since);
    return streaming(await watchChanges(ctx, { projectId: project.id, topics, after: lastEventId, since, signal }));
  }),
];
