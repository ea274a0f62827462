// The daemon with a real harness behind it: `svcd` as a process of its own on an embedded database, the adapters under
// its data directory, sandboxes fenced, the stub where a model would be. Everything is said and read through its public
// door; what processes and files it leaves is looked for from outside.

import assert from 'node:assert/strict';
import { createHmac, randomUUID } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import {
  type ApiAnswer,
  apiClient,
  type JsonBody,
  readClientFile,
  type SpawnedDaemon,
  spawnDaemon,
  tempDataDir,
} from '../base/testkit/daemon.ts';
import type { Harness } from '../domain/spec.ts';
import { modelName } from './scene.ts';
import { type Recorded, startStubModel, type StubModel, toolCount } from './stub-model.ts';

/** The provider's key, as the daemon has it; nothing in a sandbox may. */
export const gatewayKey = 'stub-key-that-no-sandbox-sees';
/** US dollars for a million tokens of either kind. */
export const modelPrice = 1;
const hookSecret = 'the secret of the code host';
const patienceMs = 60_000;

export interface AgentMessage {
  readonly seq: number;
  readonly role: string;
  readonly kind: string;
  readonly text: string;
  readonly detail?: { readonly [key: string]: unknown };
  readonly delivery?: { readonly state: string; readonly mode: string; readonly attempts: number };
}
export interface View {
  readonly state: string;
  readonly body: JsonBody;
  readonly said: readonly AgentMessage[];
}
/** A process that works for a session. */
export interface Found {
  readonly pid: number;
  readonly argv: readonly string[];
}

/** Where its sessions run; `fenced`: without a network of their own. */
export interface Place {
  readonly sandbox: 'bubblewrap' | 'process';
  readonly fenced: boolean;
}

export interface Service {
  readonly harness: Harness;
  readonly place: Place;
  readonly model: StubModel;
  readonly dataDir: string;
  url(): string;
  api(method: string, path: string, body?: unknown): Promise<ApiAnswer>;
  /** Applies agents by name, beside those that are there. */
  apply(agents: { readonly [name: string]: object }): Promise<void>;
  /** Posts to a declared endpoint. */
  hook(endpoint: string, body: object): Promise<void>;
  /** Tells of a check run that has ended, as the code host does. */
  checkRun(name: string): Promise<void>;
  sessions(agent: string): Promise<readonly string[]>;
  view(session: string): Promise<View>;
  /** Waits until the session is as wanted; fails with what it is like. */
  until(session: string, what: string, wanted: (view: View) => boolean): Promise<View>;
  /** Processes of a session, found by what only its sandbox has in its environment. */
  processes(session: string): readonly Found[];
  /** Calls to the model that were made in the conversation since `count`. */
  callsSince(count: number): readonly Recorded[];
  /** SIGKILL of the daemon. */
  kill(): Promise<void>;
  /** A new daemon on what a killed one has left. */
  start(): Promise<void>;
  end(): Promise<void>;
}

async function started(dataDir: string): Promise<{ daemon: SpawnedDaemon; url: string }> {
  const daemon = spawnDaemon({
    dataDir,
    args: ['--config', join(dataDir, 'svc.json')],
    env: { SVC_PROVIDER_A_KEY: gatewayKey, SVC_PROVIDER_B_KEY: gatewayKey },
  });
  return { daemon, url: (await daemon.ready).url };
}

/** Processes whose environment names the session. Those that cannot be looked into are not ours. */
function processesOf(session: string): Found[] {
  const found: Found[] = [];
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    try {
      if (!readFileSync(`/proc/${name}/environ`, 'latin1').includes(session)) continue;
      found.push({ pid: Number(name), argv: readFileSync(`/proc/${name}/cmdline`, 'utf8').split('\0').slice(0, -1) });
    } catch {
      // It has ended meanwhile, or is another user's.
    }
  }
  return found;
}

const providers = ['provider-a', 'provider-b'] as const;

/** The file of SVC_CONFIG: the stub is each provider, and knows one model at one price. */
function configOf(model: StubModel, { sandbox, fenced }: Place): object {
  const price = `${modelPrice}`;
  const rates = { input: price, output: price, cacheRead: price, cacheWrite: price };
  const each = (value: object): object => Object.fromEntries(providers.map((provider) => [provider, value]));
  return {
    sandbox,
    allowPrivateNetwork: true,
    logLevel: 'info',
    sessions: { fenced },
    catalog: { models: each({ ids: [modelName] }) },
    providers: {
      model: {
        ...each({ baseUrl: model.url }),
        prices: providers.map((provider) => ({ provider, model: modelName, from: '2020-01-01', ...rates })),
      },
    },
  };
}

/** Starts the daemon; `installed` is the data directory that holds the adapters. */
export async function startService(harness: Harness, installed: string, place: Place): Promise<Service> {
  const model = await startStubModel();
  const data = await tempDataDir();
  try {
    await symlink(join(installed, 'harnesses'), join(data.path, 'harnesses'));
    await writeFile(join(data.path, 'svc.json'), JSON.stringify(configOf(model, place)));
    const running = await started(data.path);
    const daemon = new RunningService({ harness, place, model, data, running });
    await daemon.connect();
    return daemon;
  } catch (error) {
    await model.close();
    await data.remove();
    throw error;
  }
}

interface Parts {
  readonly harness: Harness;
  readonly place: Place;
  readonly model: StubModel;
  readonly data: Awaited<ReturnType<typeof tempDataDir>>;
  readonly running: Awaited<ReturnType<typeof started>>;
}

class RunningService implements Service {
  readonly harness: Harness;
  readonly place: Place;
  readonly model: StubModel;
  readonly dataDir: string;
  readonly processes = processesOf;
  readonly #parts: Parts;
  #running: Parts['running'];
  #intake = '';

  constructor(parts: Parts) {
    this.harness = parts.harness;
    this.place = parts.place;
    this.model = parts.model;
    this.dataDir = parts.data.path;
    this.#parts = parts;
    this.#running = parts.running;
  }

  url(): string {
    return this.#running.url;
  }

  api(method: string, path: string, body?: unknown): Promise<ApiAnswer> {
    return apiClient(this.url(), readClientFile(this.dataDir).token)(method, path, body);
  }

  /** Connects the code host that `checkRun` speaks as. */
  async connect(): Promise<void> {
    const { status, body } = await this.api('POST', 'P/connections', {
      provider: 'codehost',
      name: 'hub',
      config: { appId: 7, botLogin: 'svc-app' },
      credentials: { webhookSecret: hookSecret },
    });
    assert.equal(status, 201, JSON.stringify(body));
    this.#intake = new URL(String(body['intakeUrl'])).pathname;
  }

  async apply(agents: { readonly [name: string]: object }): Promise<void> {
    const files = Object.entries(agents).map(([name, spec]) => ({
      path: `.svc/agents/${name}.yaml`,
      content: JSON.stringify({ name, ...spec }),
    }));
    const { status, body } = await this.api('POST', 'P/apply', { files, prune: false });
    assert.equal(status, 200, JSON.stringify(body));
  }

  async hook(endpoint: string, body: object): Promise<void> {
    const { slug } = (await this.api('GET', `P/endpoints/${endpoint}`)).body;
    await this.#deliver(`/api/v1/webhook-endpoints/${String(slug)}/events`, JSON.stringify(body));
  }

  async checkRun(name: string): Promise<void> {
    const text = JSON.stringify({
      action: 'completed',
      repository: { id: 1, full_name: 'o/r', name: 'r', owner: { login: 'o' } },
      sender: { login: 'ann', id: 1, type: 'User' },
      check_run: { id: 3, name, head_sha: 'sha-1', conclusion: 'success', pull_requests: [] },
    });
    await this.#deliver(this.#intake, text, {
      'x-github-event': 'check_run',
      'x-github-delivery': randomUUID(),
      'x-hub-signature-256': `sha256=${createHmac('sha256', hookSecret).update(text).digest('hex')}`,
    });
  }

  async #deliver(path: string, text: string, headers: { readonly [name: string]: string } = {}): Promise<void> {
    const response = await fetch(`${this.url()}${path}`, { method: 'POST', body: text, headers });
    assert.equal(response.status, 202, await response.text());
  }

  async sessions(agent: string): Promise<readonly string[]> {
    const { body } = await this.api('GET', `P/sessions?agent=${agent}&live=true`);
    return (body['items'] as unknown as { id: string }[]).map(({ id }) => id);
  }

  async view(session: string): Promise<View> {
    const one = await this.api('GET', `P/sessions/${session}`);
    const said = await this.api('GET', `P/sessions/${session}/messages?limit=200`);
    assert.deepEqual([one.status, said.status], [200, 200]);
    return { state: String(one.body['state']), body: one.body, said: said.body['items'] as unknown as AgentMessage[] };
  }

  async until(session: string, what: string, wanted: (view: View) => boolean): Promise<View> {
    const start = performance.now();
    for (;;) {
      const seen = await this.view(session);
      if (wanted(seen)) return seen;
      const { state, reason, lastTurn } = seen.body as { [key: string]: unknown };
      if (performance.now() - start > patienceMs || ['failed', 'replaced'].includes(String(state))) {
        const tail = seen.said.slice(-5).map(({ kind, text }) => `${kind}: ${text.slice(0, 200)}`);
        assert.fail(`${what}: the session is ${JSON.stringify({ state, reason, lastTurn, tail })}`);
      }
      await wait(50);
    }
  }

  callsSince(count: number): readonly Recorded[] {
    return this.model.requests.slice(count).filter(({ body }) => toolCount(body) > 0);
  }

  async kill(): Promise<void> {
    await this.#running.daemon.kill('SIGKILL');
  }

  async start(): Promise<void> {
    this.#running = await started(this.dataDir);
  }

  async end(): Promise<void> {
    await this.#running.daemon.kill('SIGTERM');
    await this.model.close();
    await this.#parts.data.remove();
  }
}
