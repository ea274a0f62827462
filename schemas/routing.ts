// Routing objects and binding policies as an author may write them, legacy spellings included (spec, Routing object,
// Bindings and Versioning).

import * as v from 'valibot';
import { ON_UNMATCHED, ROUTE_TARGETS } from '../internal/domain/spec.ts';
import { choice, described, jsonObject } from './common.ts';

const lifecycle = v.optional(
  choice(['manual', 'held'], 'held: only a release: true bind trigger or an operator releases it.'),
);
const continuity = v.optional(choice(['session', 'agent'], 'agent: the claim survives the session.'));
const policy = { lifecycle, continuity };
const context = v.optional(jsonObject('Context stamped on the binding.'));
const eventContext = v.optional(
  v.strictObject({
    bound: v.optional(jsonObject('With the bound event.')),
    updated: v.optional(jsonObject('With the updated event.')),
    unbound: v.optional(jsonObject('With the unbound event.')),
  }),
);
const target = v.optional(choice(ROUTE_TARGETS, 'Type of the target that the event must have.'));
const onUnmatched = v.optional(choice(ON_UNMATCHED, 'What happens where nothing receives the event.'));

const spawn = v.strictObject({
  kind: v.optional(v.literal('spawn')),
  bind: v.optional(v.strictObject({ target, context, eventContext, ...policy })),
});

const deliver = v.strictObject({
  kind: v.optional(v.picklist(['deliver', 'deliverOrSpawn'])),
  routeBy: v.optional(
    v.strictObject({
      kind: v.optional(
        choice(
          ['attributedSessions', 'allLiveSessions', 'attributedRuns', 'allLiveRuns', 'singleton', 'ownedArtifact'],
          'attributedSessions or allLiveSessions; the others are legacy spellings.',
        ),
      ),
      artifactType: target,
    }),
  ),
  onUnmatched,
  bind: v.optional(v.strictObject({ target: v.optional(v.literal('chat.thread')), ...policy })),
});

const observedTarget = v.strictObject({ action: v.optional(v.picklist(['bind', 'unbind'])), context, eventContext });

const bind = v.strictObject({
  kind: v.optional(v.literal('bind')),
  target,
  onUnmatched,
  release: v.optional(
    v.union([v.boolean(), v.strictObject({ context: v.optional(v.nullable(jsonObject('Context of the release.'))) })]),
  ),
  observedTarget: v.optional(observedTarget),
  ...policy,
});

export const routing = described(v.union([spawn, deliver, bind]), 'What a matched event does: spawn, deliver or bind.');

const bindingPolicy = v.optional(
  v.strictObject({
    ...policy,
    bind: v.optional(choice(['onAttributedEvent', 'onMention'], 'When a session takes the binding by itself.')),
    context,
    eventContext,
  }),
);

export const bindings = described(
  v.strictObject({
    'codehost.pull_request': bindingPolicy,
    'codehost.issue': bindingPolicy,
    'chat.thread': bindingPolicy,
    'tracker.issue': bindingPolicy,
    'svc.session': bindingPolicy,
  }),
  'Policies of bindings, by type of target.',
);
