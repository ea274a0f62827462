// The part of the command table about service accounts, projects that exist, and the audit.

import { dryRun, reason, yes } from './table-global.ts';
import type { ArgSpec, CommandSpec, OptionSpec } from './types.ts';

const nameArg: ArgSpec = { name: 'NAME', help: 'its name' };
const slug: ArgSpec = { name: 'SLUG', help: 'its slug' };
const orgScope: OptionSpec = {
  name: 'org',
  type: 'flag',
  value: 'ORG',
  help: 'at organization scope; --org=ORG for another organization',
};
const filters: readonly OptionSpec[] = [
  { name: 'action', type: 'string', value: 'A', help: 'with this action, such as secret.revealed' },
  { name: 'subject', type: 'string', value: 'S', help: 'about the thing of this name' },
  { name: 'principal', type: 'string', value: 'W', help: 'by the one of this name or id' },
  { name: 'since', type: 'string', value: 'T', help: 'from this day or ISO time on' },
  { name: 'until', type: 'string', value: 'T', help: 'before this day or ISO time' },
];

const account = async (): Promise<typeof import('./command-account.ts')> => import('./command-account.ts');
const project = async (): Promise<typeof import('./command-project.ts')> => import('./command-project.ts');
const signin = async (): Promise<typeof import('./command-signin.ts')> => import('./command-signin.ts');
const noBrowser: OptionSpec = { name: 'no-browser', type: 'flag', help: 'print the address, open nothing' };
const tenancy = async (): Promise<typeof import('./command-tenancy.ts')> => import('./command-tenancy.ts');

export const accountTable: readonly CommandSpec[] = [
  {
    words: ['console'],
    summary: 'open the console in the browser, signed in as here',
    args: [],
    options: [{ name: 'print', type: 'flag', help: 'print the address, which signs in once within a minute' }],
    load: async () => (await signin()).consoleCommand,
  },
  {
    words: ['login'],
    summary: 'sign in by a browser, on this machine or another; the token lasts 30 days at most',
    args: [],
    options: [noBrowser],
    load: async () => (await signin()).loginCommand,
  },
  {
    words: ['logout'],
    summary: 'revoke the token of `svc login` and forget it',
    args: [],
    options: [],
    load: async () => (await signin()).logoutCommand,
  },
  {
    words: ['whoami'],
    summary: 'who this command line is to its server',
    args: [],
    options: [],
    load: async () => (await signin()).whoamiCommand,
  },
  {
    words: ['account', 'list'],
    summary: 'service accounts of the organization',
    args: [],
    options: [],
    load: async () => (await account()).accountList,
  },
  {
    words: ['account', 'create'],
    summary: 'make a service account; a token for it is made with `token create --for`',
    args: [nameArg],
    options: [
      { name: 'role', type: 'string', value: 'R', help: 'its role in the organization', choices: ['member', 'admin'] },
    ],
    load: async () => (await account()).accountCreate,
  },
  {
    words: ['account', 'disable'],
    summary: 'make none of its tokens valid, until enabled',
    args: [nameArg],
    options: [yes, reason, dryRun],
    load: async () => (await account()).accountDisable,
  },
  {
    words: ['account', 'enable'],
    summary: 'let its tokens be valid again',
    args: [nameArg],
    options: [],
    load: async () => (await account()).accountEnable,
  },
  {
    words: ['account', 'delete'],
    summary: 'delete it with its tokens',
    args: [nameArg],
    options: [yes, reason, dryRun],
    load: async () => (await account()).accountDelete,
  },
  {
    words: ['project', 'rename'],
    summary: 'give a project another name',
    args: [slug, { name: 'NAME', help: 'the name that people see' }],
    options: [],
    load: async () => (await account()).projectRename,
  },
  {
    words: ['project', 'show'],
    summary: 'a project: what its environments may ask for and reach, whom its sessions tell and ask',
    args: [{ ...slug, optional: true }],
    options: [],
    load: async () => (await project()).projectShow,
  },
  {
    words: ['project', 'set'],
    summary: 'say what its environments may ask for and reach, and whom its sessions tell and ask',
    args: [{ ...slug, optional: true }],
    options: [
      { name: 'name', type: 'string', value: 'TEXT', help: 'display name' },
      {
        name: 'approver',
        type: 'list',
        value: 'P:ID',
        help: 'may answer what sessions ask where they ask it: chat:ID, codehost:ID or tracker:ID, the id of a person there; with no ID, nobody',
      },
      {
        name: 'notify',
        type: 'string',
        value: 'on|off',
        help: 'whether failed launches and questions are told where the session came from',
      },
      {
        name: 'network-allow',
        type: 'list',
        value: 'H',
        help: 'host, *.domain, either with :port, or @npm and the like',
      },
      { name: 'no-network', type: 'flag', help: 'the installation’s list alone again' },
      { name: 'max-cpu', type: 'string', value: 'N', help: 'processors at most; none clears it' },
      { name: 'max-memory', type: 'string', value: 'MB', help: 'megabytes at most; none clears it' },
    ],
    notes: ['The approvers of a provider that is named replace those that it had.'],
    load: async () => (await project()).projectSet,
  },
  {
    words: ['project', 'archive'],
    summary: 'keep a project as it is',
    args: [slug],
    options: [yes, reason, dryRun],
    load: async () => (await account()).projectArchive,
  },
  {
    words: ['project', 'delete'],
    summary: 'delete a project with everything in it',
    args: [slug],
    options: [yes, reason, dryRun],
    load: async () => (await account()).projectDelete,
  },
  {
    words: ['project', 'restore'],
    summary: 'bring an archived project back',
    args: [slug],
    options: [],
    load: async () => (await account()).projectRestore,
  },
  {
    words: ['audit', 'list'],
    summary: 'who did what, newest first',
    args: [],
    options: [
      orgScope,
      ...filters,
      { name: 'limit', type: 'string', value: 'N', help: 'how many, newest first (default 50)' },
    ],
    load: async () => (await tenancy()).auditList,
  },
  {
    words: ['audit', 'export'],
    summary: 'all of it as JSON lines, oldest first',
    args: [],
    options: [orgScope, ...filters],
    load: async () => (await account()).auditExport,
  },
];
