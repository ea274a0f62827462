// The demo's code host: a simulator on loopback with one repository, a connection that leads there, and a push that wakes
// agents. What the agents make of it is read from the simulator, as a person would see it in a browser.

import { createHmac, generateKeyPairSync, randomBytes, randomUUID } from 'node:crypto';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { CodehostSimulator } from '../../internal/base/testkit/codehost-simulator.ts';
import type { Issue, SimRepository } from '../../internal/base/testkit/codehost-state.ts';
import { DemoError } from './processes.ts';
import { call } from './register.ts';

const filesPath = join(import.meta.dirname, '../../testdata/demo-codehost');
const repositoryName = 'garden/almanac';
/** As agents' triggers name it. */
const connection = 'almanac';
const triesMax = 300;
const pauseMs = 100;

export interface DemoHost {
  readonly origin: string;
  /** Makes the connection, or gives the one that is there new credentials. */
  connect(): Promise<void>;
  /** Pushes a commit; its webhook goes out. Answers with the commit; undefined, without one, where no agent waits for it. */
  push(): Promise<string | undefined>;
  /** What came of a push, once it is all there or the time is up. */
  outcome(commit: string): Promise<Outcome>;
  stop(): Promise<void>;
}

export interface Outcome {
  /** One line for each thing that is there, in the order in which it came about. */
  readonly lines: readonly string[];
  readonly sessions: readonly string[];
  /** From the push to the comment. */
  readonly isWhole: boolean;
}

/** The files below a folder, by their paths there. */
async function filesOf(folder: string): Promise<{ [path: string]: string }> {
  const root = join(filesPath, folder);
  const found = await readdir(root, { recursive: true, withFileTypes: true });
  const files = found.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  return Object.fromEntries(
    await Promise.all(files.map(async (path) => [relative(root, path), await readFile(path, 'utf8')] as const)),
  );
}

/** Where it was the last time, where that is free: the connection that is there leads to it. */
async function startSimulator(dataDir: string, appPublicKey: string): Promise<CodehostSimulator> {
  const file = join(dataDir, 'demo', 'codehost-port');
  const kept = Number(await readFile(file, 'utf8').catch(() => '0'));
  const port = Number.isInteger(kept) && kept > 0 && kept < 65_536 ? kept : 0;
  const simulator = await new CodehostSimulator({ appPublicKey, port })
    .start()
    .catch((error: NodeJS.ErrnoException) => {
      if (port === 0 || error.code !== 'EADDRINUSE') throw error;
      return new CodehostSimulator({ appPublicKey }).start();
    });
  await writeFile(file, new URL(simulator.origin).port);
  return simulator;
}

/** Starts the simulator. Its key and the secret of its webhooks are of this run, and nowhere on the disk. */
export async function startHost(dataDir: string): Promise<DemoHost> {
  const keys = generateKeyPairSync('rsa', {
    modulusLength: 2048,
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
    publicKeyEncoding: { type: 'spki', format: 'pem' },
  });
  const webhookSecret = randomBytes(24).toString('base64url');
  const simulator = await startSimulator(dataDir, keys.publicKey);
  const repository = await simulator.repository(repositoryName, await filesOf('almanac'));
  const deliveries = new Set<string>();
  let intakeUrl = '';
  simulator.onEvent = (event, payload) => {
    void deliver({ intakeUrl, webhookSecret }, event, payload).then((id) => id !== undefined && deliveries.add(id));
  };
  return {
    origin: simulator.origin,
    async connect() {
      intakeUrl = await connect(dataDir, simulator.origin, { webhookSecret, privateKey: keys.privateKey });
    },
    push: async () => ((await isAwaited(dataDir)) ? push(simulator, repository) : undefined),
    outcome: (commit) => outcome(dataDir, { simulator, repository, deliveries }, commit),
    stop: () => simulator.stop(),
  };
}

async function connect(dataDir: string, apiUrl: string, credentials: object): Promise<string> {
  const path = `/connections/${connection}`;
  const found = await call(dataDir, 'GET', path);
  const stored = Object(found.body) as { readonly config?: { readonly apiUrl?: string }; readonly intakeUrl?: string };
  if (found.status === 200 && stored.config?.apiUrl === apiUrl && stored.intakeUrl !== undefined) {
    await call(dataDir, 'PUT', `${path}/credentials`, { credentials });
    return stored.intakeUrl;
  }
  // Its triggers are optional: they are skipped until the one that follows is there.
  if (found.status === 200) await call(dataDir, 'DELETE', path);
  const config = { apiUrl, appId: '1', installationId: '1', botLogin: 'svc-app[bot]' };
  const made = await call(dataDir, 'POST', '/connections', {
    provider: 'codehost',
    name: connection,
    config,
    credentials,
  });
  const { intakeUrl, detail } = Object(made.body) as { readonly intakeUrl?: string; readonly detail?: unknown };
  if (intakeUrl !== undefined) return intakeUrl;
  throw new DemoError(`the connection ${connection} could not be made (${made.status}): ${String(detail)}`);
}

/** The event's id; undefined where it was not taken. */
async function deliver(
  { intakeUrl, webhookSecret }: { readonly intakeUrl: string; readonly webhookSecret: string },
  event: string,
  payload: object,
): Promise<string | undefined> {
  const body = JSON.stringify(payload);
  const signature = createHmac('sha256', webhookSecret).update(body).digest('hex');
  const headers = {
    'content-type': 'application/json',
    'x-github-event': event,
    'x-github-delivery': randomUUID(),
    'x-hub-signature-256': `sha256=${signature}`,
  };
  const answer = await fetch(intakeUrl, { method: 'POST', headers, body }).catch(() => undefined);
  const { eventRecordId } = Object(await answer?.json().catch(() => undefined)) as { readonly eventRecordId?: string };
  return eventRecordId;
}

/** A fleet of an earlier version, or one that was changed since, may have no agent for it. */
async function isAwaited(dataDir: string): Promise<boolean> {
  const { body } = await call(dataDir, 'GET', '/triggers?limit=200');
  const { items = [] } = Object(body) as { items?: readonly { readonly event?: string; readonly status?: string }[] };
  return items.some(({ event, status }) => event === 'codehost.push' && status === 'active');
}

async function push(simulator: CodehostSimulator, repository: SimRepository): Promise<string> {
  const before = await repository.git.head();
  const message = 'Note the first frost';
  const after = await repository.git.commit(await filesOf('push'), { message, time: Math.floor(Date.now() / 1_000) });
  const author = { name: 'You', email: 'you@example.com' };
  const commit = { id: after, message, author, added: Object.keys(await filesOf('push')), removed: [], modified: [] };
  const sender = { id: 2, login: 'you', type: 'User' };
  const said = { ref: 'refs/heads/main', before, after, created: false, deleted: false, forced: false };
  simulator.happened('push', { ...said, commits: [commit], head_commit: commit, pusher: author, sender }, repository);
  return after;
}

interface World {
  readonly simulator: CodehostSimulator;
  readonly repository: SimRepository;
  /** Ids of the events that were taken. */
  readonly deliveries: ReadonlySet<string>;
}

async function outcome(dataDir: string, world: World, commit: string): Promise<Outcome> {
  for (let tries = 1; ; tries += 1) {
    const seen = await look(dataDir, world, commit);
    if (seen.isWhole || tries === triesMax) return seen;
    await sleep(pauseMs);
  }
}

async function look(dataDir: string, { repository, deliveries }: World, commit: string): Promise<Outcome> {
  const lines: string[] = [`push to ${repositoryName} of ${commit.slice(0, 12)}`];
  const sessions: string[] = [];
  const events = async (key: string): Promise<void> => {
    for (const id of deliveries) {
      const event = Object((await call(dataDir, 'GET', `/events/${id}`)).body) as {
        readonly key?: string;
        readonly routes?: readonly { readonly agent: string; readonly sessionId?: string }[];
      };
      if (event.key !== key) continue;
      for (const { agent, sessionId } of event.routes ?? []) {
        if (sessionId === undefined) continue;
        sessions.push(sessionId);
        lines.push(`event ${key}`, `session ${sessionId} of ${agent}`);
      }
    }
  };
  await events('codehost.push');
  const pull = [...repository.issues.values()].find((one) => one.pull?.head === `page-${commit}`);
  const head = await repository.sha(`refs/heads/page-${commit}`);
  if (head !== undefined) lines.push(`branch page-${commit.slice(0, 12)}…`);
  if (head !== undefined && head !== commit) lines.push(`commit ${head.slice(0, 12)}`);
  if (pull !== undefined) {
    lines.push(`pull request #${pull.number}: ${pull.title}`);
    await events('codehost.pull_request.opened');
  }
  const check = repository.checks
    .map(({ fields }) => fields)
    .find(({ head_sha: sha, status }) => sha === head && status === 'completed');
  if (check !== undefined) lines.push(`check ${String(check['name'])}: ${String(check['conclusion'])}`);
  const comment = pull === undefined ? undefined : commentOf(repository, pull);
  if (comment !== undefined) lines.push(`comment: ${comment}`);
  return { lines, sessions, isWhole: check !== undefined && comment !== undefined };
}

/** Without the marks that the service hides in it. */
const commentOf = (repository: SimRepository, pull: Issue): string | undefined =>
  repository.comments
    .find((one) => one.number === pull.number)
    ?.body.split('\n<!--')[0]
    ?.trim();
