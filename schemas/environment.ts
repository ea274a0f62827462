// The inline environment object as an author may write it (spec, Environment).

import * as v from 'valibot';
import { choice, described, envMap, fitting, name, stringMap, whole } from './common.ts';

const strings = v.array(v.string());

export const environment = v.pipe(
  v.strictObject({
    name: v.optional(name('Name of the generated environment.')),
    labels: v.optional(stringMap('Labels.')),
    annotations: v.optional(stringMap('Annotations.')),
    image: v.optional(
      v.strictObject({
        kind: v.optional(v.literal('preset')),
        name: v.optional(described(v.string(), 'Name of a configured preset, such as base.')),
      }),
    ),
    env: v.optional(envMap('Environment variables of the sandbox.')),
    resources: v.optional(
      v.strictObject({
        cpuCount: v.optional(whole(1, Number.MAX_SAFE_INTEGER, 'Number of processors.')),
        memoryMB: v.optional(whole(128, Number.MAX_SAFE_INTEGER, 'Memory in megabytes.')),
      }),
    ),
    steps: v.optional(described(strings, 'Commands that run when the image is built.')),
    setup: v.optional(
      described(
        v.array(
          v.strictObject({
            name: name('Name of the step.'),
            commands: v.pipe(v.array(v.pipe(v.string(), v.minLength(1))), v.minLength(1)),
            cache: v.optional(
              v.strictObject({
                key: v.optional(name('Key of the cache.')),
                files: v.optional(described(strings, 'Relative paths whose content keys the cache.')),
                paths: v.optional(described(strings, 'Absolute paths under /home/user that are kept.')),
              }),
            ),
          }),
        ),
        'Commands that run in the sandbox before the session starts.',
      ),
    ),
    setupCache: v.optional(
      v.strictObject({ ttl: v.optional(fitting('[1-9][0-9]*[smhd]', 'How long it is kept: 24h.')) }),
    ),
    approvals: v.optional(choice(['bypass', 'prompt'], 'Whether harness actions ask first; harness-b only.')),
  }),
  v.title('Environment'),
  v.description('An environment, compiled into a resource of its own that agents name.'),
);
