// The inline environment object (docs/reference/agent-document.md#environment).

import type { EnvironmentSpec } from '../internal/domain/spec.ts';
import { as, choice, group, list, name, type Same, text, type Value, whole } from './grammar.ts';
import { annotations, envMap, labels } from './shared.ts';

export const image = group(
  {
    kind: choice(['preset'] as const, 'The only kind.', { required: true }),
    name: text('Name of a configured preset; base always exists.', {
      required: true,
      least: 0,
      what: 'the name of a preset',
      example: 'base',
    }),
  },
  'What the sandbox is made from.',
  { example: { kind: 'preset', name: 'base' } },
);

export const resources = group(
  { cpuCount: whole(1, undefined, 'Number of processors.'), memoryMB: whole(128, undefined, 'Memory in megabytes.') },
  'What the sandbox may use.',
  { rule: 'At least one of the two.', example: { cpuCount: 2, memoryMB: 4096 } },
);

const noClimb = '(?!(?:[\\s\\S]*/)?\\.\\.(?:/|$))';
const cacheFile = text('A relative path without .. segments.', {
  least: 0,
  what: 'a relative path',
  pattern: `(?!/|[A-Za-z]:)${noClimb}[\\s\\S]+`,
  form: 'a relative path without .. segments',
  example: 'package-lock.json',
});
const cachePath = text('An absolute path under /home/user without .. segments.', {
  least: 0,
  what: 'an absolute path',
  pattern: `${noClimb}/home/user(?:/[\\s\\S]*)?`,
  form: 'an absolute path under /home/user without .. segments',
  example: '/home/user/.npm',
});
export const cache = group(
  {
    key: name('Key of the cache.'),
    files: list(cacheFile, 'Files whose content keys the cache.', { what: 'a list of relative paths' }),
    paths: list(cachePath, 'What is kept.', { what: 'a list of paths under /home/user' }),
  },
  'What is kept from one session to the next.',
);

export const setupStep = group(
  {
    name: name('Name of the step, unique in the environment.', { required: true, example: 'install' }),
    commands: list(text('A shell command.', { what: 'a command' }), 'Shell commands, in order.', {
      required: true,
      least: 1,
      what: 'a list of commands',
      example: ['npm ci'],
    }),
    cache,
  },
  'Commands that run in the sandbox before the session starts.',
);

const ttl = '[1-9][0-9]*[smhd]';
export const setupCache = group(
  {
    ttl: text('How long it is kept: a number and s, m, h or d.', {
      required: true,
      least: 0,
      what: 'a duration such as 24h',
      pattern: ttl,
      form: 'a number and s, m, h or d, such as 24h',
      lacking: 'Write a duration such as 24h.',
      example: '24h',
    }),
  },
  'For how long caches of setup steps are kept.',
);

export const environment = group(
  {
    name: name('Name of the generated environment; equal content under one name is shared.', {
      required: true,
      stored: false,
      example: 'node',
    }),
    labels,
    annotations,
    image: as(image, { required: true }),
    env: as(envMap, { description: 'Environment variables of the sandbox, as env of the agent.' }),
    resources,
    steps: list(text('A shell command.', { least: 0 }), 'Commands that run when the image is built.', {
      default: [],
      what: 'a list of commands',
      example: ['apt-get install -y jq'],
    }),
    setup: list(setupStep, 'Commands that run in the sandbox before the session starts.', {
      default: [],
      what: 'a list of setup steps',
    }),
    setupCache,
    approvals: choice(
      ['bypass', 'prompt'] as const,
      'Whether the harness asks before it acts; of harness-b alone, harness-a never asks.',
      { default: 'bypass' },
    ),
  },
  'The sandbox that sessions run in, compiled into a resource of its own.',
  {
    what: 'the name of an environment or an inline environment',
    example: { name: 'node', image: { kind: 'preset', name: 'base' } },
  },
);

true satisfies Same<keyof Value<typeof environment>, keyof EnvironmentSpec>;
true satisfies Same<Value<typeof image>, EnvironmentSpec['image']>;
true satisfies Same<Value<typeof resources>, NonNullable<EnvironmentSpec['resources']>>;
true satisfies Same<Value<typeof setupStep>, EnvironmentSpec['setup'][number]>;
