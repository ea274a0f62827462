// Routing objects and binding policies (docs/reference/agent-document.md#triggers-routing).

import {
  type BindingPolicy,
  type BindingTarget,
  chatTargets,
  onUnmatchedValues,
  routeTargets,
} from '../internal/domain/spec.ts';
import { as, choice, either, flag, free, group, type Misplaced, type Same, type Value, variants } from './grammar.ts';

export const eventContext = group(
  {
    bound: free('With the event of a binding that is made.'),
    updated: free('With the event of a binding that changes.'),
    unbound: free('With the event of a binding that ends.'),
  },
  'Annotations of the events that transitions of the binding emit.',
  { example: { bound: { phase: 'started' } } },
);
const context = free('Context that bindings of the target carry.', { example: { phase: 'review' } });

export const lifecycles = ['manual', 'held'] as const;
export const continuities = ['session', 'agent'] as const;
export const modes = ['onAttributedEvent', 'onMention'] as const;
export const lifecycle = choice(
  lifecycles,
  'manual: its holder may release it. held: only a releasing trigger, an operator or a replacement may.',
  {
    rule: 'held needs a bind trigger on the same target with release: true.',
  },
);
export const continuity = choice(
  continuities,
  'session: released when its session is archived. agent: the claim is the agent’s and rolls on to a replacement.',
);
/** `lifecycle` and `continuity` as routes carry them: compiled into `bindings`. */
const inline = {
  lifecycle: as(lifecycle, { stored: false, otherwise: 'as bindings says' }),
  continuity: as(continuity, { stored: false, otherwise: 'as bindings says' }),
};

export const bindingPolicy = group(
  {
    lifecycle: as(lifecycle, { default: 'manual' }),
    continuity: as(continuity, { default: 'session' }),
    bind: choice(
      modes,
      'When a session takes the binding by itself: onAttributedEvent on pull requests, onMention on chat threads.',
      {
        otherwise: 'it does not',
      },
    ),
    context,
    eventContext,
  },
  'How bindings of the target behave.',
  { example: { continuity: 'agent' } },
);
export const bindings = group(
  {
    'codehost.pull_request': bindingPolicy,
    'codehost.issue': bindingPolicy,
    'chat.thread': bindingPolicy,
    'tracker.issue': bindingPolicy,
    'svc.session': bindingPolicy,
  },
  'Policies of bindings, by type of target.',
  {
    what: 'a map from binding target to policy',
    default: {},
    example: { 'codehost.pull_request': { bind: 'onAttributedEvent' } },
  },
);

const target = choice(routeTargets, 'Type of target that the event must have.', {
  required: true,
  code: 'binding-target',
});
const onUnmatched = choice(
  onUnmatchedValues,
  'What happens where nothing receives the event: drop it, record a warning or an error, or spawn a session.',
  {
    default: 'drop',
  },
);

export const spawnBind = group(
  { target, context, eventContext, ...inline },
  'A binding that the new session gets, to the event’s target.',
  {
    example: { target: 'codehost.pull_request' },
  },
);
const others: Misplaced = {
  code: 'routing-invalid',
  message: '{key} belongs to {owners} routing and is not accepted with kind {own}',
};
export const spawn = group(
  { kind: choice(['spawn'] as const, 'Starts a fresh session.', { required: true }), bind: spawnBind },
  'Starts a fresh session.',
  { others, example: { kind: 'spawn' } },
);

/** A delivery with `onUnmatched: spawn`. */
export const legacyKind = 'deliverOrSpawn';
export const routeByList = ['attributedSessions', 'allLiveSessions'] as const;
/** Spellings of `routeBy.kind` that normalize: to a kind, to none, or to a bind route over `artifactType`. */
export const legacyRouteBy: { readonly [spelling: string]: (typeof routeByList)[number] } = {
  attributedRuns: 'attributedSessions',
  allLiveRuns: 'allLiveSessions',
};
export const legacySingleton = 'singleton';
export const legacyOwned = 'ownedArtifact';
export const routeBy = group(
  {
    kind: choice(
      routeByList,
      'attributedSessions: those bound to the event’s chat thread. allLiveSessions: every live session of the agent.',
      {
        required: true,
        code: 'routing-invalid',
        legacy: [...Object.keys(legacyRouteBy), legacySingleton, legacyOwned],
      },
    ),
    artifactType: choice(
      routeTargets,
      'Legacy: beside kind ownedArtifact, the target of the bind route that it becomes.',
      { code: 'binding-target', stored: false },
    ),
  },
  'Which sessions receive the event.',
  {
    what: 'a map with a kind',
    otherwise:
      'the one session in the agent’s slot, which needs concurrency: 1 or a slot delivery with onUnmatched: spawn',
    example: { kind: 'allLiveSessions' },
  },
);
export const deliverBind = group(
  { target: choice(chatTargets, 'The event’s chat thread.', { required: true, code: 'binding-target' }), ...inline },
  'A binding of the thread to the session that the event is delivered to.',
  // A path alone does not tell it from the bind of a spawn.
  { hint: 'For example: bind: { target: chat.thread }', example: { target: 'chat.thread' } },
);
export const deliver = group(
  {
    kind: choice(['deliver'] as const, 'Delivers to a live session.', { required: true, legacy: [legacyKind] }),
    routeBy,
    onUnmatched,
    bind: deliverBind,
  },
  'Delivers into live sessions.',
  { others, example: { kind: 'deliver', onUnmatched: 'spawn' } },
);

export const observedTarget = variants(
  'action',
  {
    bind: group(
      { action: choice(['bind'] as const, 'Binds the observer.', { required: true }), context, eventContext },
      'After delivering, binds the observer to the target that the observed event carries.',
    ),
    unbind: group(
      { action: choice(['unbind'] as const, 'Releases the observer’s claim.', { required: true }), eventContext },
      'Releases the observer’s own claim on it.',
    ),
  },
  'What the observing session does with the target that a binding event tells of.',
  {
    what: 'a map with action bind or unbind',
    code: 'observed-target',
    rule: 'Only with target: svc.session, on svc.session.binding events.',
  },
);
export const releaseObject = group(
  { context: free('Context of the release.', { orNull: true }) },
  'Releases, with a context.',
  {
    what: 'true, false or a map with context',
  },
);
export const bind = group(
  {
    kind: choice(['bind'] as const, 'Delivers to the session that is bound to the target.', { required: true }),
    target: as(target, { example: 'codehost.pull_request' }),
    onUnmatched,
    release: either(
      flag('Whether it releases.'),
      releaseObject,
      'Whether the binding ends after the event is routed, and with which context.',
      {
        default: false,
        what: 'true, false or a map with context',
        rule: 'Not on agent.singleton.',
      },
    ),
    observedTarget,
    ...inline,
  },
  'Delivers to the session that is bound to the event’s target.',
  { others, example: { kind: 'bind', target: 'codehost.pull_request', onUnmatched: 'spawn' } },
);

export const routing = variants(
  'kind',
  { spawn, deliver, bind },
  'What a matched event does: spawn, deliver or bind.',
  {
    required: true,
    what: 'a map with kind spawn, deliver or bind',
    code: 'routing-invalid',
    legacy: { [legacyKind]: 'deliver' },
    choose: 'Write spawn, deliver or bind.',
    example: { kind: 'spawn' },
  },
);

true satisfies Same<keyof typeof bindings.fields, BindingTarget>;
true satisfies Same<Value<typeof bindingPolicy>, BindingPolicy>;
