// Tools about the project: its resources, secrets, webhooks, connections and money.

import { agentByName } from '../../adapters/store/resources/agents.ts';
import { listConnections } from '../../adapters/store/connections/connections.ts';
import { toldStatus } from '../../domain/connection.ts';
import { listEndpoints } from '../../adapters/store/resources/endpoints.ts';
import { generatedByName } from '../../adapters/store/sessions/tool-callers.ts';
import { Fault } from '../../domain/fault.ts';
import type { Json } from '../../domain/json.ts';
import { messageOf } from '../../domain/messages.ts';
import { createSecret } from '../secrets/secrets.ts';
import { usageSummary } from '../sessions/sessions.ts';
import { applyFiles } from '../sync/sync.ts';
import { type EndpointView, reserveEndpoint, showEndpoint, showEndpoints } from '../resources.ts';
import { tool, type ToolSpec } from './table.ts';

const pageMax = 200;

const shown = ({ endpoint, ingestUrl, triggers, problems }: EndpointView) => ({
  name: endpoint.name,
  ingestUrl,
  status: endpoint.status,
  auth: endpoint.auth,
  // Every error of an endpoint is about its secret (docs/reference/webhook-endpoints.md#problems).
  secretPresent: isOpen(endpoint.auth) ? null : !problems.some(({ severity }) => severity === 'error'),
  reservedUntil: endpoint.reservedUntil,
  triggers,
  problems,
});
const isOpen = (auth: EndpointView['endpoint']['auth']): boolean => auth === null || auth.kind === 'none';

/** Texts of a change are prompts and the like: their beginning tells which one it is. */
const changeCharsMax = 500;
const shorten = (value: Json): Json =>
  typeof value === 'string' && value.length > changeCharsMax
    ? `${value.slice(0, changeCharsMax).toWellFormed()}… (${value.length} characters)`
    : value;
const shortened = <C extends { readonly from: Json; readonly to: Json }>(change: C): C => ({
  ...change,
  from: shorten(change.from),
  to: shorten(change.to),
});

export const projectTools: readonly ToolSpec[] = [
  tool({
    name: 'svc.secrets.create',
    description:
      'Create a secret of this project, with a value or with a random one that nobody is shown, not even you. The value is ' +
      'never answered. Agents use it by its name in env or in webhook auth.',
    effect: 'takes',
    run: async ({ ctx, caller, actor }, { name, scope, value, generate, overwrite, description }) => {
      const { orgId, id } = caller.project;
      const made = await createSecret(ctx, { orgId, projectId: scope === 'project' ? id : null }, actor, {
        name,
        overwrite,
        ...(value !== undefined && { value }),
        ...(generate !== undefined && { generate }),
        ...(description !== undefined && { description }),
      });
      return { name: made.name, scope, protected: made.protected };
    },
  }),
  tool({
    name: 'svc.resources.get',
    description:
      'Show what is stored of an agent, an environment or an identity of this project: its spec, after merging and defaults.',
    effect: 'none',
    run: async ({ ctx, caller }, { kind, name }) => {
      if (kind === 'Agent') {
        const agent = await agentByName(ctx.db, caller.project.id, name);
        if (agent === undefined) throw new Fault('not_found', 'not-found', messageOf('noAgent', name));
        return { kind, name, revision: agent.revision, owner: agent.repository ?? 'manual', spec: agent.spec };
      }
      const spec = await generatedByName(ctx.db, caller.project.id, kind, name);
      if (spec === undefined) throw new Fault('not_found', 'not-found', `There is no ${kind} ${name}.`);
      return { kind, name, spec };
    },
  }),
  tool({
    name: 'svc.resources.dry_run',
    description:
      'Check agent files: what applying them would change, and every mistake in them with file and line. Changes nothing.',
    effect: 'none',
    run: async ({ ctx, caller, actor }, { files, prune }) => {
      const project = caller.project;
      const request = { project, files, context: {}, dryRun: true, prune, adopt: false, actor };
      const { status, actions, diagnostics } = await applyFiles(ctx, request);
      const changed = actions.map((action) => ({ ...action, changes: action.changes.map(shortened) }));
      return { status, actions: changed, diagnostics };
    },
  }),
  tool({
    name: 'svc.webhooks.list',
    description:
      'List the webhook endpoints of this project: URL to post to, auth mode, whether its secret is there, triggers, problems. ' +
      'more: true means that there are others, which svc_webhooks_get shows by name.',
    effect: 'none',
    run: async ({ ctx, caller: { project } }) => {
      const rows = await listEndpoints(ctx.db, project.id, ctx.runtime.now(), { limit: pageMax + 1 });
      const views = await showEndpoints(ctx, project, rows.slice(0, pageMax));
      return { webhooks: views.map(shown), more: rows.length > pageMax };
    },
  }),
  tool({
    name: 'svc.webhooks.get',
    description:
      'Show one webhook endpoint of this project: URL to post to, auth mode, whether its secret is there, triggers, problems.',
    effect: 'none',
    run: async ({ ctx, caller }, { name }) => shown(await showEndpoint(ctx, caller.project, name)),
  }),
  tool({
    name: 'svc.webhooks.reserve',
    description:
      'Reserve the name of a webhook endpoint for an hour, so that its URL is known before an apply declares it.',
    effect: 'adds',
    run: async ({ ctx, caller, actor }, { name }) => shown(await reserveEndpoint(ctx, caller.project, name, actor)),
  }),
  tool({
    name: 'svc.connections.list',
    description: 'List the connections of this project to outside providers, without their credentials.',
    effect: 'none',
    run: async ({ ctx, caller }) => {
      const rows = await listConnections(ctx.db, caller.project.id, { limit: pageMax });
      return {
        connections: rows.map(({ name, provider, status }) => ({ name, provider, status: toldStatus(status) })),
      };
    },
  }),
];

/** Only with the capability `billing: read` or above. */
export const billingTools: readonly ToolSpec[] = [
  tool({
    name: 'svc.usage.get',
    description: 'Tokens and cost in USD of model calls so far.',
    effect: 'none',
    run: async ({ ctx, caller }, { of }) => {
      const whose =
        of === 'session'
          ? { sessionId: caller.sessionId }
          : of === 'agent'
            ? { agentId: caller.agentId }
            : { projectId: caller.project.id };
      return { of, usage: await usageSummary(ctx, whose) };
    },
  }),
];
