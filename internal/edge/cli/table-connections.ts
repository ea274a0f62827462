// The part of the command table about connections to providers: thin clients of calls of the HTTP API. A credential never
// is an argument.

import { dryRun, fromFile, reason, yes } from './table-global.ts';
import type { ArgSpec, CommandSpec, OptionSpec } from './types.ts';

const nameArg: ArgSpec = { name: 'NAME', help: 'its name' };
const provider: ArgSpec = {
  name: 'PROVIDER',
  help: 'codehost, tracker or chat',
  choices: ['codehost', 'tracker', 'chat'],
};
const connection = async (): Promise<typeof import('./command-connection.ts')> => import('./command-connection.ts');
const credentialFiles: readonly OptionSpec[] = [
  {
    name: 'private-key-file',
    type: 'string',
    value: 'FILE',
    help: 'codehost: the application’s private key (PEM)',
    completes: 'file',
  },
  { name: 'api-key-file', type: 'string', value: 'FILE', help: 'tracker: API key', completes: 'file' },
  { name: 'bot-token-file', type: 'string', value: 'FILE', help: 'chat: bot token', completes: 'file' },
];
const settings: readonly OptionSpec[] = [
  { name: 'api-url', type: 'string', value: 'URL', help: 'address of its API (default: the provider’s own)' },
  { name: 'app-id', type: 'string', value: 'ID', help: 'codehost: application id' },
  { name: 'installation-id', type: 'string', value: 'ID', help: 'codehost: installation id' },
  { name: 'bot-login', type: 'string', value: 'LOGIN', help: 'codehost: the application’s bot' },
  { name: 'bot-user-id', type: 'string', value: 'ID', help: 'tracker, chat: the bot’s user id' },
  { name: 'workspace-id', type: 'string', value: 'ID', help: 'chat: workspace id' },
];
const connectionCommands: readonly CommandSpec[] = [
  {
    words: ['connection', 'list'],
    summary: 'connections',
    args: [],
    options: [],
    load: async () => (await connection()).connectionList,
  },
  {
    words: ['connection', 'add'],
    summary: 'connect a provider; credentials never are arguments',
    args: [provider, nameArg],
    options: [
      { ...fromFile, help: 'the webhook or signing secret: FILE, or stdin for -; else asked for without an echo' },
      ...credentialFiles,
      ...settings,
    ],
    load: async () => (await connection()).connectionAdd,
  },
  {
    words: ['connection', 'show'],
    summary: 'a connection: its status and why, what it may do, and when that was asked last',
    args: [nameArg],
    options: [],
    load: async () => (await connection()).connectionShow,
  },
  {
    words: ['connection', 'check'],
    summary: 'ask the provider whether it works, and set its status to the answer; exit 1 unless it is active',
    args: [nameArg],
    options: [],
    load: async () => (await connection()).connectionCheck,
  },
  {
    words: ['connection', 'edit'],
    summary: 'change settings of a connection, such as the id of an installation that was made anew',
    args: [nameArg],
    options: settings,
    notes: [
      'An application that was removed and installed again has another installation id; the connection keeps its name,',
      'its intake and its credentials. The code host is asked first whether the installation is the application’s.',
    ],
    load: async () => (await connection()).connectionEdit,
  },
  {
    words: ['connection', 'set-credentials'],
    summary: 'replace credentials; those that are not given stay',
    args: [nameArg],
    options: [{ ...fromFile, help: 'the webhook, signing or client secret: FILE, or stdin for -' }, ...credentialFiles],
    notes: ['Without a file it asks for the webhook, signing or client secret.'],
    load: async () => (await connection()).connectionSetCredentials,
  },
  ...(['remove', 'disconnect'] as const).map((word) => ({
    words: ['connection', word],
    summary: 'disconnect: what was consented to is revoked, and its tokens are destroyed',
    args: [nameArg],
    options: [yes, reason, dryRun],
    load: async () => (await connection()).connectionRemove,
  })),
];

const errtrack = async (): Promise<typeof import('./command-errtrack.ts')> => import('./command-errtrack.ts');
const noBrowser: OptionSpec = { name: 'no-browser', type: 'flag', help: 'print the address, open nothing' };
const consent = async (): Promise<typeof import('./command-consent.ts')> => import('./command-consent.ts');
const scope: OptionSpec = { name: 'scope', type: 'list', value: 'S', help: 'a scope to ask for' };
const noWait: OptionSpec = { name: 'no-wait', type: 'flag', help: 'print the address and end' };
const renew: OptionSpec = { name: 'renew', type: 'flag', help: 'ask for consent also where it is connected' };
const consentCommands: readonly CommandSpec[] = [
  {
    words: ['connect', 'mcp'],
    summary: 'connect a remote tool server by consent: print the address, and wait until somebody consented',
    args: [nameArg],
    options: [
      { name: 'url', type: 'string', value: 'URL', help: 'address of the tool server; needed for a new connection' },
      scope,
      { name: 'client-id', type: 'string', value: 'ID', help: 'the client that was registered there by hand' },
      {
        name: 'client-secret-file',
        type: 'string',
        value: 'FILE',
        help: 'the secret of that client: FILE, or stdin for -',
        completes: 'file',
      },
      renew,
      noBrowser,
      noWait,
    ],
    notes: ['A connection that is there already is connected again; a token that does not work any more is replaced.'],
    load: async () => (await consent()).connectMcp,
  },
  {
    words: ['connect', 'provider'],
    summary: 'connect a provider of the configuration’s `providers.oauth` by consent, as `connect mcp` does',
    args: [{ name: 'PROVIDER', help: 'its name in the configuration' }, nameArg],
    options: [scope, renew, noBrowser, noWait],
    load: async () => (await consent()).connectProvider,
  },
];

const errtrackCommands: readonly CommandSpec[] = [
  {
    words: ['connect', 'errtrack'],
    summary: 'connect the error tracker by consent, and wait until the project is connected',
    args: [],
    options: [
      {
        name: 'allow',
        type: 'string',
        value: 'PROJECT',
        help: 'the project that is connected (default: the active one)',
      },
      { name: 'replace', type: 'flag', help: 'refused: says how to replace a connection' },
      noBrowser,
      noWait,
    ],
    load: async () => (await errtrack()).connectErrtrack,
  },
  {
    words: ['allow', 'errtrack'],
    summary: 'let a project read every project that an error-tracking connection sees',
    args: [{ name: 'PROJECT', help: 'slug or id of the project' }],
    options: [
      { name: 'connection', type: 'string', value: 'NAME', help: 'the connection, as svc connection list shows it' },
    ],
    load: async () => (await errtrack()).allowErrtrack,
  },
];

export const connectionTable: readonly CommandSpec[] = [...connectionCommands, ...consentCommands, ...errtrackCommands];
