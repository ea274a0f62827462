// The inline identity object (docs/reference/agent-document.md#identity).

import type { IdentitySpec } from '../internal/domain/spec.ts';
import { group, name, type Same, text, type Value } from './grammar.ts';

export const avatar = group(
  {
    asset: text('Path of a square PNG or JPEG under .svc/assets/, 512x512 to 2000x2000 pixels, at most 2 MiB.', {
      required: true,
      least: 0,
      what: 'a path under .svc/assets/',
      pattern: '\\.svc/assets/(?:(?!\\.{1,2}/)[^/\\\\\\u0000]+/)*[^/\\\\\\u0000]*\\.(?:png|jpe?g)',
      form: 'a relative path under .svc/assets/ that ends in .png, .jpg or .jpeg and has no .. segment',
      hint: 'Write the path from the root of the tree, such as .svc/assets/agent.png.',
      example: '.svc/assets/agent.png',
    }),
    sha256: text('Pins the content by its hash; without a local file, names a stored avatar.', {
      least: 0,
      what: 'a SHA-256 in lower-case hex',
      pattern: '[0-9a-f]{64}',
      form: '64 lower-case hex digits',
    }),
  },
  'The picture of the agent.',
);

const descriptionMax = 140;
export const identity = group(
  {
    name: name('Name of the identity.', { otherwise: 'the agent’s name', stored: false }),
    displayName: text('Shown name.', { trim: true, most: 80, example: 'Triage' }),
    username: text('Name that people mention the agent by.', { trim: true, most: 80, example: 'triage' }),
    avatar,
    description: text(
      'What the agent does, at most 140 characters in JSON-escaped form: a non-ASCII character counts 6, an emoji 12, and each of " \\ / counts 2.',
      {
        trim: true,
        most: descriptionMax,
        counted: 'escaped',
        code: 'identity-description',
        hint: 'A non-ASCII character counts 6, an emoji 12, and each of " \\ / counts 2.',
        example: 'Sorts new issues',
      },
    ),
  },
  'How the agent appears to people, compiled into a resource of its own.',
  {
    what: 'the name of an identity or an inline identity',
    rule: 'At least one field beside name.',
    example: { displayName: 'Triage', description: 'Sorts new issues' },
  },
);

true satisfies Same<Value<typeof avatar>, NonNullable<IdentitySpec['avatar']>>;
true satisfies Same<Value<typeof identity>, IdentitySpec>;
