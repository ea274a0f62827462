// For tests of what the code host is told: the simulator, a daemon that follows a repository there, and pull requests with
// their deliveries.

import assert from 'node:assert/strict';
import { createHmac, generateKeyPairSync, randomUUID } from 'node:crypto';
import { CodehostSimulator } from '../../base/testkit/codehost-simulator.ts';
import type { Issue, SimRepository } from '../../base/testkit/codehost-state.ts';
import { showPull } from '../../base/testkit/codehost-pulls.ts';
import { type JsonBody, startTestDaemon, type TestDaemon, type TestDaemonOptions } from '../../base/testkit/daemon.ts';
import { createLog } from '../../base/log/log.ts';
import { agentFile, settled, until } from '../sync/sync-testkit.ts';

const { privateKey, publicKey: appPublicKey } = generateKeyPairSync('rsa', {
  modulusLength: 2048,
  privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
  publicKeyEncoding: { type: 'spki', format: 'pem' },
});
export const appKey = privateKey;
export const hookSecret = 'a-secret-of-the-hook';
const bot = 'svc-app[bot]';

export interface PlanBench {
  readonly sim: CodehostSimulator;
  readonly daemon: TestDaemon;
  log(): string;
  /** A repository at the host with one agent, followed under its name and applied. */
  follow(name: string, settings?: object): Promise<SimRepository>;
  /** Opens a pull request with these files, or pushes them to it, and tells the daemon. */
  pull(repo: SimRepository, of: PullOptions): Promise<{ readonly number: number; readonly head: string }>;
  /** Waits until nothing is to be told. */
  quiet(): Promise<void>;
  stop(): Promise<void>;
}
export interface PullOptions {
  readonly branch: string;
  readonly files: { readonly [path: string]: string | null };
  readonly action?: string;
  readonly fork?: boolean;
  readonly base?: string;
}

export function newSimulator(): Promise<CodehostSimulator> {
  return new CodehostSimulator({ appPublicKey }).start();
}

/** Body and headers of a delivery. */
export function delivery(event: string, body: object): { headers: { [name: string]: string }; text: string } {
  const text = JSON.stringify(body);
  const signature = createHmac('sha256', hookSecret).update(text).digest('hex');
  const headers = {
    'content-type': 'application/json',
    'x-github-event': event,
    'x-github-delivery': randomUUID(),
    'x-hub-signature-256': `sha256=${signature}`,
  };
  return { headers, text };
}

/** Puts a pull request's head there (without files it stays), and gives what its delivery says. */
export async function openPull(sim: CodehostSimulator, repo: SimRepository, of: PullOptions) {
  const isPush = Object.keys(of.files).length > 0;
  const head = isPush
    ? await repo.git.commit(of.files, { branch: of.branch, message: 'Change' })
    : ((await repo.branch(of.branch)) ?? '');
  const found = [...repo.issues.values()].find((one) => one.pull?.head === of.branch);
  const issue: Issue = found ?? {
    id: sim.nextId(),
    number: repo.nextNumber(),
    user: { login: 'ann', id: 5, type: 'User' },
    created: sim.time(),
    updated: sim.time(),
    reactions: [],
    subIssues: [],
    blockedBy: [],
    title: 'A change',
    body: '',
    state: 'open',
    stateReason: null,
    labels: [],
    assignees: [],
    milestone: null,
    type: null,
    pull: {
      head: of.branch,
      base: of.base ?? 'main',
      draft: false,
      merged: false,
      autoMerge: null,
      reviewers: [],
      mergeable: true,
      ...(of.fork && { fork: true }),
    },
  };
  repo.issues.set(issue.number, issue);
  const pull = await showPull(repo, issue);
  const repository = {
    id: repo.id,
    name: repo.name,
    full_name: repo.fullName,
    private: repo.private,
    default_branch: 'main',
    clone_url: `${sim.origin}/${repo.fullName}.git`,
    owner: { login: repo.owner },
  };
  const action = of.action ?? (found === undefined ? 'opened' : 'synchronize');
  const body = {
    action,
    number: issue.number,
    pull_request: pull,
    repository,
    sender: { login: 'ann', id: 5, type: 'User' },
    installation: { id: 1 },
  };
  return { number: issue.number, head, body };
}

/** Branches off `main` where the branch is not there yet. */
export async function branchOff(repo: SimRepository, branch: string): Promise<void> {
  const has = await repo.branch(branch);
  if (has === undefined) await repo.git.git(['update-ref', `refs/heads/${branch}`, 'refs/heads/main']);
}

export async function startPlanBench(options: TestDaemonOptions = {}): Promise<PlanBench> {
  const sim = await newSimulator();
  let log = '';
  const daemon = await startTestDaemon({
    log: createLog('trace', { write: (line: string) => void (log += line) }),
    ...options,
    config: {
      allowPrivateNetwork: true,
      file: { providers: { codehost: { writeSpacingMs: 0 } } },
      ...options.config,
    },
  });
  const made = await daemon.api('POST', 'P/connections', {
    provider: 'codehost',
    name: 'hub',
    config: { apiUrl: sim.origin, appId: '1', installationId: '1', botLogin: bot },
    credentials: { webhookSecret: hookSecret, privateKey: appKey },
  });
  const intake = new URL(String(made.body['intakeUrl'])).pathname;
  return {
    sim,
    daemon,
    log: () => log,
    async follow(name, settings = {}) {
      const repo = await sim.repository(`acme/${name}`, { '.svc/agents/first.yaml': agentFile(`${name}-first`) });
      const url = `${sim.origin}/acme/${name}.git`;
      const auth = { kind: 'connection', connection: 'hub' };
      const answer = await daemon.api('POST', 'P/repositories', {
        name,
        url,
        intervalSeconds: 3600,
        auth,
        ...settings,
      });
      assert.equal(answer.status, 201, JSON.stringify(answer.body));
      await settled(daemon, name);
      return repo;
    },
    async pull(repo, of) {
      await branchOff(repo, of.branch);
      const { number, head, body } = await openPull(sim, repo, of);
      const { headers, text } = delivery('pull_request', body);
      const answer = await daemon.api('POST', intake, text, { token: null, headers });
      assert.ok(answer.status < 300, JSON.stringify(answer.body));
      return { number, head };
    },
    quiet: () =>
      until('nothing to be told', async () => {
        const { rows } = await daemon.ctx.db.query<{ due: number }>(
          `select (select count(*) from svc.pull_plans where due_at is not null or claimed_by is not null)
             + (select count(*) from svc.commit_statuses where due_at is not null or claimed_by is not null)
             + (select count(*) from svc.repositories r join svc.repository_states s on s.repository_id = r.id
                 left join svc.pull_polls p on p.repository_id = r.id
                where not r.suspended and r.auth is not null and s.applied_commit is not null
                  and (p.claimed_by is not null or (s.applied_commit is distinct from p.failed_commit
                    and (s.applied_commit is distinct from p.looked_commit or p.wishes <> p.looked_wishes)))) as due`,
        );
        return Number(rows[0]?.due) === 0;
      }).then(() => undefined),
    async stop() {
      await daemon.stop();
      await sim.stop();
    },
  };
}

/** Rows of `GET P/calls`, oldest first. */
export async function callsOf(daemon: TestDaemon): Promise<JsonBody[]> {
  const { body } = await daemon.api('GET', 'P/calls?limit=200');
  return (body['items'] as unknown as JsonBody[]).toReversed();
}
