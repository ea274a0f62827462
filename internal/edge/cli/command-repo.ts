// `svc repo …`: watched repositories.

import type { DryRun } from '../../../schemas/api/common.ts';
import * as reconciles from '../../../schemas/api/reconciles.ts';
import * as api from '../../../schemas/api/repositories.ts';
import { readFile, stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { type Client, connect } from './client.ts';
import { printOptions } from './command-reconcile.ts';
import { reasonBody, dryRun, isMeant, reasonOf } from './confirm.ts';
import { UsageError } from './failure.ts';
import { wholeNumber } from './input.ts';
import { showList } from './lists.ts';
import { probeText, whyUnread } from './print-probe.ts';
import { printRun, shortCommit, statusColour } from './print-run.ts';
import { contextOf } from './settings.ts';
import { clean, details, parseDurationSeconds, relativeTime } from './text.ts';
import type { Call, Handler } from './types.ts';
import { syncAndWait } from './wait.ts';

type Repository = api.Repository;

/**
 * One word: what keeps it from following its source, else how its latest run went; synced where its source runs, and pinned
 * where a commit does that it is held to.
 */
function stateOf(repository: Repository): string {
  if (repository.suspended) return 'suspended';
  if (repository.condition !== null) return repository.condition;
  const { status } = repository;
  if (status !== 'applied' && status !== 'unchanged') return status ?? 'pending';
  return repository.pinnedCommit === null ? 'synced' : 'pinned';
}

export const repoAdd: Handler = async (call) => {
  const url = call.text('url');
  const path = call.text('path');
  if ((url === undefined) === (path === undefined)) throw new UsageError('give exactly one of --url and --path');
  if (url !== undefined) checkUrl(url);
  const [timeoutSeconds, suspended] = [timeoutOf(call), call.flag('suspend')];
  const body = {
    name: call.arg('NAME'),
    ...(url !== undefined && { url }),
    ...(path !== undefined && { path: resolve(call.io.cwd, path) }),
    ...(await settingsOf(call)),
    ...(suspended && { suspended }),
  };
  const client = await connect(call);
  // For a person to read; a suspended repository is not asked anything yet.
  const isWanted = url !== undefined && !suspended && !call.json && !call.flag('no-probe');
  const found = isWanted ? [await probeSummary(call, client, url)] : [];
  if (path !== undefined && isHere(client) && !call.json) found.push(...(await lookHere(resolve(call.io.cwd, path))));
  const repository = await client.call(api.createRepository, { body });
  if (call.flag('wait') && !suspended) {
    if (!call.json) for (const line of found) call.screen.note(line);
    const { name } = repository;
    const start = () => client.call(api.syncRepository, { params: { name } });
    return syncAndWait(call, client, name, start, timeoutSeconds);
  }
  call.screen.emit(repository, () => [...found, `added ${next(repository)} its first run`].join('\n'));
  return 0;
};

const next = ({ name, suspended }: Repository): string =>
  `${name}; ${suspended ? `\`svc repo resume ${name}\` begins` : `\`svc repo sync ${name} --wait\` shows`}`;

/** Whether the daemon reads the disk of this machine. */
const isHere = ({ server }: Client): boolean => /^(?:localhost|127\.|\[::1\])/.test(new URL(server.url).host);

/** What a daemon on this machine would find at a path. */
async function lookHere(path: string): Promise<string[]> {
  const found = await stat(path).catch(() => undefined);
  if (found === undefined) return [`warning: there is no ${path}`];
  if (!found.isDirectory()) return [`warning: ${path} is not a directory`];
  const svc = await stat(join(path, '.svc')).catch(() => undefined);
  return svc === undefined ? [`warning: ${path} has no .svc/; \`svc init\` makes a first one`] : [];
}

function timeoutOf(call: Call): number {
  const timeout = call.text('timeout') ?? '10m';
  const seconds = parseDurationSeconds(timeout);
  if (seconds === undefined) throw new UsageError(`--timeout takes a duration such as 60s or 5m, not "${timeout}"`);
  return seconds;
}

/** What a look at the server says, in a line; it is added whatever that is. */
async function probeSummary(call: Call, client: Client, url: string): Promise<string> {
  const auth = authOf(call);
  const body = { url, ...(auth !== undefined && { auth }) };
  const report = await client.call(api.probeRepository, { body, timeoutMs: 180_000 });
  const why = whyUnread(report);
  if (why !== undefined || report.reachable === false) return `warning: ${why}`;
  const branch = call.text('branch') ?? report.defaultBranch ?? '-';
  const commit = report.commit === null ? '' : ` at ${shortCommit(report.commit)}`;
  return `found branch ${clean(branch, true)}${commit}${report.hasSvc === false ? ', without a .svc/' : ''}`;
}

// Neither sent nor repeated: it would be in the server's log and on the screen.
function checkUrl(url: string): void {
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  if (parsed !== undefined && (parsed.username !== '' || parsed.password !== '')) {
    throw new UsageError('the URL holds credentials', 'put the token into a secret and name it with --secret');
  }
}

function authOf(call: Call): api.NewRepository['auth'] {
  const [connection, secretRef, username] = ['connection', 'secret', 'username'].map((name) => call.text(name));
  if (connection !== undefined && secretRef !== undefined)
    throw new UsageError('give one of --connection and --secret');
  if (username !== undefined && secretRef === undefined) throw new UsageError('--username goes with --secret');
  if (connection !== undefined) return { kind: 'connection', connection };
  return secretRef === undefined
    ? undefined
    : { kind: 'token', secretRef, ...(username !== undefined && { username }) };
}

async function settingsOf(call: Call) {
  const branch = call.text('branch');
  const root = call.text('root');
  const interval = call.text('interval');
  const intervalSeconds = interval === undefined ? undefined : parseDurationSeconds(interval);
  if (interval !== undefined && (intervalSeconds === undefined || intervalSeconds < 1)) {
    throw new UsageError(`--interval takes a duration such as 60s, 5m or 1h, not "${interval}"`);
  }
  const auth = authOf(call);
  const deleteMax = wholeNumber(call, 'delete-max', 0, 1_000_000);
  const context = contextOf(call);
  const keys: string[] = [];
  for (const file of call.list('verify-key')) {
    keys.push(
      await readFile(resolve(call.io.cwd, file), 'utf8').catch((error: NodeJS.ErrnoException) => {
        throw new UsageError(`--verify-key: ${file} cannot be read (${error.code})`);
      }),
    );
  }
  return {
    ...(branch !== undefined && { branch }),
    ...(root !== undefined && { root }),
    ...(intervalSeconds !== undefined && { intervalSeconds }),
    ...(auth !== undefined && { auth }),
    ...(Object.keys(context).length > 0 && { context }),
    ...(call.flag('adopt') && { adopt: true }),
    ...(deleteMax !== undefined && { guard: { deleteMax } }),
    ...(keys.length > 0 && { verify: { keys } }),
    ...planOf(call),
  };
}

export const repoEdit: Handler = async (call) => {
  const url = call.text('url');
  const path = call.text('path');
  if (url !== undefined && path !== undefined) throw new UsageError('give one of --url and --path');
  if (url !== undefined) checkUrl(url);
  const name = call.arg('NAME');
  const body = {
    ...(url !== undefined && { url }),
    ...(path !== undefined && { path: resolve(call.io.cwd, path) }),
    ...(await settingsOf(call)),
    ...(call.flag('suspend') && { suspended: true }),
  };
  if (Object.keys(body).length === 0) throw new UsageError('nothing to change was given');
  const client = await connect(call);
  const repository = await client.call(api.updateRepository, { params: { name }, body });
  call.screen.emit(repository, () => `changed ${next(repository)} its next run`);
  return 0;
};

/** Settings of plans on pull requests, as far as they are given. */
function planOf(call: Call): Pick<api.NewRepository, 'plan'> {
  const plan: { comment?: boolean; check?: boolean; forks?: boolean } = {};
  for (const key of ['comment', 'check', 'forks'] as const) {
    const word = call.text(`plan-${key}`);
    if (word === undefined) continue;
    if (word !== 'on' && word !== 'off') throw new UsageError(`--plan-${key} takes on or off, not "${word}"`);
    plan[key] = word === 'on';
  }
  return Object.keys(plan).length === 0 ? {} : { plan };
}

export const repoList: Handler = async (call) => {
  const client = await connect(call);
  const now = call.screen.now();
  return showList(call, client, {
    operation: api.listRepositories,
    empty: 'no repositories; `svc repo add NAME --url URL` watches one',
    head: ['name', 'source', 'branch', 'state', 'commit', 'applied', 'agents'],
    row: ({ value: repository }) => [
      repository.name,
      repository.url ?? repository.path ?? '-',
      repository.branch ?? '-',
      { text: stateOf(repository), colour: stateColour(repository) },
      shortCommit(repository.appliedCommit),
      relativeTime(repository.appliedAt, now),
      String(repository.agents),
    ],
    wide: {
      head: ['interval', 'next poll', 'failures', 'pinned', 'because'],
      row: ({ value: repository }) => [
        `${repository.intervalSeconds}s`,
        relativeTime(repository.suspended ? null : repository.nextPollAt, now),
        String(repository.failures),
        shortCommit(repository.pinnedCommit),
        repository.conditionDetail ?? '-',
      ],
    },
  });
};

const stateColour = (repository: Repository): ReturnType<typeof statusColour> =>
  repository.condition !== null && !repository.suspended ? 'red' : statusColour(stateOf(repository));

export const repoShow: Handler = async (call) => {
  const client = await connect(call);
  const name = call.arg('NAME');
  const repository = await client.call(api.getRepository, { params: { name } });
  const [latest] = (await client.list(reconciles.listReconciles, { query: { repository: name } }, 1)).items;
  const run =
    latest === undefined ? undefined : await client.call(reconciles.getReconcile, { params: { id: latest.id } });
  call.screen.emit({ ...repository, latestReconcile: run ?? null }, () => showText(repository, run, call));
  return 0;
};

function showText(repository: Repository, run: reconciles.WholeRun | undefined, call: Call): string {
  const options = printOptions(call);
  const { paint, now } = options;
  const at = (time: string | null | undefined): string | undefined =>
    time ? `${time} (${relativeTime(time, now)})` : undefined;
  const auth = repository.auth;
  const context = Object.entries(repository.context);
  const text = details(
    [
      ['repository', paint('bold', clean(repository.name, true))],
      ['source', clean(repository.url ?? repository.path ?? '-', true)],
      ['branch', repository.branch ? clean(repository.branch, true) : undefined],
      ['root', repository.root ? clean(repository.root, true) : undefined],
      ['state', paint(stateColour(repository), stateOf(repository))],
      ['because', repository.conditionDetail ? clean(repository.conditionDetail) : undefined],
      ['since', at(repository.conditionSince)],
      ['failures', repository.failures ? `${repository.failures} in a row` : undefined],
      ['applied', repository.appliedCommit ? clean(repository.appliedCommit, true) : undefined],
      ['applied at', at(repository.appliedAt)],
      [
        'seen',
        repository.seenCommit && repository.seenCommit !== repository.appliedCommit
          ? clean(repository.seenCommit, true)
          : undefined,
      ],
      ['pinned', repository.pinnedCommit ? clean(repository.pinnedCommit, true) : undefined],
      ['quarantined', repository.quarantinedCommit ? clean(repository.quarantinedCommit, true) : undefined],
      ['plans', plansText(repository)],
      ['interval', `${repository.intervalSeconds}s`],
      ['next poll', at(repository.suspended ? null : repository.nextPollAt)],
      [
        'auth',
        auth ? `${auth.kind} ${clean(auth.kind === 'token' ? auth.secretRef : auth.connection, true)}` : undefined,
      ],
      ['context', context.map(([key, value]) => clean(`${key}=${value}`, true)).join(', ') || undefined],
    ],
    paint,
  );
  return run === undefined
    ? `${text}\n\nno run yet`
    : `${text}\n\n${paint('bold', 'latest run')}\n${printRun(run, options)}`;
}

/** What pull requests are told, where something is; an older server says nothing of it. */
function plansText({ plan, auth }: Repository): string | undefined {
  if (auth?.kind !== 'connection') return undefined;
  const { comment = true, check = true, forks = false } = plan ?? {};
  const told = [...(comment ? ['comment'] : []), ...(check ? ['check'] : [])];
  return told.length === 0 ? 'none' : `${told.join(' and ')} on pull requests${forks ? ', of forks too' : ''}`;
}

export const repoSync: Handler = async (call) => {
  const name = call.arg('NAME');
  const timeoutSeconds = timeoutOf(call);
  const client = await connect(call);
  const start = () => client.call(api.syncRepository, { params: { name } });
  if (call.flag('wait')) return syncAndWait(call, client, name, start, timeoutSeconds);
  const answer = await start();
  call.screen.emit(
    answer,
    () => `started ${answer.reconcileId}; \`svc reconcile show ${answer.reconcileId}\` tells how it went`,
  );
  return 0;
};

const past: { readonly [word in Action]: string } = {
  suspend: 'suspended',
  resume: 'resumed',
  rollback: 'rolling back',
  release: 'released',
  pin: 'pinned',
  unpin: 'unpinned',
  approve: 'approved',
};

type Action = 'suspend' | 'resume' | 'rollback' | 'release' | 'pin' | 'unpin' | 'approve';

/** Actions that are one POST: suspend, resume, rollback, release, pin, unpin, approve. */
export function repoAction(word: Action): Handler {
  return async (call) => {
    const timeoutSeconds = timeoutOf(call);
    const client = await connect(call);
    const name = call.arg('NAME');
    if ((word === 'rollback' || word === 'pin') && call.flag('dry-run')) return lookFirst(call, client, word);
    const answer = await act(call, client, word);
    const run = 'reconcileId' in answer ? `; run ${answer.reconcileId}` : '';
    const way =
      'to' in answer
        ? ` from ${clean(answer.from ?? 'nothing', true)} to ${clean(answer.to, true)}; a newer commit ends that, or \`svc repo release ${name}\``
        : '';
    if (call.flag('wait') && 'reconcileId' in answer) {
      if (!call.json) call.screen.note(`${past[word]} ${name}${way}`);
      return syncAndWait(call, client, name, async () => answer, timeoutSeconds);
    }
    call.screen.emit(answer, () => `${past[word]} ${name}${way}${run}`);
    return 0;
  };
}

type Started = { readonly reconcileId: string; readonly from: string | null; readonly to: string };

async function act(
  call: Call,
  client: Client,
  word: Action,
): Promise<Repository | { readonly reconcileId: string } | Started> {
  const params = { name: call.arg('NAME') };
  switch (word) {
    case 'suspend':
      return client.call(api.suspendRepository, { params, ...reasonBody(call) });
    case 'resume':
      return client.call(api.resumeRepository, { params, ...reasonBody(call) });
    case 'release':
      return client.call(api.releaseRepository, { params, ...reasonBody(call) });
    case 'pin':
      return (await client.call(api.pinRepository, { params, body: commitBody(call) })) as Started;
    case 'unpin':
      return client.call(api.unpinRepository, { params, ...reasonBody(call) });
    case 'approve':
      return client.call(api.approveReconcile, {
        params,
        body: { reconcileId: call.arg('RECONCILE'), ...reasonOf(call) },
      });
    case 'rollback': {
      const commit = call.optionalArg('COMMIT');
      const body = { ...(commit !== undefined && { commit }), ...reasonOf(call) };
      return (await client.call(api.rollbackRepository, { params, body })) as Started;
    }
  }
}

const commitBody = (call: Call) => ({ commit: call.arg('COMMIT'), ...reasonOf(call) });

/** What a rollback or a pin would change. */
async function lookFirst(call: Call, client: Client, word: Action): Promise<number> {
  const params = { name: call.arg('NAME') };
  const commit = word === 'rollback' ? call.optionalArg('COMMIT') : call.arg('COMMIT');
  await isMeant(call, `${word} of ${params.name}`, async () => {
    if (word === 'rollback') {
      const body = commit === undefined ? {} : { commit };
      return (await client.call(api.rollbackRepository, { params, query: dryRun, body })) as DryRun;
    }
    return (await client.call(api.pinRepository, { params, query: dryRun, body: { commit: commit ?? '' } })) as DryRun;
  });
  return 0;
}

export const repoRemove: Handler = async (call) => {
  const client = await connect(call);
  const [name, keepResources] = [call.arg('NAME'), call.flag('keep-resources')];
  const query = { keepResources: keepResources || undefined };
  const look = async () =>
    (await client.call(api.deleteRepository, { params: { name }, query: { ...query, ...dryRun } })) as DryRun;
  if (!(await isMeant(call, `removing ${name}`, look))) return 0;
  await client.call(api.deleteRepository, { params: { name }, query, ...reasonBody(call) });
  call.screen.emit({ name, status: 'removed', keepResources }, () =>
    keepResources ? `removed ${name}; its resources stay, owned by "manual"` : `removed ${name} and what it owned`,
  );
  return 0;
};

export const repoProbe: Handler = async (call) => {
  const url = call.arg('URL');
  checkUrl(url);
  const auth = authOf(call);
  const client = await connect(call);
  const body = { url, ...(auth !== undefined && { auth }) };
  const report = await client.call(api.probeRepository, { body, timeoutMs: 180_000 });
  call.screen.emit(report, () => probeText(report, call.screen.paint));
  const why = whyUnread(report);
  if (why !== undefined && !call.json) call.screen.note(`${call.screen.errPaint('red', 'svc:')} ${why}`);
  return why === undefined ? 0 : 1;
};
