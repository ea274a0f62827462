// The spec of an agent as it is stored and answered: canonical, with every default filled in. What an author may write is
// wider and stands in schemas/agent.ts.

import * as v from 'valibot';
import {
  bindingTargets,
  effortNames,
  harnessNames,
  onUnmatchedValues,
  providers,
  routeTargets,
} from '../../internal/domain/spec.ts';
import { integer } from './common.ts';
import { named } from './operation.ts';

const object = v.record(v.string(), v.unknown());
const texts = v.record(v.string(), v.string());
const maybe = v.exactOptional;

const secretRef = named('SecretRef', v.object({ $secret: v.string(), optional: maybe(v.literal(true)) }));
const env = v.record(v.string(), v.union([v.string(), secretRef]));
const eventContext = named(
  'EventContext',
  v.object({ bound: maybe(object), updated: maybe(object), unbound: maybe(object) }),
);

const scalar = v.union([v.string(), v.number(), v.boolean(), v.null()]);
const clause = named(
  'WhereClause',
  v.union([
    scalar,
    v.object({ contains: scalar }),
    v.object({ exists: v.boolean() }),
    v.object({ in: v.array(scalar) }),
    v.object({ notIn: v.array(scalar) }),
    v.object({ changedTo: scalar }),
  ]),
);
export const where = v.record(v.string(), clause);

const target = v.picklist(bindingTargets);
const routeTarget = v.picklist(routeTargets);
const onUnmatched = v.picklist(onUnmatchedValues);
export const routing = named(
  'Routing',
  v.variant('kind', [
    v.object({
      kind: v.literal('spawn'),
      bind: maybe(v.object({ target: routeTarget, context: maybe(object), eventContext: maybe(eventContext) })),
    }),
    v.object({
      kind: v.literal('deliver'),
      routeBy: maybe(v.object({ kind: v.picklist(['attributedSessions', 'allLiveSessions']) })),
      onUnmatched,
      bind: maybe(v.object({ target })),
    }),
    v.object({
      kind: v.literal('bind'),
      target: routeTarget,
      onUnmatched,
      release: v.union([v.literal(false), v.object({ context: v.nullable(object) })]),
      observedTarget: maybe(
        v.variant('action', [
          v.object({ action: v.literal('bind'), context: maybe(object), eventContext: maybe(eventContext) }),
          v.object({ action: v.literal('unbind'), eventContext: maybe(eventContext) }),
        ]),
      ),
    }),
  ]),
);

const deadline = v.object({ seconds: v.number(), conclusion: v.picklist(['success', 'failure', 'skipped']) });
const check = named(
  'Check',
  v.object({
    name: v.string(),
    displayName: v.string(),
    description: v.string(),
    instructions: maybe(v.string()),
    beginTimeout: maybe(deadline),
    completeTimeout: maybe(deadline),
  }),
);
const endpointAuth = named(
  'EndpointAuth',
  v.variant('kind', [
    v.object({ kind: v.literal('hmac_sha256'), secretRef: v.string() }),
    v.object({ kind: v.literal('bearer_token'), secretRef: v.string() }),
    v.object({ kind: v.literal('none') }),
  ]),
);
const agentTrigger = named(
  'AgentTrigger',
  v.variant('kind', [
    v.object({
      kind: v.literal('event'),
      event: v.string(),
      connection: maybe(v.string()),
      optional: maybe(v.boolean()),
      endpoint: maybe(v.string()),
      auth: maybe(endpointAuth),
      where,
      message: maybe(v.string()),
      attachedUserPrompt: maybe(v.string()),
      checks: maybe(v.array(check)),
      fallback: v.boolean(),
      routing,
    }),
    v.object({
      kind: v.literal('heartbeat'),
      cron: v.string(),
      timezone: v.string(),
      where,
      message: maybe(v.string()),
      fallback: v.boolean(),
      routing,
    }),
  ]),
);

const level = v.picklist(['none', 'read', 'write']);
const mount = named(
  'Mount',
  v.object({
    kind: v.literal('git'),
    repository: v.string(),
    mountPath: v.string(),
    ref: maybe(v.string()),
    depth: maybe(integer),
    auth: v.variant('kind', [
      v.object({ kind: v.literal('none') }),
      v.object({
        kind: v.literal('codehostApp'),
        installationId: maybe(v.string()),
        commitAuthor: maybe(v.object({ name: v.string(), email: v.string() })),
        capabilities: v.object({
          contents: level,
          pullRequests: level,
          issues: level,
          checks: level,
          actions: level,
          workflows: level,
          secrets: level,
          merge: v.picklist(['none', 'write']),
        }),
      }),
    ]),
  }),
);

const common = { disabled: maybe(v.boolean()), description: maybe(v.string()) };
const pair = { provider: v.string(), connection: v.string() };
const optional = { optional: maybe(v.boolean()) };
const remoteAuth = v.variant('kind', [
  v.object({ kind: v.literal('none') }),
  v.object({ kind: v.literal('bearer'), token: v.object({ $secret: v.string() }) }),
  v.object({ kind: v.literal('mcp_oauth'), connection: v.string(), ...optional }),
  v.object({ kind: v.literal('provider_oauth'), ...pair, ...optional }),
]);
const chatAuth = v.variant('kind', [
  v.object({ kind: v.literal('connection'), ...pair, ...optional }),
  v.object({ kind: v.literal('connections'), connections: v.array(v.object(pair)), ...optional }),
]);
const tool = named(
  'Tool',
  v.union([
    v.object({
      kind: v.literal('mcp_remote'),
      url: v.string(),
      transport: v.literal('streamable_http'),
      auth: remoteAuth,
      ...common,
    }),
    v.object({ kind: v.literal('connection'), ...pair, ...optional, ...common }),
    v.object({
      kind: v.literal('local'),
      implementation: v.literal('svc'),
      capabilities: v.object({ billing: level }),
      ...common,
    }),
    v.object({ kind: v.literal('local'), implementation: v.literal('chat'), auth: chatAuth, ...common }),
    v.object({ kind: v.literal('local'), implementation: v.literal('ping'), ...common }),
    v.object({ kind: v.literal('codehost'), tools: maybe(v.array(v.string())), ...common }),
  ]),
);

const policy = maybe(
  named(
    'BindingPolicy',
    v.object({
      lifecycle: v.picklist(['manual', 'held']),
      continuity: v.picklist(['session', 'agent']),
      bind: maybe(v.picklist(['onAttributedEvent', 'onMention'])),
      context: maybe(object),
      eventContext: maybe(eventContext),
    }),
  ),
);
type Target = (typeof bindingTargets)[number];
const policies = Object.fromEntries(bindingTargets.map((name) => [name, policy])) as {
  readonly [name in Target]: typeof policy;
};

const provider = v.picklist(providers);
const list = maybe(v.array(v.string()));
const model = named(
  'Model',
  v.object({
    provider,
    id: v.string(),
    gateway: maybe(
      v.object({
        models: v.array(v.string()),
        provider: maybe(
          v.object({
            allowFallbacks: maybe(v.boolean()),
            order: list,
            sort: maybe(v.picklist(['price', 'throughput', 'latency'])),
            only: list,
            ignore: list,
          }),
        ),
      }),
    ),
    fallbacks: maybe(v.array(v.object({ id: v.string(), provider }))),
  }),
);

export const agentSpec = named(
  'AgentSpec',
  v.object({
    labels: maybe(texts),
    annotations: maybe(texts),
    harness: v.picklist(harnessNames),
    model: maybe(model),
    reasoningEffort: maybe(v.picklist(effortNames)),
    systemPrompt: maybe(v.string()),
    initialPrompt: maybe(v.string()),
    displayTitle: maybe(v.string()),
    /** Name of an Environment. */
    environment: v.string(),
    env,
    /** Name of an Identity. */
    identity: maybe(v.string()),
    mounts: v.array(mount),
    tools: v.record(v.string(), tool),
    /** A trigger's ordinal is its index here. */
    triggers: v.array(agentTrigger),
    session: v.object({
      archiveAfterInactive: maybe(v.object({ seconds: v.number() })),
      observeSpawnedSessions: maybe(v.boolean()),
    }),
    spendCaps: maybe(
      v.object({ dailyUsd: maybe(v.string()), monthlyUsd: maybe(v.string()), maxPerSessionUsd: maybe(v.string()) }),
    ),
    concurrency: maybe(v.literal(1)),
    replace: maybe(v.literal('auto')),
    onReplace: maybe(v.string()),
    manages: list,
    bindings: v.object(policies),
    workingDirectory: maybe(v.string()),
  }),
);
