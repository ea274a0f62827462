// An agent document or a fragment of one, as an author may write it (spec, Agent document). The root is open: unknown
// root keys are ignored.

import * as v from 'valibot';
import { EFFORTS, HARNESSES } from '../internal/domain/spec.ts';
import { choice, described, envMap, flag, name, prompt, stringMap, text, whole } from './common.ts';
import { environment } from './environment.ts';
import { identity } from './identity.ts';
import { model } from './model.ts';
import { mount } from './mount.ts';
import { bindings } from './routing.ts';
import { tool } from './tool.ts';
import { trigger } from './trigger.ts';

const oneOrMore = v.union([v.string(), v.array(v.string())]);
const imports = described(
  v.union([text(4096, 'One import.'), v.array(v.pipe(v.string(), v.minLength(1)))]),
  'Relative paths or @scope/name@version/subpath; merged in order, later wins, this document last.',
);
const cap = v.optional(described(v.pipe(v.string(), v.regex(/^\d{1,10}(?:\.\d{1,10})?$|\{\{/)), 'Decimal in quotes.'));
const literalAuto = described(v.literal('auto'), 'A stale or failed slot session is replaced on the latest spec.');

/** By field: a bare `key:` counts as not written. */
const fields = {
  name: name('Name of the agent, unique in the project.'),
  labels: stringMap('Labels.'),
  annotations: stringMap('Annotations.'),
  imports,
  import: described(imports, 'Legacy spelling of imports.'),
  variables: described(
    v.record(v.pipe(v.string(), v.regex(/^[A-Za-z_][A-Za-z0-9_]*$/)), v.union([v.string(), v.number(), v.boolean()])),
    'Values of {{ $name }} tokens in imported content.',
  ),
  remove: described(
    v.strictObject({ tools: v.optional(oneOrMore), triggers: v.optional(oneOrMore), env: v.optional(oneOrMore) }),
    'What to leave out of the imports: tool aliases, triggers by name or event, variables by name.',
  ),
  harness: choice(HARNESSES, 'The agent runtime. Required after imports are merged.'),
  model,
  reasoningEffort: choice(EFFORTS, 'Narrowed by harness and model.'),
  systemPrompt: prompt(100_000, 'System prompt.'),
  initialPrompt: prompt(20_000, 'First message of a session; {{ path }} tokens read the event payload.'),
  displayTitle: text(20_000, 'infer, or a template rendered against the event payload.'),
  environment: described(v.union([name('Name of an environment.'), environment]), 'Required after imports are merged.'),
  env: envMap('Environment variables: texts or { $secret: name }.'),
  identity: described(v.union([name('Name of an identity.'), identity]), 'How the agent appears to people.'),
  mounts: described(v.array(mount), 'Repositories in the sandbox; merged by name, else mountPath.'),
  tools: described(v.record(v.pipe(v.string(), v.regex(/^[A-Za-z0-9_.-]{1,128}$|\{\{/)), tool), 'Tools by alias.'),
  triggers: described(v.array(trigger), 'What wakes the agent; merged by name, then event, events, cron.'),
  session: v.strictObject({
    archiveAfterInactive: v.optional(v.strictObject({ seconds: v.optional(whole(60, 31_536_000, 'Seconds.')) })),
    observeSpawnedSessions: v.optional(flag('Default true.')),
  }),
  spendCaps: described(
    v.strictObject({ dailyUsd: cap, monthlyUsd: cap, maxPerSessionUsd: cap }),
    'Decimal texts in USD.',
  ),
  concurrency: described(v.literal(1), 'At most one live session: the agent slot.'),
  replace: literalAuto,
  onReplace: prompt(20_000, 'Prompt of a replacement session. Requires replace: auto.'),
  manages: described(v.pipe(v.array(name('Name of an agent.')), v.maxLength(64)), 'Agents whose sessions it may stop.'),
  bindings,
  workingDirectory: text(4096, 'Directory in which sessions start.'),
};

const nullish = <const F extends Record<string, v.GenericSchema>>(entries: F) =>
  Object.fromEntries(Object.entries(entries).map(([key, schema]) => [key, v.nullish(schema)])) as {
    [K in keyof F]: v.NullishSchema<F[K], undefined>;
  };

export const agent = v.pipe(
  v.looseObject(nullish(fields)),
  v.title('Agent'),
  v.description('An agent document, or a fragment that one imports.'),
);
