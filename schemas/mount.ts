// A repository mount as an author may write it (spec, Mounts).

import * as v from 'valibot';
import { choice, described, fitting, text, whole } from './common.ts';

const level = v.optional(v.picklist(['none', 'read', 'write']));

const capabilities = described(
  v.strictObject({
    contents: level,
    pullRequests: level,
    issues: level,
    checks: level,
    actions: level,
    workflows: level,
    secrets: level,
    merge: v.optional(v.picklist(['none', 'write'])),
  }),
  'What the minted token may do. Defaults: contents, pullRequests, issues write; checks, actions read; the rest none.',
);

export const mount = v.strictObject({
  name: v.optional(text(1024, 'Merge key, never stored.')),
  kind: v.optional(v.literal('git')),
  repository: v.optional(fitting('[^/\\s]+/[^/\\s]+', 'owner/repo')),
  mountPath: v.optional(described(v.pipe(v.string(), v.regex(/^\/|\{\{/)), 'Absolute path in the sandbox.')),
  ref: v.optional(text(4096, 'Branch, tag or ref; may hold {{ payload.path }} tokens.')),
  depth: v.optional(whole(1, Number.MAX_SAFE_INTEGER, 'Depth of a shallow clone.')),
  auth: v.optional(
    v.strictObject({
      kind: v.optional(choice(['none', 'codehostApp'], 'none clones in public; codehostApp mints scoped tokens.')),
      installationId: v.optional(v.string()),
      commitAuthor: v.optional(
        v.strictObject({
          name: v.optional(v.pipe(v.string(), v.minLength(1))),
          email: v.optional(v.pipe(v.string(), v.includes('@'))),
        }),
      ),
      capabilities: v.optional(capabilities),
    }),
  ),
});
