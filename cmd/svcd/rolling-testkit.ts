// What svcd.rolling.crash.test.ts has two daemons share beside deliveries: syncs of what is pushed, ticks, and a session of a
// pull request whose check the one begins and the other concludes.

import assert from 'node:assert/strict';
import { createHmac, generateKeyPairSync, randomUUID } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Database } from '../../internal/adapters/store/store.ts';
import { schedulesChannel } from '../../internal/adapters/store/resources/schedules.ts';
import { CodehostSimulator } from '../../internal/base/testkit/codehost-simulator.ts';
import type { SimRepository } from '../../internal/base/testkit/codehost-state.ts';
import type { Api } from '../../internal/base/testkit/daemon.ts';
import { readSession, saidIn } from '../../internal/flows/session-host/boxes-testkit.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '../../internal/flows/session-host/host-crash-testkit.ts';
import { agentFile } from '../../internal/flows/sync/sync-testkit.ts';

const environment = { name: 'default', image: { kind: 'preset', name: 'base' } };
const schedules = 8;
const secret = 'of-the-hook';

/** A daemon, as it is spoken to. */
export interface Side {
  readonly url: string;
  readonly api: Api;
}

/** Pushes behind which the daemons are given time: who has just synced a repository has it still, and takes the next one too. */
const luckyTurns = 20;
const restMs = 2_000;

export class MixedWork {
  readonly #db: Database;
  readonly #sim: CodehostSimulator;
  readonly #privateKey: string;
  readonly #gate: string;
  #intake = '';
  #session = '';
  #commits = 0;
  #ticks = 0;

  private constructor(db: Database, sim: CodehostSimulator, privateKey: string, gate: string) {
    this.#db = db;
    this.#sim = sim;
    this.#privateKey = privateKey;
    this.#gate = gate;
  }

  /** The code host; `dir`: where a file of its own may be. */
  static async start(db: Database, dir: string): Promise<MixedWork> {
    const { privateKey, publicKey } = generateKeyPairSync('rsa', {
      modulusLength: 2048,
      privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
      publicKeyEncoding: { type: 'spki', format: 'pem' },
    });
    const sim = await new CodehostSimulator({ appPublicKey: publicKey }).start();
    await sim.repository('acme/fleet', { '.svc/agents/a.yaml': agentFile('fleet-0') });
    return new MixedWork(db, sim, privateKey, join(dir, 'gate'));
  }

  get #fleet(): SimRepository {
    const [fleet] = this.#sim.repositories;
    assert.ok(fleet);
    return fleet;
  }

  /** On the one daemon that there is: its session begins its check, and everything has worked once. */
  async begin({ url, api }: Side): Promise<void> {
    const connected = await api('POST', 'P/connections', {
      provider: 'codehost',
      name: 'hub',
      config: { apiUrl: this.#sim.origin, appId: '1', installationId: '1' },
      credentials: { webhookSecret: secret, privateKey: this.#privateKey },
    });
    assert.equal(connected.status, 201, JSON.stringify(connected.body));
    this.#intake = new URL(String(connected.body['intakeUrl'])).pathname;
    await this.#declare(api);
    await this.push([{ url, api }]);
    await this.tick();
    await this.#open({ url, api });
  }

  async #declare(api: Api): Promise<void> {
    const checker = {
      name: 'checker',
      harness: 'harness-a',
      environment,
      tools: { svc: { kind: 'local', implementation: 'svc' } },
      triggers: [
        {
          event: 'codehost.pull_request.opened',
          connection: 'hub',
          checks: [{ name: 'lint', displayName: 'Lint', description: 'Reads' }],
          message: '!call checks checks_begin {"name":"lint"}\n!say begun.',
          routing: { kind: 'bind', target: 'codehost.pull_request', onUnmatched: 'spawn' },
        },
      ],
    };
    // Of a harness that no daemon has: its sessions are rows.
    const trigger = {
      kind: 'heartbeat',
      cron: '0 0 1 1 *',
      timezone: 'UTC',
      routing: { kind: 'spawn' },
      message: 'tick',
    };
    const ticker = {
      name: 'ticker',
      harness: 'harness-b',
      environment,
      triggers: Array.from({ length: schedules }, () => trigger),
    };
    const files = [checker, ticker].map((agent) => ({
      path: `.svc/agents/${agent.name}.yaml`,
      content: JSON.stringify(agent),
    }));
    const applied = await api('POST', 'P/apply', { files, prune: false });
    assert.equal(applied.status, 200, JSON.stringify(applied.body));
    const auth = { kind: 'connection', connection: 'hub' };
    const url = `${this.#sim.origin}/acme/fleet.git`;
    const added = await api('POST', 'P/repositories', { name: 'fleet', url, intervalSeconds: 3600, auth });
    assert.equal(added.status, 201, JSON.stringify(added.body));
  }

  async #deliver(url: string, event: string, more: object): Promise<void> {
    const { id, fullName, name, owner } = this.#fleet;
    const clone = `${this.#sim.origin}/acme/fleet.git`;
    const body = JSON.stringify({
      ...more,
      repository: { id, full_name: fullName, name, owner: { login: owner }, default_branch: 'main', clone_url: clone },
      sender: { id: 5, login: 'ann', type: 'User' },
    });
    const sent = await fetch(`${url}${this.#intake}`, {
      method: 'POST',
      body,
      headers: {
        'x-github-event': event,
        'x-github-delivery': randomUUID(),
        'x-hub-signature-256': `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`,
      },
    });
    assert.equal(sent.status, 202, await sent.text());
  }

  /** One commit after the other, delivered to the daemons in turn; each is applied before the next, until each has applied some. */
  async push(sides: readonly Side[]): Promise<void> {
    const by = new Set<string>();
    for (let turn = 0; by.size < sides.length; turn += 1) {
      assert.ok(turn < 100, 'one of the daemons takes no push');
      if (turn >= luckyTurns) await sleep(restMs);
      this.#commits += 1;
      const files = { '.svc/agents/a.yaml': agentFile(`fleet-${this.#commits}`) };
      const commit = await this.#fleet.git.commit(files, { message: `Number ${this.#commits}` });
      const side = sides[turn % sides.length];
      assert.ok(side);
      const head = { ref: 'refs/heads/main', before: '0'.repeat(40), after: commit, deleted: false, commits: [] };
      await this.#deliver(side.url, 'push', head);
      await eventually(`commit ${this.#commits}`, async () => {
        const { rows } = await this.#db.query<{ status: string; daemon: string }>(
          `select status, daemon_id as daemon from svc.reconciles
            where commit = $1::text and status not in ('running', 'superseded')`,
          [commit],
        );
        const [run] = rows;
        if (run !== undefined) assert.equal(run.status, 'applied');
        if (run !== undefined) by.add(run.daemon);
        return run !== undefined;
      });
    }
    const { rows } = await this.#db.query<{ name: string }>(`select name from svc.agents where name ~ '^fleet-'`);
    assert.deepEqual(rows, [{ name: `fleet-${this.#commits}` }], 'what was pushed last, and nothing from before');
  }

  /** All schedules are due at once, for whoever is first. */
  async tick(): Promise<void> {
    this.#ticks += schedules;
    await this.#db.query(
      `with due as (update svc.schedules set next_at = clock_timestamp() - interval '1 second' returning 1)
       select count(svc.tell('${schedulesChannel}', '')) from due`,
    );
    const told = async (): Promise<{ ticks: number; distinct: number; sessions: number; waiting: number }> => {
      const { rows } = await this.#db.query<{ ticks: number; distinct: number; sessions: number; waiting: number }>(
        `select count(*)::int as ticks, count(distinct (e.key, convert_from(b.payload, 'utf8')))::int as distinct,
                (select count(*)::int from svc.sessions where agent = 'ticker') as sessions,
                (count(*) filter (where e.router_status = 'pending'))::int as waiting
           from svc.events e join svc.event_bodies b on b.event_id = e.id where e.key like 'heartbeat.%'`,
      );
      assert.ok(rows[0]);
      return rows[0];
    };
    // A tick that comes again makes a session more than there are ticks.
    await eventually('the ticks', async () => {
      const { ticks, waiting } = await told();
      return ticks >= this.#ticks && waiting === 0;
    });
    assert.deepEqual(await told(), { ticks: this.#ticks, distinct: this.#ticks, sessions: this.#ticks, waiting: 0 });
  }

  async #open({ url, api }: Side): Promise<void> {
    const sha = (await this.#fleet.git.git(['rev-parse', 'main'])).trim();
    const pull = { number: 7, title: 't', state: 'open', head: { ref: 'f', sha }, base: { ref: 'main', sha } };
    await this.#deliver(url, 'pull_request', { action: 'opened', number: 7, pull_request: pull });
    await eventually('the session of the pull request', async () => {
      const { rows } = await this.#db.query<{ id: string }>(`select id from svc.sessions where agent = 'checker'`);
      this.#session = rows[0]?.id ?? '';
      return rows.length > 0;
    });
    await this.#rests(api, 'begun.');
    await eventually('its check on the code host', () => this.#check()?.['status'] === 'in_progress');
  }

  async #rests(api: Api, text: string): Promise<void> {
    await eventually(`the session to say ${text}`, async () => {
      const { state, inbox } = await readSession(api, this.#session);
      if (String(state) !== 'idle' || Number(inbox?.['pending']) !== 0) return false;
      return (await saidIn(api, this.#session)).includes(text);
    });
  }

  #check(): { readonly [field: string]: unknown } | undefined {
    return this.#fleet.checks[0]?.fields;
  }

  /** A turn of the session is begun where it is, which ends in it: whoever is left takes its message, and what is said then. */
  async handOver(now: Side, end: () => Promise<void>): Promise<void> {
    const say = async (text: string): Promise<void> => {
      const sent = await now.api('POST', `P/sessions/${this.#session}/messages`, { text });
      assert.ok(sent.status < 300, JSON.stringify(sent.body));
    };
    await say(`!exec until [ -e ${this.#gate} ]; do sleep 0.05; done\n!say second.`);
    await eventually(
      'its turn',
      async () => String((await readSession(now.api, this.#session))['state']) === 'running',
    );
    await end();
    await writeFile(this.#gate, '');
    await this.#rests(now.api, 'second.');
    await say('!call checks checks_success {"name":"lint","title":"Fine","summary":"All good"}\n!say concluded.');
    await this.#rests(now.api, 'concluded.');
    const said = await saidIn(now.api, this.#session);
    for (const text of ['begun.', 'second.', 'concluded.']) assert.equal(said.split(text).length, 2, said);
    assert.ok(said.indexOf('second.') < said.indexOf('concluded.'), said);
    await eventually('its conclusion on the code host', () => this.#check()?.['status'] === 'completed');
    assert.deepEqual(
      this.#fleet.checks.map(({ fields }) => [fields['name'], fields['status'], fields['conclusion']]),
      [['Lint', 'completed', 'success']],
      'one check run, begun by the one and concluded by the other',
    );
  }

  async stop(): Promise<void> {
    await this.#sim.stop();
  }
}
