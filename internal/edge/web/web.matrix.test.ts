// Every page in every state: with nothing in it, with as many rows as a long history has, failing, signed out and without
// rights; in light and dark, narrow, at four times the size, by keys and without motion; and what must hold of a page that
// stays open: its memory, its stream, and a daemon that is gone for a moment. The whole of it with SVC_LONG; without, the
// few of it that other tests do not have.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  axeViolations,
  type BrowserContext,
  type Page,
  startBrowser,
  type TestBrowser,
} from '../../base/testkit/browser.ts';
import { startTestDaemon, type TestDaemon } from '../../base/testkit/daemon.ts';
import { isLong } from '../../base/testkit/long.ts';
import { createTestDatabase, type TestDatabase } from '../../base/testkit/postgres.ts';

const rows = isLong ? 100_000 : 400;
const root = '/default/default';
const empty = '/default/empty';
let database: TestDatabase;
let daemon: TestDaemon;
let browser: TestBrowser;
let viewer = '';
const ids = { event: '', session: '', reconcile: '' };

const at = (page: Page, id: string) => page.locator(`[data-testid="${id}"]`);
const detail = (): readonly (readonly [path: string, testId: string])[] => [
  ['agents/triage', 'page-agent'],
  ['agents/triage?tab=world', 'page-agent'],
  ['triggers/triage-0', 'page-trigger'],
  [`events/${ids.event}`, 'page-event'],
  [`sessions/${ids.session}`, 'page-session'],
  [`reconciles/${ids.reconcile}`, 'page-reconcile'],
  ['endpoints/reports', 'page-endpoint'],
];
const names = [
  ...['overview', 'repositories', 'reconciles', 'agents', 'triggers', 'events', 'sessions', 'schedules', 'spend'],
  ...['connections', 'bindings', 'endpoints', 'secrets', 'audit', 'doctor', 'members', 'tokens', 'settings'],
];
const lists = names.map((name) => [name === 'overview' ? '' : name, `page-${name}`] as const);

const start = (port = 0) =>
  startTestDaemon({
    database,
    config: { roles: ['api', 'sync', 'route'], listen: { host: '127.0.0.1', port } },
    ...(daemon === undefined ? {} : { token: daemon.token }),
  });

before(async () => {
  database = await createTestDatabase();
  daemon = await start();
  browser = await startBrowser();
  const { api } = daemon;
  const hook = { event: 'webhook.received', endpoint: 'reports', auth: { kind: 'none' }, where: { '$.kind': 'bug' } };
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
  assert.equal((await api('POST', 'P/apply', { files })).status, 200);
  await api('POST', '/api/v1/orgs/default/projects', { slug: 'empty', name: 'Empty' });
  await api('POST', '/api/v1/orgs/default/members', { email: 'vera@example.org', role: 'member' });
  await api('POST', 'P/members', { email: 'vera@example.org', role: 'viewer' });
  const made = await api('POST', '/api/v1/orgs/default/tokens', { email: 'vera@example.org', name: 'own' });
  viewer = String(made.body['token']);
  await seed();
});
after(async () => {
  await browser.close();
  await daemon.stop();
  await database.close();
});

/** Version 7 ids of a time, `n` of them apart. */
const idAt = (time: string, n: string): string =>
  `(lpad(to_hex((extract(epoch from ${time}) * 1000)::bigint), 12, '0') || '7' || lpad(to_hex(${n} % 4096), 3, '0') || '8' || substr(md5(${n}::text), 1, 15))::uuid`;

async function seed(): Promise<void> {
  const { db } = database;
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
  const first = async (list: string): Promise<string> =>
    String((await daemon.api('GET', `P/${list}?limit=1`)).body['items']?.[0]?.['id']);
  ids.event = await first('events');
  ids.session = await first('sessions');
  ids.reconcile = await first('reconciles');
}

async function signedIn(options: { readonly dark?: boolean; readonly token?: string; readonly refused?: RegExp } = {}) {
  const context: BrowserContext = await browser.open({ dark: options.dark === true });
  const page = await context.newPage();
  page.setDefaultTimeout(30_000);
  const complaints: string[] = [];
  page.on('pageerror', (error) => complaints.push(error.message));
  page.on('console', (line) => {
    if (line.type() === 'error' && options.refused?.test(line.text()) !== true) complaints.push(line.text());
  });
  const by = options.token === undefined ? {} : { token: options.token };
  const { body } = await daemon.api('POST', '/api/v1/auth/handoffs', undefined, by);
  await page.goto(`${daemon.url}/signin?next=${encodeURIComponent(root)}#h=${String(body['handoff'])}`);
  await page.waitForURL(`${daemon.url}${root}`);
  return { context, page, complaints };
}
const go = async (page: Page, path: string, testId: string): Promise<void> => {
  await page.goto(`${daemon.url}${path}`);
  await page.locator(`[data-testid="${testId}"], [data-testid="not-allowed"]`).first().waitFor();
  await page.locator('p.empty:text-matches("Reading…|Looking…")').waitFor({ state: 'detached' });
};

/** What holds of a page in whatever state: for who does not see, on a narrow screen, at four times the size. */
async function hold(page: Page, name: string, isWhole = isLong): Promise<void> {
  assert.deepEqual(await axeViolations(page), [], name);
  // 1280 pixels at 400 % are 320 wide and 180 high.
  for (const [width, height] of isWhole
    ? ([
        [360, 740],
        [320, 180],
      ] as const)
    : ([[320, 180]] as const)) {
    await page.setViewportSize({ width, height });
    const over = Number(await page.evaluate('document.scrollingElement.scrollWidth - innerWidth'));
    assert.ok(over <= 0, `${name} is ${over} too wide at ${width}`);
  }
  await page.setViewportSize({ width: 1280, height: 720 });
  const nodes = Number(await page.evaluate('document.querySelectorAll("*").length'));
  assert.ok(nodes <= 4_000, `${name} has ${nodes} nodes`);
}

/** All that can be pressed is reached by Tab alone, and focus is never caught. */
async function walk(page: Page, name: string): Promise<void> {
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
async function pressAll(page: Page): Promise<void> {
  const pressed = new Set<string>(['']);
  for (const one of await page.locator('main summary, main button:enabled').all()) {
    const name = (await one.isVisible()) ? await one.innerText() : '';
    if (!pressed.has(name)) await one.click();
    pressed.add(name);
    await page.keyboard.press('Escape');
  }
}

for (const dark of isLong ? [false, true] : [false]) {
  test(`pages hold with ${rows} rows, ${dark ? 'dark' : 'light'}`, async () => {
    const { page, context, complaints } = await signedIn({ dark });
    for (const [path, testId] of [...lists, ...detail()]) {
      if (!isLong && !['', 'events', 'agents/triage'].includes(path)) continue;
      await go(page, `${root}/${path}`.replace(/\/$/, ''), testId);
      await hold(page, `${path} full`);
      if (isLong && !dark) await walk(page, path);
    }
    assert.deepEqual(complaints, []);
    await context.close();
  });

  test(`pages hold with nothing in them, ${dark ? 'dark' : 'light'}`, { skip: !isLong }, async () => {
    const { page, context, complaints } = await signedIn({ dark });
    for (const [path, testId] of lists) {
      await go(page, `${empty}/${path}`.replace(/\/$/, ''), testId);
      await hold(page, `${path} empty`);
    }
    assert.deepEqual(complaints, []);
    await context.close();
  });

  test(`pages hold for a viewer, ${dark ? 'dark' : 'light'}`, { skip: !isLong }, async () => {
    const { page, context, complaints } = await signedIn({ dark, token: viewer, refused: /status of 403/ });
    const sent: string[] = [];
    page.on('request', (one) => one.method() === 'GET' || sent.push(`${one.method()} ${one.url()} on ${page.url()}`));
    for (const [path, testId] of [...lists, ...detail()]) {
      await go(page, `${root}/${path}`.replace(/\/$/, ''), testId);
      await hold(page, `${path} viewer`);
      if (path !== 'tokens') await pressAll(page);
    }
    assert.deepEqual([complaints, sent], [[], []]);
    await context.close();
  });

  test(`pages hold where the API fails, ${dark ? 'dark' : 'light'}`, { skip: !isLong }, async () => {
    const { page, context } = await signedIn({ dark });
    const problem = {
      type: 'about:blank',
      title: 'x',
      status: 503,
      code: 'unavailable',
      detail: 'Away.',
      requestId: 'r-1',
    };
    await page.route('**/api/v1/orgs/default/**', (route) =>
      route.fulfill({ status: 503, contentType: 'application/problem+json', body: JSON.stringify(problem) }),
    );
    for (const [path, testId] of [...lists, ...detail()]) {
      // The overview brings who is signed in: where it fails there is no page around it.
      await page.goto(`${daemon.url}${root}/${path}`.replace(/\/$/, ''));
      if (path !== '') await at(page, testId).waitFor();
      await at(page, 'failure').first().waitFor();
      assert.match(await at(page, 'failure').first().innerText(), /unavailable Away\.[\s\S]*r-1/, path);
      await hold(page, `${path} failing`);
    }
    await context.close();
  });

  test(`pages hold when their session has ended, ${dark ? 'dark' : 'light'}`, { skip: !isLong }, async () => {
    for (const [path, testId] of [...lists, ...detail()]) {
      const made = await daemon.api('POST', '/api/v1/tokens', { name: `of ${path}` });
      const { page, context } = await signedIn({ dark, token: String(made.body['token']) });
      await go(page, `${root}/${path}`.replace(/\/$/, ''), testId);
      await page.locator('[data-testid="live-state"][data-state="live"]').waitFor();
      await daemon.api('DELETE', `/api/v1/tokens/${String(made.body['id'])}`);
      await page.locator('[data-testid="live-state"][data-state="signed-out"]').waitFor();
      await at(page, testId).waitFor();
      await hold(page, `${path} signed out`);
      await context.close();
    }
  });
}

test('nothing moves for who wants no motion', async () => {
  const { page, context } = await signedIn();
  await page.emulateMedia({ reducedMotion: 'reduce' });
  for (const [path, testId] of isLong ? [...lists, ...detail()] : [['', 'page-overview'] as const]) {
    await go(page, `${root}/${path}`.replace(/\/$/, ''), testId);
    const moving = await page.evaluate(
      `[...document.querySelectorAll('*')].filter((one) => { const style = getComputedStyle(one);
        return [style.transitionDuration, style.animationDuration].some((all) => all.split(',').some((each) => parseFloat(each) > 0.01)); }).length
        + document.getAnimations().length`,
    );
    assert.equal(moving, 0, path);
  }
  await context.close();
});

const post = async (): Promise<string> => {
  const { body } = await daemon.api('GET', 'P/endpoints/reports');
  const answer = await fetch(String(body['ingestUrl']).replace(/^https?:\/\/[^/]+/, daemon.url), {
    method: 'POST',
    body: JSON.stringify({ kind: 'question' }),
  });
  return ((await answer.json()) as { eventRecordId: string }).eventRecordId;
};

test('a daemon that is gone for a moment is said, and followed again: no row is lost, none is there twice', async () => {
  const { page, context } = await signedIn();
  await go(page, `${root}/events`, 'page-events');
  await page.locator('[data-testid="live-state"][data-state="live"]').waitFor();
  const port = Number(new URL(daemon.url).port);
  const dataDir = daemon.dataDir;
  assert.ok(dataDir !== '');
  await daemon.stop();
  await page.locator('[data-testid="live-state"][data-state="stale"]').waitFor();
  // What answers again is another version: its scripts have other addresses.
  await page.route('**/assets/*/live.ts', (route) => route.fulfill({ status: 404 }));
  assert.ok((await page.locator('tbody tr').count()) > 0, 'what was read stays');
  daemon = await start(port);
  const begun = performance.now();
  const sent = [await post(), await post(), await post()];
  await page.locator('[data-testid="live-state"][data-state="live"]').waitFor();
  const took = performance.now() - begun;
  assert.ok(took < 5_000, `live after ${Math.round(took)} ms`);
  await at(page, 'new-rows')
    .filter({ hasText: /^3 new$/ })
    .waitFor();
  await at(page, 'new-rows').click();
  for (const id of sent) assert.equal(await at(page, `row-event-${id}`).count(), 1, id);
  assert.match(await at(page, 'newer').innerText(), /has been updated.*Load it again/);
  await context.close();
});

test('twelve tabs have one stream, and each is there at once', { skip: !isLong }, async () => {
  const { page, context } = await signedIn();
  const streams: string[] = [];
  context.on('request', (request) => {
    if (request.url().includes('/stream?')) streams.push(request.url());
  });
  await go(page, `${root}/events`, 'page-events');
  await page.locator('[data-testid="live-state"][data-state="live"]').waitFor();
  const slow: string[] = [];
  for (const [path, testId] of lists.slice(0, 11)) {
    const begun = performance.now();
    const tab = await context.newPage();
    await go(tab, `${root}/${path}`.replace(/\/$/, ''), testId);
    const took = performance.now() - begun;
    if (took > 3_000) slow.push(`${path} ${Math.round(took)} ms`);
  }
  assert.equal(streams.length, 1);
  assert.deepEqual(slow, []);
  await context.close();
});

test('an hour of ten events a second leaves no more than 10 MB behind', { skip: !isLong }, async () => {
  const { page, context } = await signedIn();
  const session = await context.newCDPSession(page);
  const heap = async (): Promise<number> => {
    await session.send('HeapProfiler.collectGarbage');
    const { usedSize } = await session.send('Runtime.getHeapUsage');
    return usedSize / 1e6;
  };
  await go(page, `${root}/events`, 'page-events');
  await page.locator('[data-testid="live-state"][data-state="live"]').waitFor();
  const before = await heap();
  const { rows: found } = await database.db.query<{ id: string }>(`select id from svc.projects where slug = 'default'`);
  for (let round = 0; round < 360; round += 1) {
    await database.db.query(
      `insert into svc.events (id, project_id, key, router_status, received_at)
       select gen_random_uuid(), $1, 'webhook.received', 'unmatched', now() from generate_series(1, 100)`,
      [found[0]?.id],
    );
    await sleep(100);
  }
  await sleep(2_000);
  const grown = (await heap()) - before;
  console.log(`heap: ${before.toFixed(1)} MB, ${grown.toFixed(1)} MB more after 36,000 events`);
  assert.ok(grown <= 10, `${grown} MB`);
  const nodes = Number(await page.evaluate('document.querySelectorAll("*").length'));
  assert.ok(nodes <= 4_000, `${nodes} nodes`);
  await context.close();
});

test('lists of a long history answer as those of a short one', { skip: !isLong }, async () => {
  const p95 = (took: readonly number[]): number => took.toSorted((a, b) => a - b)[Math.floor(took.length * 0.95)] ?? 0;
  const timed = async (read: () => Promise<unknown>): Promise<number> => {
    const begun = performance.now();
    await read();
    return performance.now() - begun;
  };
  const { rows: found } = await database.db.query<{ id: string }>(`select id from svc.projects where slug = 'empty'`);
  await database.db.query(
    `insert into svc.events (id, project_id, key, router_status, received_at)
     select gen_random_uuid(), $1, 'webhook.received', 'unmatched', now() from generate_series(1, 100)`,
    [found[0]?.id],
  );
  const list = (project: string) => async () => {
    const { body } = await daemon.api('GET', `/api/v1/orgs/default/projects/${project}/events?view=row&limit=50`);
    assert.ok(JSON.stringify(body).length <= 60_000, `${JSON.stringify(body).length} bytes`);
  };
  // In turns, so that what else the machine does meets both alike.
  const took = { few: [] as number[], many: [] as number[] };
  for (let round = 0; round < 200; round += 1) {
    took.few.push(await timed(list('empty')));
    took.many.push(await timed(list('default')));
  }
  const [few, many] = [p95(took.few), p95(took.many)];
  console.log(`p95 of 50 rows: of 100 ${few.toFixed(1)} ms, of ${rows} ${many.toFixed(1)} ms`);
  assert.ok(many <= 2 * few + 1, `${many} ms of many, ${few} ms of few`);
});
