// The console in a browser, on a project with a long history and on an empty one: what the tests of every page in every
// state, of its budgets, and the bench of the same share.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  axeViolations,
  type BrowserContext,
  type Page,
  type Request,
  startBrowser,
  type TestBrowser,
} from '../../base/testkit/browser.ts';
import { startTestDaemon, type TestDaemon } from '../../base/testkit/daemon.ts';
import { createTestDatabase, type TestDatabase } from '../../base/testkit/postgres.ts';

export const root = '/default/default';
export const empty = '/default/empty';

type PageName = readonly [path: string, testId: string];
const names = [
  ...['overview', 'repositories', 'reconciles', 'agents', 'triggers', 'events', 'sessions', 'schedules', 'spend'],
  ...['connections', 'bindings', 'endpoints', 'secrets', 'audit', 'doctor', 'members', 'tokens', 'settings'],
];
/** The pages that are there for any project. */
export const lists: readonly PageName[] = names.map((name) => [name === 'overview' ? '' : name, `page-${name}`]);

export const at = (page: Page, id: string) => page.locator(`[data-testid="${id}"]`);
/** The address of a page of a project. */
export const pathOf = (project: string, path: string): string => `${project}/${path}`.replace(/\/$/, '');

/** A document of an agent; `more` are further lines of it. */
export const agentText = (name: string, prompt: string, more = '') =>
  `name: ${name}\nharness: harness-a\nenvironment: { name: e, image: { kind: preset, name: base } }\nsystemPrompt: ${prompt}\n${more}`;
/** Two triggers, and caps. */
export const triggersText = `triggers:
- event: webhook.received
  endpoint: reports
  auth: { kind: none }
  where: { $.kind: bug, $.severity: high }
  routing: { kind: spawn }
- kind: heartbeat
  cron: 0 14 * * *
  message: Digest.
  routing: { kind: spawn }
spendCaps: { dailyUsd: '10', monthlyUsd: '200', maxPerSessionUsd: '2' }
`;

/** Looks until there is something. */
export async function until<T>(what: string, look: () => Promise<T | undefined>): Promise<T> {
  for (let round = 0; round < 600; round += 1) {
    const found = await look();
    if (found !== undefined) return found;
    await sleep(100);
  }
  throw new Error(`${what} did not come`);
}

export interface SignInOptions {
  readonly dark?: boolean;
  readonly token?: string;
  /** Answers of the API that are meant to be. */
  readonly refused?: RegExp;
}

/** Signs in on a new page, and keeps what it complains of: errors and reports of the policy, but for what is `refused`. */
export async function signInOn(
  context: BrowserContext,
  daemon: Pick<TestDaemon, 'api' | 'url'>,
  next: string,
  { token, refused }: { readonly token?: string | undefined; readonly refused?: RegExp | undefined },
): Promise<{ readonly page: Page; readonly complaints: string[] }> {
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  const complaints: string[] = [];
  page.on('pageerror', (error) => complaints.push(error.message));
  page.on('console', (line) => {
    if (line.type() === 'error' && refused?.test(line.text()) !== true) complaints.push(line.text());
  });
  const { body } = await daemon.api('POST', '/api/v1/auth/handoffs', undefined, token === undefined ? {} : { token });
  await page.goto(`${daemon.url}/signin?next=${encodeURIComponent(next)}#h=${String(body['handoff'])}`);
  await page.waitForURL(`${daemon.url}${next}`);
  return { page, complaints };
}

export class Console {
  daemon: TestDaemon;
  readonly database: TestDatabase;
  readonly browser: TestBrowser;
  /** A viewer's token. */
  viewer = '';
  /** The newest of each; `asking`: a session that waits for an answer. */
  readonly ids = { event: '', session: '', asking: '', reconcile: '' };

  /** Requests of the API that are under way; of a page that was left none ends. */
  readonly #asked = new WeakMap<BrowserContext, Set<Request>>();

  private constructor(daemon: TestDaemon, database: TestDatabase, browser: TestBrowser) {
    this.daemon = daemon;
    this.database = database;
    this.browser = browser;
  }

  /** With so many events, sessions, runs and entries of the audit. */
  static async start(rows: number): Promise<Console> {
    const database = await createTestDatabase();
    const started = new Console(await startOn(database, 0), database, await startBrowser());
    await started.#fill(rows);
    return started;
  }

  async stop(): Promise<void> {
    await this.browser.close();
    await this.daemon.stop();
    await this.database.close();
  }

  /** The daemon again where it was, after it was stopped. */
  async startAgain(): Promise<void> {
    this.daemon = await startOn(this.database, Number(new URL(this.daemon.url).port), this.daemon.token);
  }

  details(): readonly PageName[] {
    const { event, session, asking, reconcile } = this.ids;
    return [
      ['agents/triage', 'page-agent'],
      ['agents/triage?tab=revisions', 'page-agent'],
      ['agents/triage?tab=world', 'page-agent'],
      ['triggers/triage-0', 'page-trigger'],
      [`events/${event}`, 'page-event'],
      [`sessions/${session}`, 'page-session'],
      [`sessions/${asking}`, 'page-session'],
      [`reconciles/${reconcile}`, 'page-reconcile'],
      ['endpoints/reports', 'page-endpoint'],
      ['spend?by=session', 'page-spend'],
    ];
  }

  /** A page that is signed in, and what it complained of: errors, reports of the policy, refused requests. */
  async signedIn(options: SignInOptions = {}) {
    const { daemon } = this;
    const context: BrowserContext = await this.browser.open({ dark: options.dark === true });
    const asked = new Set<Request>();
    this.#asked.set(context, asked);
    context.on('request', (request) => {
      if (/\/api\/v1\/(?!.*\/stream)/.test(request.url()) && !request.isNavigationRequest()) asked.add(request);
    });
    context.on('requestfinished', (request) => void asked.delete(request));
    context.on('requestfailed', (request) => void asked.delete(request));
    const { page, complaints } = await signInOn(context, daemon, root, options);
    return { context, page, complaints };
  }

  async go(page: Page, path: string, testId: string): Promise<void> {
    await page.goto(`${this.daemon.url}${path}`);
    await page.locator(`[data-testid="${testId}"], [data-testid="not-allowed"]`).first().waitFor();
    await allRead(page);
    // Whatever else it reads is there and shown.
    const asked = this.#asked.get(page.context());
    do {
      await page.evaluate('new Promise((then) => requestAnimationFrame(() => requestAnimationFrame(then)))');
    } while ([...(asked ?? [])].some((request) => request.frame().page() === page));
  }

  /** An event of the endpoint; its id. */
  async post(): Promise<string> {
    const { body } = await this.daemon.api('GET', 'P/endpoints/reports');
    const answer = await fetch(String(body['ingestUrl']).replace(/^https?:\/\/[^/]+/, this.daemon.url), {
      method: 'POST',
      body: JSON.stringify({ kind: 'question' }),
    });
    return ((await answer.json()) as { eventRecordId: string }).eventRecordId;
  }

  /** Applies an agent that is woken by events of a kind; the id of the run. */
  async hear(kind: string): Promise<string> {
    const hook = { event: 'webhook.received', endpoint: 'reports', auth: { kind: 'none' }, where: { '$.kind': kind } };
    const agent = {
      name: 'triage',
      harness: 'harness-a',
      environment: { name: 'e', image: { kind: 'preset', name: 'base' } },
      systemPrompt: 'Sort.',
      triggers: [
        { ...hook, routing: { kind: 'spawn' } },
        { kind: 'heartbeat', cron: '*/30 * * * *', message: 'm', routing: { kind: 'spawn' } },
      ],
    };
    const files = [{ path: '.svc/agents/triage.json', content: JSON.stringify(agent) }];
    const { status, body } = await this.daemon.api('POST', 'P/apply', { files });
    assert.equal(status, 200);
    return String(body['applyId']);
  }

  async #fill(rows: number): Promise<void> {
    const { api } = this.daemon;
    await this.hear('bug');
    await api('POST', '/api/v1/orgs/default/projects', { slug: 'empty', name: 'Empty' });
    await api('POST', '/api/v1/orgs/default/members', { email: 'vera@example.org', role: 'member' });
    await api('POST', 'P/members', { email: 'vera@example.org', role: 'viewer' });
    const made = await api('POST', '/api/v1/orgs/default/tokens', { email: 'vera@example.org', name: 'own' });
    this.viewer = String(made.body['token']);
    await seed(this.database, rows);
    const first = async (list: string): Promise<string> =>
      String((await api('GET', `P/${list}`)).body['items']?.[0]?.['id']);
    this.ids.event = await first('events?limit=1');
    this.ids.session = await first('sessions?limit=1&state=archived');
    this.ids.asking = await first('sessions?limit=1&live=true');
    this.ids.reconcile = await first('reconciles?limit=1');
  }
}

const startOn = (database: TestDatabase, port: number, token?: string): Promise<TestDaemon> =>
  startTestDaemon({
    database,
    config: { roles: ['api', 'sync', 'route'], listen: { host: '127.0.0.1', port } },
    ...(token !== undefined && { token }),
  });

/** Version 7 ids of a time, `n` of them apart. */
const idAt = (time: string, n: string): string =>
  `(lpad(to_hex((extract(epoch from ${time}) * 1000)::bigint), 12, '0') || '7' || lpad(to_hex(${n} % 4096), 3, '0') || '8' || substr(md5(${n}::text), 1, 15))::uuid`;

async function seed({ db }: TestDatabase, rows: number): Promise<void> {
  const { rows: found } = await db.query<{ project: string; org: string; agent: string }>(
    `select p.id as project, p.org_id as org, a.id as agent from svc.projects p join svc.agents a on a.project_id = p.id
      where p.slug = 'default'`,
  );
  const { project = '', org = '', agent = '' } = found[0] ?? {};
  const when = `now() - make_interval(secs => ($2::int - n) * 30)`;
  await db.query(
    `insert into svc.events (id, project_id, key, router_status, received_at)
     select ${idAt(when, 'n')}, $1, case n % 5 when 0 then 'svc.session.binding.bound' else 'webhook.received' end,
            (array['routed', 'unmatched', 'failed'])[1 + n % 3], ${when} from generate_series(1, $2::int) n`,
    [project, rows],
  );
  await db.query(
    `insert into svc.sessions (id, project_id, agent_id, agent, revision, origin, state, display_title, created_at, active_at, ended_at)
     select ${idAt(when, 'n')}, $1, $3, 'triage', 1, 'manual', 'archived', 'Look at report ' || n, ${when}, ${when}, ${when}
       from generate_series(1, $2::int) n`,
    [project, rows, agent],
  );
  await db.query(
    `insert into svc.reconciles (id, project_id, repository_name, commit, reason, status, started_at, finished_at, inputs)
     select gen_random_uuid(), $1, null, null, 'apply', 'unchanged', ${when}, ${when}, '{}' from generate_series(1, $2::int) n`,
    [project, rows],
  );
  await db.query(
    `insert into svc.audit (org_id, project_id, principal_kind, principal_name, action, subject_kind, subject_name, at, detail)
     select $3, $1, 'system', 'seed', 'secret.used', 'Secret', 's' || n % 50, ${when}, '{}' from generate_series(1, $2::int) n`,
    [project, rows, org],
  );
  await db.query('analyze svc.events, svc.sessions, svc.reconciles, svc.audit');
  // What needs somebody, and a commit that somebody has written.
  await db.query(
    `with asking as (
       insert into svc.sessions (id, project_id, agent_id, agent, revision, origin, state, display_title, created_at, active_at)
       values (${idAt('now()', '1')}, $1, $2, 'triage', 1, 'manual', 'waiting_permission', 'Look at report 7', now(), now())
       returning id)
     insert into svc.permissions (id, session_id, epoch, title, request, created_at)
     select gen_random_uuid(), id, 1, 'run df -h?', '{"command": "df -h"}', now() from asking`,
    [project, agent],
  );
  await db.query(
    `insert into svc.connections (project_id, provider, product, name, status, reason)
     values ($1, 'mcp', 'mcp', 'docs', 'authorization_required', 'the authorization has expired')`,
    [project],
  );
  await db.query(
    `insert into svc.reconciles (id, project_id, repository_name, commit, reason, status, started_at, finished_at, inputs, about,
        actions, stages)
     values (gen_random_uuid(), $1, 'fleet', repeat('9f27ebc0', 5), 'push', 'applied', now(), now(), '{}',
        '{"message": "cap spend", "author": "ann"}', '[{"op": "create", "kind": "Agent", "name": "triage", "changes": []}]',
        '[{"name": "compile", "ms": 80}]')`,
    [project],
  );
}

/** What holds of a page in whatever state: for who does not see, on a narrow screen, at four times the size. */
export async function hold(page: Page, name: string, isWhole: boolean): Promise<void> {
  assert.deepEqual(await axeViolations(page), [], name);
  // 1280 pixels at 400 % are 320 wide and 180 high.
  for (const [width, height] of isWhole
    ? ([
        [360, 740],
        [320, 180],
      ] as const)
    : ([[320, 180]] as const)) {
    await page.setViewportSize({ width, height });
    if (isWhole && width === 360) assert.deepEqual(await axeViolations(page), [], `${name} at 360`);
    const over = Number(await page.evaluate('document.scrollingElement.scrollWidth - innerWidth'));
    assert.ok(over <= 0, `${name} is ${over} too wide at ${width}`);
  }
  await page.setViewportSize({ width: 1280, height: 720 });
  const nodes = Number(await page.evaluate('document.querySelectorAll("*").length'));
  assert.ok(nodes <= 4_000, `${name} has ${nodes} nodes`);
}

/** All that can be pressed is reached by Tab alone, and focus is never caught. */
export async function walk(page: Page, name: string): Promise<void> {
  const wanted = Number(
    await page.evaluate(
      `[...document.querySelectorAll('a[href], button:not([disabled]), input:not([disabled]), select:not([disabled]), textarea:not([disabled]), summary')]
        .filter((one) => one.checkVisibility() && one.tabIndex >= 0 && one.closest('details:not([open]) > :not(summary)') === null).length`,
    ),
  );
  await page.evaluate('document.activeElement?.blur(); window.reached = new Set()');
  for (let step = 0; step < wanted * 3 + 60; step += 1) {
    await page.keyboard.press('Tab');
    const reached = Number(
      await page.evaluate(
        `(() => { const one = document.activeElement;
          if (one?.matches('a, button, input, select, textarea, summary')) window.reached.add(one); return window.reached.size; })()`,
      ),
    );
    if (reached >= wanted) return;
  }
  assert.fail(`${name}: not everything is reached by Tab`);
}

/** Presses whatever can be pressed on a page, once each. */
export async function pressAll(page: Page): Promise<void> {
  const pressed = new Set<string>(['']);
  for (const one of await page.locator('main summary, main button:enabled').all()) {
    const name = (await one.isVisible()) ? await one.innerText() : '';
    if (!pressed.has(name)) await one.click();
    pressed.add(name);
    await page.keyboard.press('Escape');
  }
}

/** A schedule that fired, and found its agent at work since; a connection on which calls failed. */
export async function seedTroubles(
  db: TestDatabase['db'],
  { agentId, session }: { readonly agentId: string; readonly session: string },
): Promise<void> {
  const tick = randomUUID();
  await db.query(
    `insert into svc.event_routes (event_id, agent_id, ordinal, agent, decision, session_ids)
     values ($1::uuid, $2::uuid, 1, 'triage', 'spawn', array[$3::uuid])`,
    [tick, agentId, session],
  );
  await db.query(
    `update svc.schedules set last_event_id = $1::uuid, last_at = now(), last_status = 'skipped-overlap', skipped = 3
      where agent_id = $2::uuid and ordinal = 1`,
    [tick, agentId],
  );
  await db.query(`update svc.connections set failed_calls = 3 where name = 'desk'`);
}

/** From the sums of agents to the sessions of one, dearest first, and on to the sums of days: each has its address. */
export async function spendBySession(page: Page, session: string): Promise<void> {
  await page.locator('[data-testid="row-agent-triage"] [data-testid="by-cost"]').click();
  await at(page, `row-session-${session}`).waitFor();
  assert.match(page.url(), /\/spend\?by=session&agent=triage$/);
  assert.match(await at(page, `row-session-${session}`).innerText(), /\$2\.42 of \$20 \+ 1 unpriced/);
  await at(page, 'filter-by').selectOption('day');
  await page.locator('[data-testid^="row-day-"]').first().waitFor();
}

/** Waits until no part of the page, or of what has this test id, says that it is being read. */
export async function allRead(page: Page, testId?: string): Promise<void> {
  const within = testId === undefined ? '' : `[data-testid="${testId}"] `;
  const reading = page.locator(`${within}p.empty:text-matches("Reading…|Looking…")`);
  const end = performance.now() + 60_000;
  while ((await reading.count()) > 0) {
    assert.ok(performance.now() < end, 'it is read');
    await page.evaluate('new Promise((then) => requestAnimationFrame(then))');
  }
}
