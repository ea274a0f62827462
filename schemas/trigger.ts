// Triggers as an author may write them: on events and on a schedule (spec, Trigger resource).

import * as v from 'valibot';
import { KNOWN_EVENTS } from '../internal/domain/events.ts';
import { choice, described, flag, name, scalar, text, whole } from './common.ts';
import { routing } from './routing.ts';

/** Known keys first, so that an editor offers them; any other text is accepted too. */
const eventKey = v.union([v.picklist([...KNOWN_EVENTS].sort()), v.pipe(v.string(), v.minLength(1))]);

const clause = v.union([
  scalar,
  v.strictObject({ contains: scalar }),
  v.strictObject({ exists: v.boolean() }),
  v.strictObject({ in: v.pipe(v.array(scalar), v.minLength(1)) }),
  v.strictObject({ notIn: v.pipe(v.array(scalar), v.minLength(1)) }),
  v.strictObject({ changedTo: scalar }),
]);
/** A bare key, or `$.` and segments; a token may stand for either. */
const WHERE_PATH = /^(?:[^.]+|\$(?:\.[^.]+)+)$|\{\{/;
const where = described(
  v.record(v.pipe(v.string(), v.regex(WHERE_PATH)), clause),
  'Path to clause: a bare key, or $.path.segments. All must match.',
);

const deadline = v.strictObject({
  seconds: whole(1, 604_800, 'Seconds.'),
  conclusion: v.picklist(['success', 'failure', 'skipped']),
});

const check = v.strictObject({
  name: name('Name of the check.'),
  displayName: text(256, 'Shown name.'),
  description: text(65_535, 'What the check says.'),
  instructions: v.optional(text(20_000, 'Delivered with the check.')),
  timeout: v.optional(deadline),
  beginTimeout: v.optional(deadline),
  completeTimeout: v.optional(deadline),
});

const auth = described(
  v.strictObject({
    kind: v.optional(choice(['hmac_sha256', 'bearer_token', 'none'], 'How callers prove themselves.')),
    secretRef: v.optional(name('Name of the secret that callers prove.')),
  }),
  'Caller authentication of the webhook endpoint.',
);

const shared = {
  name: v.optional(text(1024, 'Merge key, never stored.')),
  where: v.optional(where),
  message: v.optional(text(20_000, 'Template rendered against the event payload: {{ path }}.')),
  fallback: v.optional(flag('True: fires only where no other trigger on the event matched.')),
  routing: v.optional(routing),
};

const eventTrigger = v.strictObject({
  kind: v.optional(v.literal('event')),
  event: v.optional(described(eventKey, 'The event; this or events.')),
  events: v.optional(described(v.pipe(v.array(eventKey), v.minLength(1)), 'Several events that share the rest.')),
  connection: v.optional(name('Connection of codehost, tracker and chat events.')),
  optional: v.optional(flag('True: skipped while the connection has no active grant.')),
  endpoint: v.optional(name('Webhook endpoint of webhook events.')),
  auth: v.optional(auth),
  attachedUserPrompt: v.optional(text(20_000, 'First message of a spawned session, verbatim.')),
  checks: v.optional(described(v.pipe(v.array(check), v.minLength(1)), 'Pull request checks.')),
  ...shared,
});

const heartbeat = v.strictObject({
  kind: v.optional(v.literal('heartbeat')),
  cron: v.optional(text(512, 'Five fields: minute, hour, day of month, month, day of week.')),
  timezone: v.optional(text(128, 'IANA time zone; UTC where absent.')),
  ...shared,
});

export const trigger = v.union([eventTrigger, heartbeat]);
