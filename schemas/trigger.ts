// Triggers: on events and on a schedule (docs/reference/agent-document.md#triggers).

import { diagnosticCodes } from '../internal/domain/codes.ts';
import { knownEvents } from '../internal/domain/events.ts';
import type { CheckDeadline, CheckSpec, EndpointAuth } from '../internal/domain/spec.ts';
import {
  as,
  choice,
  either,
  flag,
  group,
  list,
  name,
  record,
  type Same,
  scalar,
  text,
  type Value,
  variants,
  whole,
} from './grammar.ts';
import { routing } from './routing.ts';

const eventKey = text('An event key. Known ones are offered; any other below a known prefix is accepted.', {
  trim: true,
  what: 'an event key',
  suggestions: [...knownEvents].sort(),
  example: 'codehost.pull_request.opened',
});

const compared = scalar('A text, number, true, false or null.', { exact: true });
const operators = {
  contains: as(compared, { description: 'The value is a list that holds this.' }),
  exists: flag('Whether the path has a value.'),
  in: list(compared, 'The value is one of these.', { least: 1, what: 'a list of scalars', code: 'where-clause' }),
  notIn: list(compared, 'There is no value, or none of these.', {
    least: 1,
    what: 'a list of scalars',
    code: 'where-clause',
  }),
  changedTo: as(compared, { description: 'The value is this, and was another before.' }),
} as const;
export const clause = either(
  compared,
  group(operators, 'Exactly one operator.', { alone: { noun: 'operator', code: 'where-clause' } }),
  'A scalar, which the value must equal, or exactly one operator.',
  {
    rule: 'An operator stands alone.',
    what: `a scalar, or a map with one of ${Object.keys(operators).join(', ')}`,
  },
);
/** Neither empty nor with space around it. */
const segment = '(?!\\s)[^.]+(?<!\\s)';
/** A bare key, or `$.` and segments. */
const wherePath = `${segment}|\\$(?:\\.${segment})+`;
export const where = record(
  '<path>',
  clause,
  'Path to clause; every clause must match. A path is a single bare key, or $.path.segments.',
  {
    pattern: wherePath,
    keyCode: 'where-path',
    keyMessage: `${diagnosticCodes['where-path']}: {key}`,
    keyPrefix: '$.',
    form: 'keys are single bare keys, or $.path.segments',
    what: 'a map from path to clause',
    default: {},
    example: { '$.codehost.repository.fullName': 'acme/widgets', '$.codehost.pullRequest.draft': false },
  },
);

export const deadline = group(
  {
    seconds: whole(1, 604_800, 'Seconds.', { required: true, example: 3600 }),
    conclusion: choice(['success', 'failure', 'skipped'] as const, 'How the check ends when they are over.', {
      required: true,
    }),
  },
  'A time, and the conclusion of a check that passes it.',
  { example: { seconds: 3600, conclusion: 'failure' } },
);
export const check = group(
  {
    name: name('Name of the check, unique in the trigger.', { required: true, example: 'review' }),
    displayName: text('Shown name, unique in the trigger.', { required: true, most: 256, example: 'Review' }),
    description: text('What the check says.', { required: true, most: 65_535 }),
    instructions: text('Delivered to the session with the check.', { most: 20_000 }),
    timeout: as(deadline, { description: 'Other spelling of beginTimeout.', legacyOf: 'beginTimeout', stored: false }),
    beginTimeout: as(deadline, {
      description: 'From the check’s creation to its beginning.',
      rule: 'Not beside timeout.',
    }),
    completeTimeout: as(deadline, { description: 'From its beginning to its completion.' }),
  },
  'A check on the pull request, which the session begins and completes.',
);
export const checks = list(check, 'Checks on the pull request.', {
  least: 1,
  what: 'a list of checks',
  code: 'check-invalid',
  misplaced: { code: 'checks-event', message: `${diagnosticCodes['checks-event']}, not for heartbeats` },
  rule: 'Only where every event begins with codehost.pull_request.',
});

const secretRef = name('Name of the secret that callers prove: the project’s, else the organization’s.', {
  required: true,
  lacking: 'Name the project secret that callers prove.',
  example: 'intake-key',
});
export const endpointAuth = variants(
  'kind',
  {
    hmac_sha256: group(
      { kind: choice(['hmac_sha256'] as const, 'A signature over the body.', { required: true }), secretRef },
      'Callers sign the body with the secret.',
    ),
    bearer_token: group(
      { kind: choice(['bearer_token'] as const, 'A bearer token.', { required: true }), secretRef },
      'Callers send the secret as a bearer token.',
    ),
    none: group({ kind: choice(['none'] as const, 'Anybody may call.', { required: true }) }, 'Anybody may call.', {
      others: { code: 'trigger-endpoint', message: 'auth.kind none takes no {key}' },
    }),
  },
  'How callers of the webhook endpoint prove themselves; required by the apply that first makes it.',
  { otherwise: 'as the endpoint has it', example: { kind: 'hmac_sha256', secretRef: 'intake-key' } },
);

const mergeName = text('Key by which triggers merge; never stored.', { what: 'a name', stored: false });
const shared = {
  where,
  message: text('What the session is told: a template over the event’s payload, {{ path }}.', {
    most: 20_000,
    tokens: 'payload',
    otherwise: 'the agent’s initialPrompt at a spawn, else what the payload says',
    example: 'Review {{ codehost.pullRequest.htmlUrl }}',
  }),
  fallback: flag('True: fires only where no other trigger on the event matched.', { default: false }),
  routing: as(routing, { lacking: 'Write routing: { kind: spawn }, deliver or bind.' }),
};

export const eventTrigger = group(
  {
    kind: choice(['event'] as const, 'An event trigger; may be left out.'),
    name: mergeName,
    event: as(eventKey, { description: 'The event.', rule: 'Exactly one of event and events.' }),
    events: list(eventKey, 'Several events that share all the rest; expands to one trigger each.', {
      least: 1,
      what: 'a list of event keys',
      stored: false,
      example: ['codehost.pull_request.opened', 'codehost.pull_request.reopened'],
    }),
    connection: name(
      'Connection that the events come through. codehost, tracker and chat events have one, the others none.',
      {
        otherwise: 'the project’s only connection of that provider',
      },
    ),
    optional: flag('True: the trigger is skipped while the connection has no active grant.', {
      otherwise: 'apply fails without an active grant',
    }),
    endpoint: name('Webhook endpoint that webhook events come through.', {
      rule: 'Required on webhook events, refused on others.',
      example: 'intake',
    }),
    auth: endpointAuth,
    attachedUserPrompt: text('First message of a spawned session, verbatim.', {
      most: 20_000,
      blank: false,
      rule: 'Only with routing.kind spawn.',
    }),
    checks,
    ...shared,
  },
  'Fires on events.',
  {
    others: { code: 'trigger-field', message: '{key} needs kind: heartbeat' },
    example: { event: 'codehost.pull_request.opened', routing: { kind: 'spawn' } },
  },
);
export const heartbeat = group(
  {
    kind: choice(['heartbeat'] as const, 'A trigger on a schedule.', { required: true }),
    name: mergeName,
    cron: text('Five fields: minute, hour, day of month, month, day of week.', {
      required: true,
      most: 512,
      what: 'a cron expression in quotes',
      example: '0 9 * * 1-5',
    }),
    timezone: text('Time zone by its IANA name.', {
      most: 128,
      what: 'the name of a time zone',
      default: 'UTC',
      example: 'Europe/Paris',
    }),
    ...shared,
  },
  'Fires on a schedule.',
  {
    others: { code: 'trigger-field', message: '{key} is not accepted on a heartbeat trigger' },
    example: { kind: 'heartbeat', cron: '0 9 * * 1-5', timezone: 'Europe/Paris', routing: { kind: 'spawn' } },
  },
);
export const trigger = variants(
  'kind',
  { event: eventTrigger, heartbeat },
  'Wakes the agent on an event, or on a schedule.',
  {
    absent: 'event',
    what: 'a trigger',
  },
);

true satisfies Same<Value<typeof deadline>, CheckDeadline>;
true satisfies Same<Value<typeof check>, CheckSpec>;
true satisfies Same<Value<typeof endpointAuth>, EndpointAuth>;
