// A repository mount (docs/reference/agent-document.md#mounts).

import type { Mount, MountCapabilities } from '../internal/domain/spec.ts';
import { as, choice, group, type Same, text, type Value, variants, whole } from './grammar.ts';

const levels = ['none', 'read', 'write'] as const;
const level = <const D extends (typeof levels)[number]>(description: string, initial: D) =>
  choice(levels, description, { default: initial, code: 'mount-capabilities' });

export const capabilities = group(
  {
    contents: level('The repository’s files. none: the mount is not cloned, which apply warns of.', 'write'),
    pullRequests: level('Pull requests.', 'write'),
    issues: level('Issues.', 'write'),
    checks: level('Checks.', 'read'),
    actions: level('Workflow runs.', 'read'),
    workflows: level('Workflow files.', 'none'),
    secrets: level('Names of the code host’s secrets, never values.', 'none'),
    merge: choice(['none', 'write'] as const, 'Merging pull requests.', {
      default: 'none',
      code: 'mount-capabilities',
      rule: 'write needs contents: write and pullRequests: write.',
    }),
  },
  'What tokens minted for the mount may do.',
  { what: 'a map of capabilities', example: { contents: 'read', pullRequests: 'write' } },
);

/** What a code-host mount may do where the author says nothing. */
export const defaultCapabilities = Object.fromEntries(
  Object.entries(capabilities.fields).map(([key, field]) => [key, field.default]),
) as unknown as MountCapabilities;

export const commitAuthor = group(
  {
    name: text('Name of the author.', { required: true, example: 'Triage' }),
    email: text('Address of the author.', {
      required: true,
      pattern: '[\\s\\S]*@[\\s\\S]*',
      form: 'an e-mail address',
      example: 'triage@example.com',
    }),
  },
  'Who commits are by.',
  { otherwise: 'the bot of the connection' },
);

const kind = choice(
  ['none', 'codehostApp'] as const,
  'none clones in public; codehostApp mints tokens of the mount’s capabilities.',
  { required: true },
);
export const mountAuth = variants(
  'kind',
  {
    none: group({ kind: choice(['none'] as const, 'Clones in public.', { required: true }) }, 'Clones in public.', {
      others: {
        code: 'mount-capabilities',
        message: '{path} needs auth.kind codehostApp; a mount with kind none clones in public',
      },
    }),
    codehostApp: group(
      {
        kind: choice(['codehostApp'] as const, 'Mints tokens of the mount’s capabilities.', { required: true }),
        installationId: text('Installation of the code host’s application.', {
          what: 'an installation id as a text',
          otherwise: 'the connection’s own',
        }),
        commitAuthor,
        capabilities: as(capabilities, { default: defaultCapabilities as unknown as { [name: string]: string } }),
      },
      'Mints tokens of the mount’s capabilities.',
    ),
  },
  kind.description,
  { default: { kind: 'none' }, example: { kind: 'codehostApp' } },
);

export const mount = group(
  {
    name: text('Key by which mounts merge; never stored.', { what: 'a name', stored: false }),
    kind: choice(['git'] as const, 'The only kind.', { required: true }),
    repository: text('Owner and name of the repository.', {
      required: true,
      trim: true,
      pattern: '[^/\\s]+/[^/\\s]+',
      form: 'owner/repo',
      example: 'acme/widgets',
    }),
    mountPath: text(
      'Absolute and normalized path in the sandbox; not /, not the home directory itself, and not in a folder of the system’s.',
      {
        required: true,
        least: 0,
        what: 'an absolute path',
        pattern: '/[\\s\\S]*',
        form: 'an absolute path that begins with /',
        example: '/workspace/widgets',
        rule: 'Each mount has its own; nested ones are fine.',
      },
    ),
    ref: text(
      'Branch, tag or ref. {{ payload.path }} tokens are read from the session’s input { triggerEventId, payload }.',
      {
        trim: true,
        tokens: 'input',
        otherwise: 'the default branch',
        example: 'main',
      },
    ),
    depth: whole(1, undefined, 'Depth of a shallow clone.', { otherwise: 'the whole history', example: 1 }),
    auth: mountAuth,
  },
  'A repository in the sandbox.',
  {
    example: {
      kind: 'git',
      repository: 'acme/widgets',
      mountPath: '/workspace/widgets',
      auth: { kind: 'codehostApp' },
    },
  },
);

true satisfies Same<Value<typeof mount>, Mount>;
