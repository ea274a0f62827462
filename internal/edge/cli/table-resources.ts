// The part of the command table that speaks to a server about sources and what they made.

import { runtimeCommands } from './table-runtime.ts';
import { tenantCommands } from './table-tenant.ts';
import { dryRun, reason, selector, watch, yes } from './table-global.ts';
import type { ArgSpec, CommandSpec, OptionSpec } from './types.ts';

export const nameArg: ArgSpec = { name: 'NAME', help: 'its name' };
export const limitOption = (fallback: number): OptionSpec => ({
  name: 'limit',
  type: 'string',
  value: 'N',
  help: `how many, newest first (default ${fallback})`,
});

const repoSettings: readonly OptionSpec[] = [
  { name: 'url', type: 'string', value: 'URL', help: 'https address of a git repository' },
  { name: 'path', type: 'string', value: 'DIR', help: 'a directory on the daemon’s machine', completes: 'directory' },
  {
    name: 'branch',
    type: 'string',
    value: 'B',
    help: 'branch (default: the repository’s own; with --path: the files as they lie)',
  },
  { name: 'root', type: 'string', value: 'DIR', help: 'directory of the repository that holds .svc/' },
  { name: 'interval', type: 'string', value: '60s', help: 'how often it is polled: 30s, 5m, 1h' },
  { name: 'connection', type: 'string', value: 'C', help: 'authenticate by this code-host connection' },
  { name: 'secret', type: 'string', value: 'NAME', help: 'authenticate by the token in this secret' },
  { name: 'username', type: 'string', value: 'NAME', help: 'user name beside --secret' },
  { name: 'context', type: 'list', value: 'K=V', help: 'context variable beneath each document’s own variables' },
  {
    name: 'verify-key',
    type: 'list',
    value: 'FILE',
    help: 'a public key (SSH or PGP) that must have signed the commit',
    completes: 'file',
  },
  { name: 'delete-max', type: 'string', value: 'N', help: 'hold a sync that would delete more agents than this' },
  { name: 'adopt', type: 'flag', help: 'take over names that another owner holds' },
  { name: 'plan-comment', type: 'string', value: 'on|off', help: 'comment plans on pull requests (default on)' },
  { name: 'plan-check', type: 'string', value: 'on|off', help: 'a check with the plan on pull requests (default on)' },
  { name: 'plan-forks', type: 'string', value: 'on|off', help: 'plans on pull requests of forks too (default off)' },
];
const suspend = (help: string): OptionSpec => ({ name: 'suspend', type: 'flag', help });

const wait: OptionSpec = {
  name: 'wait',
  type: 'flag',
  help: 'show the stages as they happen; exit 1 when the run fails or is held',
};
const timeout: OptionSpec = {
  name: 'timeout',
  type: 'string',
  value: '10m',
  help: 'give up waiting after this (default 10m)',
};

const repo = async (): Promise<typeof import('./command-repo.ts')> => import('./command-repo.ts');
const repoAction = (word: 'suspend' | 'resume' | 'release' | 'unpin', summary: string): CommandSpec => ({
  words: ['repo', word],
  summary,
  args: [nameArg],
  options: [reason, ...(word === 'release' || word === 'unpin' ? [wait, timeout] : [])],
  load: async () => (await repo()).repoAction(word),
});

const repoCommands: readonly CommandSpec[] = [
  {
    words: ['repo', 'add'],
    summary: 'watch a repository',
    args: [nameArg],
    options: [
      ...repoSettings,
      suspend('register it without syncing'),
      { name: 'no-probe', type: 'flag', help: 'add it without a look at its server first' },
      wait,
      timeout,
    ],
    notes: ['--url names the repository here; the server’s own address comes from SVC_URL or client.json'],
    load: async () => (await repo()).repoAdd,
  },
  {
    words: ['repo', 'edit'],
    summary: 'change a repository: what is given replaces what it has, the rest stays',
    args: [nameArg],
    options: [...repoSettings, suspend('no syncs until it is resumed')],
    load: async () => (await repo()).repoEdit,
  },
  {
    words: ['repo', 'list'],
    summary: 'watched repositories',
    args: [],
    options: [watch],
    load: async () => (await repo()).repoList,
  },
  {
    words: ['repo', 'show'],
    summary: 'a repository and its latest run',
    args: [nameArg],
    options: [],
    load: async () => (await repo()).repoShow,
  },
  {
    words: ['repo', 'sync'],
    summary: 'sync now',
    args: [nameArg],
    options: [wait, timeout],
    load: async () => (await repo()).repoSync,
  },
  repoAction('suspend', 'stop syncing'),
  repoAction('resume', 'sync again'),
  {
    words: ['repo', 'remove'],
    summary: 'stop watching, and delete what it owns',
    args: [nameArg],
    options: [
      { name: 'keep-resources', type: 'flag', help: 'leave its resources, owned by "manual"' },
      yes,
      reason,
      dryRun,
    ],
    load: async () => (await repo()).repoRemove,
  },
  {
    words: ['repo', 'rollback'],
    summary: 're-apply an earlier commit and quarantine the present one',
    args: [nameArg, { name: 'COMMIT', help: 'default: the one applied before', optional: true }],
    options: [wait, timeout, reason, dryRun],
    load: async () => (await repo()).repoAction('rollback'),
  },
  repoAction('release', 'let the commit go that a rollback set aside'),
  {
    words: ['repo', 'pin'],
    summary: 'stay at a commit',
    args: [nameArg, { name: 'COMMIT', help: 'its id' }],
    options: [wait, timeout, reason, dryRun],
    load: async () => (await repo()).repoAction('pin'),
  },
  repoAction('unpin', 'follow the branch again'),
  {
    words: ['repo', 'approve'],
    summary: 'let a held run go on',
    args: [nameArg, { name: 'RECONCILE', help: 'id of the held run' }],
    options: [wait, timeout, reason],
    load: async () => (await repo()).repoAction('approve'),
  },
  {
    words: ['repo', 'probe'],
    summary: 'what a git server supports, and how its repository would be read',
    args: [{ name: 'URL', help: 'https address of a git repository' }],
    options: repoSettings.filter((option) => ['connection', 'secret', 'username'].includes(option.name)),
    load: async () => (await repo()).repoProbe,
  },
];

const reconcile = async (): Promise<typeof import('./command-reconcile.ts')> => import('./command-reconcile.ts');
const repoFilter: OptionSpec = { name: 'repo', type: 'string', value: 'NAME', help: 'of this repository only' };
const reconcileCommands: readonly CommandSpec[] = [
  {
    words: ['reconcile', 'list'],
    summary: 'runs, newest first',
    args: [],
    options: [
      repoFilter,
      {
        name: 'status',
        type: 'string',
        value: 'S',
        help: 'with this status only',
        choices: ['running', 'applied', 'unchanged', 'held', 'failed', 'superseded', 'quarantined'],
      },
      watch,
      limitOption(20),
    ],
    load: async () => (await reconcile()).reconcileList,
  },
  {
    words: ['reconcile', 'show'],
    summary: 'one run: stages, planned actions, consequences, diagnostics',
    args: [{ name: 'ID', help: 'id of the run' }],
    options: [{ name: 'origins', type: 'flag', help: 'where what changed stands: file and line' }],
    load: async () => (await reconcile()).reconcileShow,
  },
  {
    words: ['reconcile', 'logs'],
    summary: 'what the runs did',
    args: [],
    options: [
      repoFilter,
      { name: 'follow', short: 'f', type: 'flag', help: 'stay and print runs as they happen' },
      limitOption(10),
    ],
    notes: ['with -f and --json each change of a run is one line'],
    load: async () => (await reconcile()).reconcileLogs,
  },
];

const agent = async (): Promise<typeof import('./command-agent.ts')> => import('./command-agent.ts');
const agentFilter: OptionSpec = { name: 'agent', type: 'string', value: 'A', help: 'of this agent only' };
const agentCommands: readonly CommandSpec[] = [
  {
    words: ['agent', 'list'],
    summary: 'agents',
    args: [],
    options: [selector, watch],
    load: async () => (await agent()).agentList,
  },
  {
    words: ['agent', 'show'],
    summary: 'the stored spec of an agent',
    args: [nameArg],
    options: [{ name: 'origins', type: 'flag', help: 'where each value comes from: its layer, file and line' }],
    load: async () => (await agent()).agentShow,
  },
  {
    words: ['agent', 'history'],
    summary: 'revisions of an agent',
    args: [nameArg],
    options: [],
    load: async () => (await agent()).agentHistory,
  },
  {
    words: ['agent', 'diff'],
    summary: 'how two agents, or two revisions of one, differ',
    args: [
      { name: 'A', help: 'an agent, or AGENT@REVISION' },
      { name: 'B', help: 'another, or a revision of A (default: the one before)', optional: true },
      {
        name: 'C',
        help: 'after a revision: the revision of A that it is compared with (default: the newest)',
        optional: true,
      },
    ],
    options: [{ name: 'exit-code', type: 'flag', help: 'exit 1 where they differ' }],
    notes: ['svc agent diff triage · svc agent diff triage 3 5 · svc agent diff triage@3 other'],
    load: async () => (await import('./command-agent-diff.ts')).agentDiff,
  },
  {
    words: ['agent', 'start'],
    summary: 'start a session by hand',
    args: [nameArg],
    options: [
      { name: 'message', type: 'string', value: 'M', help: 'first message' },
      {
        name: 'input',
        type: 'string',
        value: 'FILE',
        help: 'JSON input of the session; - for stdin',
        completes: 'file',
      },
    ],
    load: async () => (await agent()).agentStart,
  },
  {
    words: ['agent', 'delete'],
    summary: 'delete an agent that "manual" owns',
    args: [nameArg],
    options: [yes, reason, dryRun],
    load: async () => (await agent()).agentDelete,
  },
];

const trigger = async (): Promise<typeof import('./command-trigger.ts')> => import('./command-trigger.ts');
const triggerCommands: readonly CommandSpec[] = [
  {
    words: ['trigger', 'list'],
    summary: 'triggers',
    args: [],
    options: [agentFilter, selector, watch],
    load: async () => (await trigger()).triggerList,
  },
  {
    words: ['trigger', 'show'],
    summary: 'one trigger: where it is declared, what it matched last',
    args: [{ name: 'TRIGGER', help: 'AGENT#ORDINAL, as in lists' }],
    options: [],
    load: async () => (await trigger()).triggerShow,
  },
  {
    words: ['trigger', 'explain'],
    summary: 'what an event would do, clause by clause; changes nothing',
    args: [],
    options: [
      { name: 'event', type: 'string', value: 'KEY', help: 'event key, such as webhook.received' },
      { name: 'payload', type: 'string', value: 'FILE', help: 'JSON payload; - for stdin', completes: 'file' },
      { name: 'endpoint', type: 'string', value: 'E', help: 'endpoint that received it' },
      {
        name: 'raw',
        type: 'flag',
        help: 'the payload is the body that a provider delivers, as it would come through --connection',
      },
      {
        name: 'connection',
        type: 'string',
        value: 'C',
        help: 'connection that it came through; with --raw, --event is X-GitHub-Event of a code host',
      },
    ],
    notes: ['svc trigger explain --raw --connection gh --event pull_request --payload delivery.json'],
    load: async () => (await trigger()).triggerExplain,
  },
  {
    words: ['endpoint', 'list'],
    summary: 'webhook endpoints',
    args: [],
    options: [watch],
    load: async () => (await trigger()).endpointList,
  },
  {
    words: ['endpoint', 'show'],
    summary: 'an endpoint: address, auth, triggers, problems',
    args: [nameArg],
    options: [],
    load: async () => (await trigger()).endpointShow,
  },
  {
    words: ['endpoint', 'reserve'],
    summary: 'hold an endpoint’s address for one hour',
    args: [nameArg],
    options: [],
    load: async () => (await trigger()).endpointReserve,
  },
  {
    words: ['endpoint', 'delete'],
    summary: 'delete an endpoint that no trigger uses, or give up a reservation',
    args: [nameArg],
    options: [yes, reason, dryRun],
    load: async () => (await trigger()).endpointDelete,
  },
  {
    words: ['schedule', 'list'],
    summary: 'heartbeat schedules and their next ticks',
    args: [],
    options: [selector, watch],
    load: async () => (await trigger()).scheduleList,
  },
];

export const resourceCommands: readonly CommandSpec[] = [
  ...repoCommands,
  ...reconcileCommands,
  ...agentCommands,
  ...triggerCommands,
  ...runtimeCommands,
  ...tenantCommands,
];
