// The inline identity object as an author may write it (spec, Identity).

import * as v from 'valibot';
import { described, fitting, name, text } from './common.ts';

export const identity = v.pipe(
  v.strictObject({
    name: v.optional(name('Name of the identity; the agent’s where absent.')),
    displayName: v.optional(text(80, 'Shown name.')),
    username: v.optional(text(80, 'Name that people mention.')),
    avatar: v.optional(
      v.strictObject({
        asset: v.optional(
          described(
            v.pipe(v.string(), v.regex(/^\.svc\/assets\/.+\.(?:png|jpg|jpeg)$|\{\{/)),
            'Square PNG or JPEG under .svc/assets/, 512 to 2000 pixels, at most 2 MiB.',
          ),
        ),
        sha256: v.optional(fitting('[0-9a-f]{64}', 'Pins the content by its hash.')),
      }),
    ),
    description: v.optional(text(140, 'At most 140 characters in JSON-escaped form.')),
  }),
  v.title('Identity'),
  v.description('How the agent appears to people, compiled into a resource of its own.'),
);
