// The part of the command table about tenants and secrets: thin clients of calls of the HTTP API.

import { connectionTable } from './table-connections.ts';
import { dryRun, fromFile, reason, yes } from './table-global.ts';
import { notifyCommands } from './table-notify.ts';
import type { ArgSpec, CommandSpec, OptionSpec } from './types.ts';

const nameArg: ArgSpec = { name: 'NAME', help: 'its name' };
const id: ArgSpec = { name: 'ID', help: 'its id' };
const orgScope: OptionSpec = {
  name: 'org',
  type: 'flag',
  value: 'ORG',
  help: 'at organization scope; --org=ORG for another organization',
};
const secretSettings: readonly OptionSpec[] = [
  { name: 'description', type: 'string', value: 'D', help: 'what it is for' },
  { name: 'expires-at', type: 'string', value: 'T', help: 'ISO time after which it counts as absent; none clears it' },
  {
    name: 'idle-expiry',
    type: 'string',
    value: 'S',
    help: 'expires when unused this long: seconds, or 30d; none clears it',
  },
  { name: 'inject-host', type: 'list', value: 'H', help: 'host to which the sandbox edge adds the value' },
  { name: 'inject-header', type: 'string', value: 'H', help: 'header in which it is added' },
  { name: 'inject-format', type: 'string', value: 'F', help: 'format of the header’s value' },
];

const secret = async (): Promise<typeof import('./command-secret.ts')> => import('./command-secret.ts');
const secretCommands: readonly CommandSpec[] = [
  {
    words: ['secret', 'set'],
    summary: 'write a secret; the value never is an argument',
    args: [nameArg],
    options: [
      fromFile,
      orgScope,
      ...secretSettings,
      { name: 'unprotected', type: 'flag', help: 'allow it to be revealed' },
    ],
    load: async () => (await secret()).secretSet,
  },
  {
    words: ['secret', 'list'],
    summary: 'secrets, without values',
    args: [],
    options: [orgScope],
    load: async () => (await secret()).secretList,
  },
  {
    words: ['secret', 'edit'],
    summary: 'change what is not the value',
    args: [nameArg],
    options: [
      orgScope,
      ...secretSettings,
      { name: 'no-inject', type: 'flag', help: 'deliver it like any other again' },
      { name: 'protect', type: 'flag', help: 'never reveal it again' },
    ],
    load: async () => (await secret()).secretEdit,
  },
  {
    words: ['secret', 'show'],
    summary: 'what is known of a secret, never its value',
    args: [nameArg],
    options: [orgScope],
    load: async () => (await secret()).secretShow,
  },
  {
    words: ['secret', 'rotate'],
    summary: 'replace the value',
    args: [nameArg],
    options: [fromFile, orgScope],
    load: async () => (await secret()).secretRotate,
  },
  {
    words: ['secret', 'reveal'],
    summary: 'print the value of an unprotected secret',
    args: [nameArg],
    options: [orgScope],
    load: async () => (await secret()).secretReveal,
  },
  {
    words: ['secret', 'delete'],
    summary: 'delete a secret',
    args: [nameArg],
    options: [
      orgScope,
      yes,
      reason,
      dryRun,
      { name: 'force', type: 'flag', help: 'also where something uses it; does not ask' },
    ],
    load: async () => (await secret()).secretDelete,
  },
];

const tenancy = async (): Promise<typeof import('./command-tenancy.ts')> => import('./command-tenancy.ts');
const display: OptionSpec = { name: 'name', type: 'string', value: 'TEXT', help: 'display name (default: the slug)' };
const role: OptionSpec = {
  name: 'role',
  type: 'string',
  value: 'ROLE',
  help: 'viewer, operator or admin in a project; member or admin in an organization',
};
const who: ArgSpec = { name: 'WHO', help: 'e-mail address, id, or name of a service account' };
const slug: ArgSpec = { name: 'SLUG', help: 'lower-case letters, digits and dashes' };
const tenancyCommands: readonly CommandSpec[] = [
  {
    words: ['org', 'list'],
    summary: 'organizations',
    args: [],
    options: [],
    load: async () => (await tenancy()).orgList,
  },
  {
    words: ['org', 'create'],
    summary: 'make an organization',
    args: [slug],
    options: [display],
    load: async () => (await tenancy()).orgCreate,
  },
  {
    words: ['org', 'delete'],
    summary: 'delete an organization that has no projects',
    args: [slug],
    options: [yes, reason, dryRun],
    load: async () => (await tenancy()).orgDelete,
  },
  {
    words: ['project', 'list'],
    summary: 'projects of the organization',
    args: [],
    options: [],
    load: async () => (await tenancy()).projectList,
  },
  {
    words: ['project', 'create'],
    summary: 'make a project',
    args: [slug],
    options: [display],
    load: async () => (await tenancy()).projectCreate,
  },
  {
    words: ['member', 'list'],
    summary: 'members of the project',
    args: [],
    options: [orgScope],
    load: async () => (await tenancy()).memberList,
  },
  {
    words: ['member', 'set'],
    summary: 'give a role',
    args: [who],
    options: [role, orgScope],
    load: async () => (await tenancy()).memberSet,
  },
  {
    words: ['member', 'remove'],
    summary: 'take the role away',
    args: [who],
    options: [orgScope, yes, reason, dryRun],
    load: async () => (await tenancy()).memberRemove,
  },
  {
    words: ['token', 'create'],
    summary: 'make an API token; it is shown once',
    args: [nameArg],
    options: [
      { name: 'for', type: 'string', value: 'WHO', help: 'for a member or service account of the organization' },
      { name: 'expires-at', type: 'string', value: 'T', help: 'ISO time after which it is not valid' },
    ],
    load: async () => (await tenancy()).tokenCreate,
  },
  {
    words: ['token', 'list'],
    summary: 'your API tokens, or the organization’s',
    args: [],
    options: [orgScope],
    load: async () => (await tenancy()).tokenList,
  },
  {
    words: ['token', 'revoke'],
    summary: 'make a token worthless',
    args: [id],
    options: [orgScope, yes, reason, dryRun],
    load: async () => (await tenancy()).tokenRevoke,
  },
];

const keys = async (): Promise<typeof import('./command-keys.ts')> => import('./command-keys.ts');
const keyCommands: readonly CommandSpec[] = [
  {
    words: ['keys', 'list'],
    summary: 'versions of the master key, and what each seals',
    args: [],
    options: [],
    load: async () => (await keys()).keysList,
  },
  {
    words: ['keys', 'rotate'],
    summary: 'seal every value with the last key of the key file; retire what nothing uses',
    args: [],
    options: [],
    notes: [
      'Append the new key to the key file of every daemon first, one line `version:base64(32 bytes)`;',
      'they read it within seconds. A retired version may be taken out of the file afterwards.',
    ],
    load: async () => (await keys()).keysRotate,
  },
];

export const tenantCommands: readonly CommandSpec[] = [
  ...secretCommands,
  ...keyCommands,
  ...connectionTable,
  ...notifyCommands,
  ...tenancyCommands,
];
