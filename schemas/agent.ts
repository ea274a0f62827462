// An agent document, or a fragment of one (docs/reference/agent-document.md). The root is open: unknown root keys are
// ignored. How fields merge stands here too, a class a field.

import { type AgentSpec, harnessNames } from '../internal/domain/spec.ts';
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
  whole,
} from './grammar.ts';
import { environment } from './environment.ts';
import { identity } from './identity.ts';
import { model, reasoningEffort } from './model.ts';
import { mount } from './mount.ts';
import { bindings } from './routing.ts';
import { annotations, envMap, labels } from './shared.ts';
import { tool } from './tool.ts';
import { trigger } from './trigger.ts';

const importPath = text('A path relative to this file, or @scope/name@version/subpath.', {
  most: 4096,
  example: '../fragments/base.yaml',
});
const imports = either(
  importPath,
  list(importPath, 'Several.'),
  'What is merged beneath this document, in order, later wins; @latest where a template names no version.',
  {
    stored: false,
    merge: 'none',
    example: ['../fragments/base.yaml', '@svc/templates@1/agents/reviewer.yaml'],
  },
);
const removed = either(
  text('One key.', { least: 0 }),
  list(text('A key.', { least: 0 }), 'Several keys.'),
  'One key or several.',
);
const spendCap = '\\d{1,10}(?:\\.\\d{1,10})?';
const cap = (what: string) =>
  text(`${what}, in USD: a decimal in quotes, at most 10 digits before and 10 behind the point.`, {
    least: 0,
    pattern: spendCap,
    what: 'a nonnegative decimal in quotes, at most 10 digits before and 10 behind the point',
    code: 'spend-cap',
    example: '25.00',
  });

export const session = group(
  {
    archiveAfterInactive: group(
      { seconds: whole(60, 31_536_000, 'Seconds.', { required: true, example: 86_400 }) },
      'When a session that nothing happens in is archived.',
      {
        otherwise: 'it is not',
      },
    ),
    observeSpawnedSessions: flag('Whether sessions receive the binding events of the sessions that they spawn.', {
      otherwise: 'true',
    }),
  },
  'How sessions of the agent live.',
  { default: {}, example: { archiveAfterInactive: { seconds: 86_400 } } },
);
export const spendCaps = group(
  {
    dailyUsd: cap('All sessions in a UTC day'),
    monthlyUsd: cap('All sessions in a UTC month'),
    maxPerSessionUsd: cap('One session'),
  },
  'What may be spent on models.',
  { example: { dailyUsd: '25.00' } },
);
export const manages = list(
  name('Name of an agent.'),
  'Agents whose sessions this one may stop; unknown names do nothing.',
  {
    most: 64,
    what: 'a list of agent names',
    example: ['worker'],
  },
);
export const systemPrompt = text('System prompt of every session.', {
  trim: true,
  most: 100_000,
  fileBacked: true,
  example: 'You triage issues.',
});
export const initialPrompt = text(
  'First message of a session that no trigger has a message for: a template over the event’s payload, {{ path }}.',
  {
    trim: true,
    most: 20_000,
    tokens: 'payload',
    fileBacked: true,
  },
);
export const displayTitle = text('Title of sessions: infer, or a template over the event’s payload, {{ path }}.', {
  trim: true,
  most: 20_000,
  tokens: 'payload',
  example: 'infer',
});
export const onReplace = text('First message of a session that replaces another.', {
  trim: true,
  most: 20_000,
  fileBacked: true,
  rule: 'Requires replace: auto.',
});
export const workingDirectory = text('Directory in which sessions start.', {
  trim: true,
  example: '/workspace/widgets',
});

/** Every field of the root, in the order in which the stored spec has them. */
export const agentFields = {
  name: name('Name of the agent, unique in the project.', {
    required: 'merged',
    merge: 'override',
    stored: false,
    example: 'triage',
  }),
  labels: as(labels, { merge: 'deep' }),
  annotations: as(annotations, { merge: 'deep' }),
  imports,
  import: as(imports, {
    description: 'Other spelling of imports, which wins where both are written.',
    legacyOf: 'imports',
  }),
  variables: record(
    '<name>',
    scalar('A text, number, true or false.', { notNull: true }),
    'Values of {{ $name }} tokens in imported content; never in this document’s own body.',
    {
      pattern: '[A-Za-z_][A-Za-z0-9_]*',
      stored: false,
      merge: 'none',
      example: { repository: 'acme/widgets' },
    },
  ),
  remove: group(
    {
      tools: as(removed, { description: 'Aliases of tools.' }),
      triggers: as(removed, {
        description: 'Triggers by name, else event, else joined events, else cron:<cron>:<timezone>.',
      }),
      env: as(removed, { description: 'Names of variables.' }),
    },
    'What is left out of the imports.',
    { code: 'remove-target', stored: false, merge: 'none', example: { tools: ['docs'] } },
  ),
  harness: choice(harnessNames, 'The agent runtime.', { required: 'merged', merge: 'override', example: 'harness-a' }),
  model: as(model, { merge: 'deep' }),
  reasoningEffort: as(reasoningEffort, { merge: 'override' }),
  systemPrompt: as(systemPrompt, { merge: 'append' }),
  initialPrompt: as(initialPrompt, { merge: 'append' }),
  displayTitle: as(displayTitle, { merge: 'override' }),
  environment: either(
    name('Name of an environment that another agent of the tree declares.'),
    environment,
    environment.description,
    {
      required: 'merged',
      merge: 'environment',
      example: environment.example,
    },
  ),
  env: as(envMap, { merge: 'leaves' }),
  identity: either(name('Name of an identity.'), identity, identity.description, {
    merge: 'deep',
    example: identity.example,
  }),
  mounts: list(mount, 'Repositories in the sandbox.', {
    default: [],
    what: 'a list of mounts',
    merge: 'mounts',
    example: [mount.example],
  }),
  tools: record('<alias>', tool, 'Tools by alias; harness-a reserves the alias workspace.', {
    pattern: '[A-Za-z0-9_.-]{1,128}',
    keyCode: 'name-invalid',
    keyMessage: 'A tool alias must be 1 to 128 of the characters A-Z a-z 0-9 _ . -',
    default: {},
    what: 'a map from alias to tool',
    merge: 'map',
    example: { svc: { kind: 'local', implementation: 'svc' } },
  }),
  triggers: list(trigger, 'What wakes the agent; without one it is started by hand or by another agent.', {
    default: [],
    what: 'a list of triggers',
    merge: 'triggers',
    example: [{ event: 'codehost.pull_request.opened', routing: { kind: 'spawn' } }],
  }),
  session: as(session, { merge: 'deep' }),
  spendCaps: as(spendCaps, { merge: 'deep' }),
  concurrency: choice([1] as const, 'At most one live session: the agent’s slot.', {
    code: 'concurrency-invalid',
    form: '1, the only value accepted',
    hint: 'Leave it out for an agent without a slot.',
    otherwise: 'as many as triggers start',
    merge: 'override',
  }),
  replace: choice(
    ['auto'] as const,
    'A stale or failed session of the slot is stopped and replaced on the latest spec.',
    {
      rule: 'Requires concurrency: 1.',
      otherwise: 'it is not',
      merge: 'override',
    },
  ),
  onReplace: as(onReplace, { merge: 'append' }),
  manages: as(manages, { merge: 'override' }),
  bindings: as(bindings, { merge: 'deep' }),
  workingDirectory: as(workingDirectory, { merge: 'override' }),
} as const;

export const agent = group(agentFields, 'An agent document, or a fragment that one imports.', { open: true });

/** Every key that the root of an agent document may have. */
export const rootKeys: readonly string[] = Object.keys(agentFields);
/** Root fields that take `file:` and `append:`. */
export const fileBacked: ReadonlySet<string> = new Set(
  Object.entries(agentFields).flatMap(([key, field]) => ('fileBacked' in field && field.fileBacked ? [key] : [])),
);
/** Root fields that steer compiling and are not in its result. */
export const controls: ReadonlySet<string> = new Set(
  Object.entries(agentFields).flatMap(([key, field]) => (field.merge === 'none' ? [key] : [])),
);

true satisfies Same<keyof Value<typeof agent>, keyof AgentSpec>;
true satisfies Same<Value<typeof session>, AgentSpec['session']>;
true satisfies Same<Value<typeof spendCaps>, NonNullable<AgentSpec['spendCaps']>>;
