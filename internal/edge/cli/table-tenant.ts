// The part of the command table about tenants and secrets: thin clients of calls of the HTTP API.

import { connectionTable } from './table-connections.ts';
import { DRY_RUN, FROM_FILE, REASON, YES } from './table-global.ts';
import { notifyCommands } from './table-notify.ts';
import type { ArgSpec, CommandSpec, OptionSpec } from './types.ts';

const NAME: ArgSpec = { name: 'NAME', help: 'its name' };
const ID: ArgSpec = { name: 'ID', help: 'its id' };
const ORG_SCOPE: OptionSpec = {
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
    args: [NAME],
    options: [
      FROM_FILE,
      ORG_SCOPE,
      ...secretSettings,
      { name: 'unprotected', type: 'flag', help: 'allow it to be revealed' },
    ],
    load: async () => (await secret()).secretSet,
  },
  {
    words: ['secret', 'list'],
    summary: 'secrets, without values',
    args: [],
    options: [ORG_SCOPE],
    load: async () => (await secret()).secretList,
  },
  {
    words: ['secret', 'edit'],
    summary: 'change what is not the value',
    args: [NAME],
    options: [
      ORG_SCOPE,
      ...secretSettings,
      { name: 'no-inject', type: 'flag', help: 'deliver it like any other again' },
      { name: 'protect', type: 'flag', help: 'never reveal it again' },
    ],
    load: async () => (await secret()).secretEdit,
  },
  {
    words: ['secret', 'show'],
    summary: 'what is known of a secret, never its value',
    args: [NAME],
    options: [ORG_SCOPE],
    load: async () => (await secret()).secretShow,
  },
  {
    words: ['secret', 'rotate'],
    summary: 'replace the value',
    args: [NAME],
    options: [FROM_FILE, ORG_SCOPE],
    load: async () => (await secret()).secretRotate,
  },
  {
    words: ['secret', 'reveal'],
    summary: 'print the value of an unprotected secret',
    args: [NAME],
    options: [ORG_SCOPE],
    load: async () => (await secret()).secretReveal,
  },
  {
    words: ['secret', 'delete'],
    summary: 'delete a secret',
    args: [NAME],
    options: [
      ORG_SCOPE,
      YES,
      REASON,
      DRY_RUN,
      { name: 'force', type: 'flag', help: 'also where something uses it; does not ask' },
    ],
    load: async () => (await secret()).secretDelete,
  },
];

const tenancy = async (): Promise<typeof import('./command-tenancy.ts')> => import('./command-tenancy.ts');
const DISPLAY: OptionSpec = { name: 'name', type: 'string', value: 'TEXT', help: 'display name (default: the slug)' };
const ROLE: OptionSpec = {
  name: 'role',
  type: 'string',
  value: 'ROLE',
  help: 'viewer, operator or admin in a project; member or admin in an organization',
};
const WHO: ArgSpec = { name: 'WHO', help: 'e-mail address, id, or name of a service account' };
const SLUG: ArgSpec = { name: 'SLUG', help: 'lower-case letters, digits and dashes' };
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
    args: [SLUG],
    options: [DISPLAY],
    load: async () => (await tenancy()).orgCreate,
  },
  {
    words: ['org', 'delete'],
    summary: 'delete an organization that has no projects',
    args: [SLUG],
    options: [YES, REASON, DRY_RUN],
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
    args: [SLUG],
    options: [DISPLAY],
    load: async () => (await tenancy()).projectCreate,
  },
  {
    words: ['member', 'list'],
    summary: 'members of the project',
    args: [],
    options: [ORG_SCOPE],
    load: async () => (await tenancy()).memberList,
  },
  {
    words: ['member', 'set'],
    summary: 'give a role',
    args: [WHO],
    options: [ROLE, ORG_SCOPE],
    load: async () => (await tenancy()).memberSet,
  },
  {
    words: ['member', 'remove'],
    summary: 'take the role away',
    args: [WHO],
    options: [ORG_SCOPE, YES, REASON, DRY_RUN],
    load: async () => (await tenancy()).memberRemove,
  },
  {
    words: ['token', 'create'],
    summary: 'make an API token; it is shown once',
    args: [NAME],
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
    options: [ORG_SCOPE],
    load: async () => (await tenancy()).tokenList,
  },
  {
    words: ['token', 'revoke'],
    summary: 'make a token worthless',
    args: [ID],
    options: [ORG_SCOPE, YES, REASON, DRY_RUN],
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
