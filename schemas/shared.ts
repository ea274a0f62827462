// Fields that several documents share (docs/reference/agent-document.md).

import type { EnvMap } from '../internal/domain/spec.ts';
import { either, flag, group, name, record, type Same, text, type Value } from './grammar.ts';

const anyText = (description: string) => text(description, { least: 0 });

export const labels = record('<key>', anyText('A text, possibly empty.'), 'Labels; keys are not empty.', {
  what: 'a map of texts',
  example: { team: 'platform' },
});
export const annotations = record('<key>', anyText('A text, possibly empty.'), 'Annotations; keys are not empty.', {
  what: 'a map of texts',
  example: { 'docs/owner': 'platform' },
});

/** `{ $secret: <name> }` alone, as a bearer token is written. */
export const plainSecretRef = group(
  { $secret: name('Name of the secret: the project’s, else the organization’s.', { required: true }) },
  'A reference to a secret.',
  { what: 'a reference { $secret: <name> }', example: { $secret: 'api-token' } },
);

export const secretRef = group(
  {
    $secret: name('Name of the secret, resolved when a session starts: the project’s, else the organization’s.', {
      required: true,
      example: 'api-token',
    }),
    optional: flag('True: the variable is left out where the secret does not exist or has expired.', {
      otherwise: 'a secret that is missing or expired fails the launch',
    }),
  },
  'A reference to a secret.',
);

const envName = '[A-Za-z_][A-Za-z0-9_]*';
export const envMap = record(
  '<NAME>',
  either(anyText('A text, passed on as it is.'), secretRef, 'A text, or a reference to a secret.', {
    what: 'a text or { $secret: <name> }',
    hint: 'Put a number or true/false in quotes.',
  }),
  'Environment variables: texts, or references to secrets.',
  {
    pattern: envName,
    keyMessage: '{path}: an environment variable name is letters, digits and _, and does not begin with a digit',
    what: 'a map from variable names to texts or secret references',
    default: {},
    example: { LOG_LEVEL: 'debug', API_TOKEN: { $secret: 'api-token' } },
  },
);

true satisfies Same<keyof Value<typeof envMap>, keyof EnvMap>;
