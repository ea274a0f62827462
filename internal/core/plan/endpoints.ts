// Webhook endpoints that an apply creates, promotes, adopts or inherits (docs/reference/webhook-endpoints.md#declaring).

import { canonicalJson, type Json } from '../../domain/json.ts';
import type { EndpointAuth, EventTrigger } from '../../domain/spec.ts';
import type { Facts, Report } from './stored.ts';
import { checkEndpointSecret, checkIdleExpiry } from './required.ts';
import type { DesiredResource, PlannedReceipt, Writes } from './types.ts';

export interface WebhookAt {
  readonly agent: DesiredResource;
  readonly ordinal: number;
  readonly trigger: EventTrigger & { readonly endpoint: string };
}

export interface EndpointPlan {
  readonly writes: Writes['endpoints'];
  readonly receipts: readonly PlannedReceipt[];
}

const authText = (auth: EndpointAuth): string => canonicalJson(auth as unknown as Json);
const describe = (auth: EndpointAuth): string =>
  auth.kind === 'none' ? 'none' : `${auth.kind} with secretRef ${auth.secretRef}`;

/** The first auth that the tree declares for each endpoint; compile has refused two that differ. */
function declaredAuth(webhooks: readonly WebhookAt[]): Map<string, EndpointAuth> {
  const declared = new Map<string, EndpointAuth>();
  for (const { trigger } of webhooks) {
    if (trigger.auth !== undefined && !declared.has(trigger.endpoint)) declared.set(trigger.endpoint, trigger.auth);
  }
  return declared;
}

/** A reservation is not an endpoint yet: the apply that declares it with auth promotes it. */
export function planEndpoints(facts: Facts, webhooks: readonly WebhookAt[], report: Report): EndpointPlan {
  const declared = declaredAuth(webhooks);
  const writes = new Map<string, EndpointAuth>();
  const receipts: PlannedReceipt[] = [];
  for (const at of webhooks) {
    const { endpoint: name, auth, event } = at.trigger;
    const stored = facts.endpointByName.get(name)?.auth ?? null;
    const create = declared.get(name);
    if (stored !== null && auth !== undefined && authText(stored) !== authText(auth)) {
      report({
        resource: at.agent,
        path: ['triggers', at.ordinal, 'auth'],
        code: 'endpoint-auth-conflict',
        message: `Webhook endpoint ${name} exists with auth ${describe(stored)}; ${describe(auth)} differs from it`,
        hint: `Leave auth out to use the stored one, or delete the endpoint first: svc endpoint delete ${name}`,
      });
    } else if (stored === null && create === undefined) {
      report({
        resource: at.agent,
        path: ['triggers', at.ordinal, 'endpoint'],
        code: 'endpoint-missing',
        message: `Webhook endpoint ${name} does not exist; include auth to create it`,
      });
    } else if (stored === null && create !== undefined) writes.set(name, create);
    if (auth !== undefined && auth.kind !== 'none') {
      checkEndpointSecret(facts, at.agent, at.ordinal, auth.secretRef, report);
    }
    const proof = auth ?? stored ?? create;
    if (proof !== undefined && proof.kind !== 'none') {
      const behind = { ordinal: at.ordinal, endpoint: name, name: proof.secretRef, isOwn: auth !== undefined };
      checkIdleExpiry(facts, at.agent, behind, report);
    }
    receipts.push({ agent: at.agent.name, event, endpoint: name });
  }
  return {
    writes: [...writes].map(([name, auth]) => ({ name, auth })).sort((a, b) => (a.name < b.name ? -1 : 1)),
    receipts,
  };
}
