// Every page in every state: with nothing in it, with as many rows as a long history has, failing, signed out and without
// rights; in light and dark, narrow, at four times the size, by keys and without motion; and a daemon that is gone for a
// moment. The whole of it with SVC_LONG; without, the few of it that other tests do not have.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { noteImpact } from '../../adapters/store/console/consequences.ts';
import { errors, type Page } from '../../base/testkit/browser.ts';
import { isLong } from '../../base/testkit/long.ts';
import {
  at,
  Console,
  empty,
  hold,
  lists,
  pathOf,
  pressAll,
  root,
  type SignInOptions,
  until,
  walk,
} from './web-testkit.ts';

const rows = isLong ? 100_000 : 400;
let shown: Console;
const signedIn = (options?: SignInOptions) => shown.signedIn(options);
const go = (page: Page, path: string, testId: string): Promise<void> => shown.go(page, path, testId);

before(async () => {
  shown = await Console.start(rows);
});
after(() => shown.stop());

/** Of a page in a scheme: all can be reached by Tab, in dark on a narrow screen. */
async function walkIn(page: Page, name: string, dark: boolean): Promise<void> {
  if (dark) await page.setViewportSize({ width: 360, height: 740 });
  await walk(page, name);
  await page.setViewportSize({ width: 1280, height: 720 });
}

for (const dark of isLong ? [false, true] : [false]) {
  test(`pages hold with ${rows} rows, ${dark ? 'dark' : 'light'}`, async () => {
    const { page, context, complaints } = await signedIn({ dark });
    for (const [path, testId] of [...lists, ...shown.details()]) {
      if (!isLong && !['', 'events', 'agents/triage'].includes(path)) continue;
      await go(page, pathOf(root, path), testId);
      await hold(page, `${path} full`, isLong);
      if (isLong) await walkIn(page, path, dark);
    }
    const { body } = await shown.daemon.api('GET', 'P/events?limit=1&key=svc.project_resource_apply.completed');
    await go(page, pathOf(root, `events/${String(body['items']?.[0]?.['id'])}`), 'page-event');
    await hold(page, 'an event of a long key', false);
    assert.deepEqual(complaints, []);
    await context.close();
  });

  test(`pages hold with nothing in them, ${dark ? 'dark' : 'light'}`, { skip: !isLong }, async () => {
    const { page, context, complaints } = await signedIn({ dark });
    for (const [path, testId] of lists) {
      await go(page, pathOf(empty, path), testId);
      await hold(page, `${path} empty`, isLong);
      await walkIn(page, `${path} empty`, dark);
    }
    assert.deepEqual(complaints, []);
    await context.close();
  });

  test(`pages hold for a viewer, ${dark ? 'dark' : 'light'}`, { skip: !isLong }, async () => {
    const { page, context, complaints } = await signedIn({ dark, token: shown.viewer, refused: /status of 403/ });
    const sent: string[] = [];
    page.on('request', (one) => one.method() === 'GET' || sent.push(`${one.method()} ${one.url()} on ${page.url()}`));
    for (const [path, testId] of [...lists, ...shown.details()]) {
      await go(page, pathOf(root, path), testId);
      await hold(page, `${path} viewer`, isLong);
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
    for (const [path, testId] of [...lists, ...shown.details()]) {
      // The overview brings who is signed in: where it fails there is no page around it.
      await page.goto(`${shown.daemon.url}${pathOf(root, path)}`);
      if (path !== '') await at(page, testId).waitFor();
      await at(page, 'failure').first().waitFor();
      assert.match(await at(page, 'failure').first().innerText(), /unavailable Away\.[\s\S]*r-1/, path);
      await hold(page, `${path} failing`, isLong);
    }
    await context.close();
  });

  test(`pages hold when their session has ended, ${dark ? 'dark' : 'light'}`, { skip: !isLong }, async () => {
    for (const [path, testId] of [...lists, ...shown.details()]) {
      const made = await shown.daemon.api('POST', '/api/v1/tokens', { name: `of ${path}` });
      const { page, context } = await signedIn({ dark, token: String(made.body['token']) });
      await go(page, pathOf(root, path), testId);
      await page.locator('[data-testid="live-state"][data-state="live"]').waitFor();
      await shown.daemon.api('DELETE', `/api/v1/tokens/${String(made.body['id'])}`);
      await page.locator('[data-testid="live-state"][data-state="signed-out"]').waitFor();
      await at(page, testId).waitFor();
      await hold(page, `${path} signed out`, isLong);
      await context.close();
    }
  });
}

test('nothing moves for who wants no motion', async () => {
  const { page, context } = await signedIn();
  await page.emulateMedia({ reducedMotion: 'reduce' });
  for (const [path, testId] of isLong ? [...lists, ...shown.details()] : [['', 'page-overview'] as const]) {
    await go(page, pathOf(root, path), testId);
    const moving = await page.evaluate(
      `[...document.querySelectorAll('*')].filter((one) => { const style = getComputedStyle(one);
        return [style.transitionDuration, style.animationDuration].some((all) => all.split(',').some((each) => parseFloat(each) > 0.01)); }).length
        + document.getAnimations().length`,
    );
    assert.equal(moving, 0, path);
  }
  await context.close();
});

/** What stands where the focus is: `inside` a dialog, `nowhere`, or what has it. */
const focused = (page: Page): Promise<string> =>
  page.evaluate(`(() => { const one = document.activeElement;
    return one === null || one === document.body ? 'nowhere' : one.closest('dialog') !== null ? 'inside'
      : one.dataset.testid ?? one.textContent; })()`);

/** Opens what a focused button opens, goes round in it by Tab, and leaves by Escape; false: it opens no dialog. */
async function dialogByKeys(page: Page, name: string): Promise<boolean> {
  const before = await focused(page);
  await page.keyboard.press('Enter');
  const dialog = page.locator('dialog[open]');
  const isOpen = await dialog.waitFor({ timeout: isLong ? 1_500 : 30_000 }).then(
    () => true,
    (error: unknown) => {
      if (!(error instanceof errors.TimeoutError)) throw error;
      return false;
    },
  );
  if (!isOpen) return false;
  const wanted = await dialog.locator('button:enabled, input, select, textarea, a').count();
  for (let step = 0; step <= wanted + 1; step += 1) {
    // Between the last and the first the browser itself has it.
    assert.match(await focused(page), /^(inside|nowhere)$/, `${name}: the focus leaves the dialog`);
    await page.keyboard.press(step === 1 ? 'Shift+Tab' : 'Tab');
  }
  if ((await focused(page)) === 'nowhere') await page.keyboard.press('Tab');
  await page.keyboard.press('Escape');
  await dialog.waitFor({ state: 'detached' });
  assert.equal(await focused(page), before, `${name}: the focus does not come back`);
  return true;
}

test('a dialog is opened, gone through and left by keys, and the focus is back where it was', async () => {
  const { page, context } = await signedIn({ refused: /status of 503/ });
  // Buttons that do something at once are pressed too: none of it reaches the daemon, but what foretells.
  await page.route(
    (url) => url.pathname.startsWith('/api/') && !url.search.includes('dryRun=true'),
    (route) => (route.request().method() === 'GET' ? route.continue() : route.fulfill({ status: 503, json: {} })),
  );
  const found: string[] = [];
  const all = isLong ? [...lists, ...shown.details()] : [['agents/triage', 'page-agent'] as const];
  for (const [path, testId] of all) {
    await go(page, pathOf(root, path), testId);
    const pressed = new Set<string>();
    for (const button of await page.locator('main button:enabled').all()) {
      const name = (await button.isVisible()) ? await button.innerText() : '';
      if (name === '' || pressed.has(name) || (!isLong && name !== 'Delete')) continue;
      pressed.add(name);
      await button.focus();
      if (await dialogByKeys(page, `${path} ${name}`)) found.push(`${path} ${name}`);
      if (!page.url().endsWith(pathOf(root, path))) break;
    }
  }
  assert.ok(found.length >= (isLong ? 8 : 1), found.join(', '));
  await at(page, 'find').focus();
  assert.ok(await dialogByKeys(page, 'the palette'));
  await context.close();
});

test('what needs somebody stands first, with where to deal with it, and whose commit a run applies', async () => {
  const { page, context } = await signedIn();
  await go(page, root, 'page-overview');
  const needs = page.locator('[data-testid="attention-item"]');
  assert.match(await needs.filter({ hasText: 'docs' }).innerText(), /authorization required.*Reconnect/s);
  assert.match(await needs.filter({ hasText: 'df -h' }).innerText(), /session of triage asks.*Answer/s);
  assert.match(await page.locator('table', { hasText: '9f27ebc' }).innerText(), /fleet\s+9f27ebc\s+“cap spend” ann/);
  // Where it is answered all of it is in sight: what is asked, the answers, and where else to say something.
  await go(page, pathOf(root, `sessions/${shown.ids.asking}`), 'page-session');
  await at(page, 'reject').waitFor();
  for (const id of ['allow', 'reject', 'say', 'say-send']) {
    const place = await at(page, id).boundingBox();
    assert.ok(place !== null && place.y + place.height <= 720, `${id}: ${JSON.stringify(place)}`);
  }
  await context.close();
});

test('single keys can be switched off, and stay off', { skip: !isLong }, async () => {
  const { page, context } = await signedIn();
  await go(page, `${root}/events`, 'page-events');
  await page.keyboard.press('?');
  await at(page, 'keys').locator('input[type="checkbox"]').press('Space');
  await page.keyboard.press('Escape');
  await at(page, 'keys').waitFor({ state: 'detached' });
  for (const round of ['at once', 'after a reload']) {
    await page.keyboard.press('j');
    await page.keyboard.press('?');
    assert.equal(await page.locator('tr:focus, dialog[open]').count(), 0, round);
    await page.reload();
    await page.locator('tbody tr').first().waitFor();
  }
  // A key with Control is no single one.
  await page.keyboard.press('Control+k');
  await at(page, 'palette').waitFor();
  await context.close();
});

test('a daemon that is gone for a moment is said, and followed again: no row is lost, none is there twice', async () => {
  const { page, context } = await signedIn();
  const { page: other } = await signedIn();
  await go(page, `${root}/events`, 'page-events');
  await page.locator('[data-testid="live-state"][data-state="live"]').waitFor();
  // Of rows that are not all in the document: how many there are, and where each stands.
  await at(page, 'total').waitFor();
  const { total } = (await shown.daemon.api('GET', 'P/events?counts=true&limit=1')).body;
  const table = page.locator('table.rows');
  assert.equal(await table.getAttribute('aria-rowcount'), String(Number(total) + 1));
  assert.equal(await table.locator('tbody tr').last().getAttribute('aria-rowindex'), '51');
  await shown.daemon.stop();
  await page.locator('[data-testid="live-state"][data-state="stale"]').waitFor();
  await other.locator('nav a', { hasText: 'Spend' }).click();
  // What answers again is another version: its scripts have other addresses.
  await page.route('**/assets/*/live.ts', (route) => route.fulfill({ status: 404 }));
  assert.ok((await page.locator('tbody tr').count()) > 0, 'what was read stays');
  await shown.startAgain();
  const begun = performance.now();
  const sent = [await shown.post(), await shown.post(), await shown.post()];
  await page.locator('[data-testid="live-state"][data-state="live"]').waitFor();
  const took = performance.now() - begun;
  assert.ok(took < 5_000, `live after ${Math.round(took)} ms`);
  await at(page, 'new-rows')
    .filter({ hasText: /^3 new$/ })
    .waitFor();
  await at(page, 'new-rows').click();
  for (const id of sent) assert.equal(await at(page, `row-event-${id}`).count(), 1, id);
  assert.match(await at(page, 'newer').innerText(), /has been updated.*Load it again/);
  await at(other, 'page-spend').waitFor();
  await context.close();
});

test('the first page is there whatever comes first, its module or what it shows', async () => {
  const { page, context, complaints } = await signedIn();
  const session = await context.newCDPSession(page);
  await session.send('Network.setCacheDisabled', { cacheDisabled: true });
  for (let round = 0; round < 12; round += 1) {
    await page.goto('about:blank');
    await page.goto(`${shown.daemon.url}${round % 2 === 0 ? root : empty}`);
    await at(page, 'page-overview').waitFor({ timeout: 60_000 });
  }
  assert.deepEqual(complaints, []);
  await context.close();
});

test('a role is given by its button alone, an endpoint leads to its own events, and what is no filter stays', async () => {
  const { page, context, complaints } = await signedIn();
  const { api } = shown.daemon;
  await api('POST', '/api/v1/orgs/default/members', { email: 'ann@example.org', role: 'member' });
  assert.equal((await api('POST', 'P/members', { email: 'ann@example.org', role: 'viewer' })).status, 201);
  const roleOf = async (): Promise<string | undefined> => {
    const { items } = (await api('GET', 'P/members')).body as unknown as { items: { email: string; role: string }[] };
    return items.find(({ email }) => email === 'ann@example.org')?.role;
  };
  await go(page, pathOf(root, 'members'), 'page-members');
  const ann = page.locator('[data-row]', { hasText: 'ann@example.org' });
  await ann.locator('[data-testid="role"]').selectOption('admin');
  await ann.locator('[data-testid="set-role"]').waitFor();
  assert.equal(await roleOf(), 'viewer');
  await ann.locator('[data-testid="set-role"]').click();
  await ann.locator('[data-testid="set-role"]').waitFor({ state: 'detached' });
  assert.equal(await roleOf(), 'admin');

  const id = await shown.post();
  await go(page, pathOf(root, 'endpoints/reports'), 'page-endpoint');
  await page.getByRole('link', { name: 'Its events' }).click();
  await at(page, `row-event-${id}`).waitFor();
  assert.match(page.url(), /\/events\?endpoint=reports$/);
  const { body } = await api('GET', 'P/events?endpoint=reports&counts=true&limit=1');
  assert.equal(await page.locator('tbody tr').count(), Math.min(50, Number(body['total'])));
  assert.deepEqual((await api('GET', 'P/events?endpoint=gone&counts=true')).body, {
    items: [],
    nextCursor: null,
    total: 0,
  });

  await go(page, pathOf(root, 'spend?by=session&agent=nobody'), 'page-spend');
  await page.getByRole('button', { name: 'Without filters' }).click();
  await page.waitForURL(({ search }) => search === '?by=session');
  assert.equal(await page.locator('h1').innerText(), 'Spend by session');
  assert.deepEqual(complaints, []);
  await context.close();
});

test('a time that the zone of a schedule leaves out on a day is said, and when it fires instead', async () => {
  const { page, context } = await signedIn();
  // The day is not today: the daemon's answer is moved to the next on which the clocks of Berlin go forward.
  await page.route('**/schedules/timeline', async (route) => {
    const response = await route.fetch();
    const timeline = (await response.json()) as { ticks: { scheduleId: string }[] };
    const ticks = timeline.ticks.slice(0, 1).map((tick) => ({ ...tick, at: '2027-03-28T01:00:00.000Z' }));
    const moved = { ...timeline, from: '2027-03-27T12:00:00.000Z', to: '2027-03-28T12:00:00.000Z', ticks };
    await route.fulfill({ response, json: moved });
  });
  await page.route('**/schedules?limit=200', async (route) => {
    const response = await route.fetch();
    const list = (await response.json()) as { items: object[] };
    const items = list.items.map((one) => ({ ...one, cron: '30 2 * * *', timezone: 'Europe/Berlin' }));
    await route.fulfill({ response, json: { ...list, items } });
  });
  await go(page, pathOf(root, 'schedules'), 'page-schedules');
  const said = page.locator('.notice', { hasText: '02:30 is not there' });
  await said.waitFor();
  assert.match(
    await said.innerText(),
    /^[\w-]+#\d+: 02:30 is not there on 28 Mar 2027 in Europe\/Berlin: fires 03:00$/,
  );
  await context.close();
});

test('what a run does to stored events comes after it applied, to a page that is open', async () => {
  const { page, context, complaints } = await signedIn();
  const { api, ctx } = shown.daemon;
  await shown.post();
  // As numbers they are later than those of all runs before, as texts they are not.
  await ctx.db.query(
    `select setval('svc.reconcile_versions', greatest(last_value, 100000)) from svc.reconcile_versions`,
  );
  const run = await shown.hear('question');
  const impact = await until('its impact', async () => {
    const { body } = await api('GET', `P/reconciles/${run}`);
    return body['consequences']?.['eventImpact'];
  });
  // As it was a moment before.
  await ctx.db.query(`update svc.reconciles set consequences = consequences - 'eventImpact' where id = $1::uuid`, [
    run,
  ]);
  await go(page, pathOf(root, `reconciles/${run}`), 'page-reconcile');
  await page.locator('[data-testid="live-state"][data-state="live"]').waitFor();
  await at(page, 'run-change').first().waitFor();
  assert.equal(await at(page, 'impact').count(), 0);
  await noteImpact(ctx.db, run, impact);
  await at(page, 'impact').waitFor();
  assert.match(
    await at(page, 'impact').innerText(),
    /^7 days of events, triage trigger 0: [1-9]\d* newly match, 0 stop list$/,
  );
  await at(page, 'impact-list').click();
  await page.getByText('triage trigger 0 on webhook.received: ').waitFor();
  assert.match(page.url(), /tab=consequences$/);
  await hold(page, 'a run with its impact', isLong);
  if (isLong) {
    // The list of triggers hears of events as well, though not of each at once.
    await go(page, pathOf(root, 'triggers'), 'page-triggers');
    await page.locator('[data-testid="live-state"][data-state="live"]').waitFor();
    const id = await shown.post();
    await page.locator(`[data-testid="row-trigger-triage-0"] a[href$="${id}"]`).waitFor();
  }
  assert.deepEqual(complaints, []);
  await context.close();
});

test('the page of a session that waits follows what the clock makes of that', async () => {
  const made = await shown.daemon.api('POST', 'P/agents/triage/sessions', { message: 'hello' });
  const id = String(made.body['id']);
  const { page, context } = await signedIn();
  await shown.database.db.query(
    `update svc.sessions set waits_for = 'engine', reason = 'engine-unreachable: gone', engine_reason = 'engine-unreachable',
         failures = 1, retry_at = now() + interval '1 hour' where id = $1::uuid`,
    [id],
  );
  await go(page, `${root}/sessions/${id}`, 'page-session');
  const told = at(page, 'session-state');
  await told.filter({ hasText: 'queued: engine-unreachable: gone' }).waitFor();
  // As the hour passes: what is due again waits for a place, and no row says so.
  await shown.database.db.query('update svc.sessions set retry_at = now() where id = $1::uuid', [id]);
  await told.filter({ hasText: /queued, number \d+ in the queue: capacity/ }).waitFor();
  await context.close();
});
