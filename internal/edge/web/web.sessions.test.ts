// The pages of what runs and of what people hold, in a real browser: a session as it works, pictures beside their tables,
// and what a page may never do. The whole matrix of pages, schemes and states is run with SVC_LONG.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { mkdirSync } from 'node:fs';
import { after, before, describe, it } from 'node:test';
import { recordCall } from '../../adapters/store/sessions/ledger.ts';
import {
  axeViolations,
  type BrowserContext,
  type Page,
  startBrowser,
  type TestBrowser,
} from '../../base/testkit/browser.ts';
import { isLong } from '../../base/testkit/long.ts';
import { createHostBench, type HostBench } from '../../flows/session-host/host-testkit.ts';
import { allRead, at, root, seedTroubles, signInOn, type SignInOptions, spendBySession } from './web-testkit.ts';

/** Page and its test id. */
const pages: readonly (readonly [path: string, testId: string])[] = [
  ['sessions', 'page-sessions'],
  ['schedules', 'page-schedules'],
  ['spend', 'page-spend'],
  ['connections', 'page-connections'],
  ['bindings', 'page-bindings'],
  ['endpoints', 'page-endpoints'],
  ['secrets', 'page-secrets'],
  ['audit', 'page-audit'],
  ['doctor', 'page-doctor'],
  ['members', 'page-members'],
  ['tokens', 'page-tokens'],
  ['settings', 'page-settings'],
];
const shots = process.env['SVC_SHOTS'];
if (shots !== undefined) mkdirSync(shots, { recursive: true });

describe('pages of what runs and of what people hold', () => {
  let bench: HostBench;
  let browser: TestBrowser;
  let session: string;
  let viewer: string;
  /** Every twenty minutes, the next time in ten from when this begins, not from when it was loaded: none falls into it. */
  let sweeping: string;

  before(async () => {
    bench = await createHostBench();
    browser = await startBrowser();
    const { api, ctx } = bench.daemon;
    await api('PUT', 'P/secrets/hook-secret', { value: 'never-on-a-page', description: 'proof of the hook' });
    await api('PUT', 'P/secrets/old', { value: 'never-on-a-page', expiresAt: '2999-01-01T00:00:00Z' });
    await ctx.db.query(`update svc.secrets set expires_at = now() - interval '1 day' where name = 'old'`);
    const beat = { kind: 'heartbeat', routing: { kind: 'spawn' } };
    const now = new Date();
    sweeping = `${(now.getUTCMinutes() + 10) % 20}-59/20 * * * *`;
    // Daily, hours from now wherever it is.
    const digesting = `0 ${(now.getUTCHours() + 10) % 24} * * *`;
    const hook = { event: 'webhook.received', endpoint: 'reports', routing: { kind: 'spawn' } };
    await bench.apply({
      triage: {
        harness: 'harness-b',
        spendCaps: { maxPerSessionUsd: '20', dailyUsd: '100' },
        environment: { name: 'asking', image: { kind: 'preset', name: 'base' }, approvals: 'prompt' },
        triggers: [
          { ...hook, auth: { kind: 'hmac_sha256', secretRef: 'hook-secret' }, message: 'go' },
          { ...beat, cron: sweeping, message: 'sweep' },
          { ...beat, cron: digesting, timezone: 'Europe/Berlin', message: 'digest' },
        ],
        manages: ['helper'],
      },
      helper: {},
    });
    for (const [name, provider] of [
      ['gh-acme', 'codehost'],
      ['desk', 'chat'],
    ] as const) {
      const credentials =
        provider === 'codehost' ? { webhookSecret: 'x'.repeat(20) } : { signingSecret: 'x'.repeat(20) };
      assert.equal((await api('POST', 'P/connections', { provider, name, credentials })).status, 201);
    }
    session = await bench.start(
      'triage',
      '!say Hello\n!call nobody listens {}\n!exec cd "$SVC_ARTIFACTS"; echo kept > report.txt\n!say done',
    );
    await bench.until(session, ({ state, said }) => state === 'idle' && said.includes('done'));
    const agentId = String((await api('GET', 'P/agents/triage')).body['resourceId']);
    const projectId = String((await api('GET', 'P')).body['id']);
    await ctx.db.query(
      `insert into svc.bindings (id, project_id, agent_id, agent, session_id, target_type, target_key, lifecycle, continuity,
         created_at, updated_at)
       values (gen_random_uuid(), $1, $2, 'triage', $3, 'codehost.pull_request', 'acme/web#12', 'manual', 'session', now(), now())`,
      [projectId, agentId, session],
    );
    for (const [day, cost] of [
      [0, '0.42'],
      [1, '1.20'],
      [2, '0.80'],
      [9, null],
    ] as const) {
      const spent = { inputTokens: 18_000, outputTokens: 2_000, cacheReadTokens: 0, cacheWriteTokens: 0 };
      const call = {
        agentId,
        projectId,
        agentName: 'triage',
        sessionId: session,
        provider: 'provider-a' as const,
        model: 'm',
      };
      const atDay = new Date(Date.now() - day * 86_400_000);
      const price = { costUsd: cost, estimated: false, priceDate: null };
      await recordCall(ctx.db, { requestId: randomUUID(), ...call, ...spent, ...price, at: atDay });
    }
    await seedTroubles(ctx.db, { agentId, session });
    await api('POST', '/api/v1/orgs/default/members', { email: 'viewer@example.org', role: 'member' });
    await api('POST', 'P/members', { email: 'viewer@example.org', role: 'viewer' });
    await api('POST', '/api/v1/orgs/default/projects', { slug: 'empty', name: 'Empty' });
    const made = await api('POST', '/api/v1/orgs/default/tokens', { email: 'viewer@example.org', name: 'own' });
    viewer = String(made.body['token']);
  });
  after(async () => {
    await browser.close();
    await bench.stop();
  });

  /** A signed-in page whose errors and reports of the policy are kept; `refused`: answers of the API that are meant to be. */
  async function signedIn(next: string, options: SignInOptions = {}) {
    const { daemon } = bench;
    const context: BrowserContext = await browser.open({ dark: options.dark === true });
    return { context, ...(await signInOn(context, daemon, next, options)) };
  }
  const go = async (page: Page, path: string, testId: string): Promise<void> => {
    await page.goto(`${bench.daemon.url}${path}`);
    await at(page, testId).waitFor();
    await allRead(page, testId);
  };
  /** What holds of every page in every state. */
  async function hold(page: Page, name: string): Promise<void> {
    assert.deepEqual(await axeViolations(page), [], name);
    await page.setViewportSize({ width: 360, height: 740 });
    const wide = await page.evaluate('document.scrollingElement.scrollWidth');
    if (shots !== undefined) await page.screenshot({ path: `${shots}/${name}-360.png` });
    assert.ok(Number(wide) <= 360, `${name} is ${String(wide)} wide at 360`);
    await page.setViewportSize({ width: 1280, height: 720 });
    if (shots !== undefined) await page.screenshot({ path: `${shots}/${name}.png` });
    const text = String(await page.evaluate('document.documentElement.outerHTML'));
    assert.ok(!text.includes('never-on-a-page'), name);
  }

  it('hold in light where there is something, and in dark where there is nothing', async () => {
    // Each page in one scheme where there is something and in the other where there is nothing; the long form has all four.
    for (const [project, dark] of [
      [root, false],
      ['/default/empty', true],
      [root, true],
      ['/default/empty', false],
    ] as const) {
      const isShort =
        project === root && !dark ? () => true : (index: number) => project !== root && dark && index % 3 === 0;
      const chosen = pages.filter((_, index) => isLong || isShort(index));
      if (chosen.length === 0) continue;
      const { page, context, complaints } = await signedIn(`${project}/sessions`, { dark });
      for (const [path, testId] of chosen) {
        await go(page, `${project}/${path}`, testId);
        await hold(page, `${path}-${project === root ? 'full' : 'empty'}-${dark ? 'dark' : 'light'}`);
      }
      assert.deepEqual(complaints, []);
      await context.close();
    }
  });

  it('say what the caller may not do, and do none of it', async () => {
    const { page, context, complaints } = await signedIn(`${root}/secrets`, {
      token: viewer,
      refused: /status of 403/,
    });
    for (const [path, testId] of pages.filter(
      ([name]) => isLong || ['secrets', 'members', 'audit', 'bindings'].includes(name),
    )) {
      await page.goto(`${bench.daemon.url}${root}/${path}`);
      await page.locator(`[data-testid="${testId}"], [data-testid="failure"]`).first().waitFor();
      await hold(page, `${path}-viewer`);
      for (const id of ['delete', 'release', 'archive', 'create'])
        for (const button of await at(page, id).all())
          if (path !== 'tokens') assert.equal(await button.isDisabled(), true, `${path} ${id}`);
    }
    await go(page, `${root}/sessions/${session}`, 'page-session');
    for (const id of ['archive', 'say']) assert.equal(await at(page, id).isDisabled(), true, id);
    assert.match(await at(page, 'page-session').innerText(), /needs sessions:control/);
    assert.deepEqual(complaints, []);
    await context.close();
  });

  it('keep what was read and name the error where the API fails', async () => {
    const { page, context } = await signedIn(`${root}/sessions`);
    const problem = {
      type: 'about:blank',
      title: 'x',
      status: 503,
      code: 'unavailable',
      detail: 'Away.',
      requestId: 'r-1',
    };
    const fail = (pattern: string) =>
      page.route(pattern, (route) =>
        route.fulfill({ status: 503, contentType: 'application/problem+json', body: JSON.stringify(problem) }),
      );
    for (const [path, testId] of pages.filter(([name]) => isLong || ['sessions', 'spend', 'doctor'].includes(name))) {
      await page.goto('about:blank');
      await fail('**/api/v1/orgs/default/projects/default*/**');
      await page.goto(`${bench.daemon.url}${root}/${path}`);
      await at(page, testId).waitFor();
      if (path !== 'tokens') {
        await at(page, 'failure').first().waitFor();
        assert.match(await at(page, 'failure').first().innerText(), /unavailable/);
      }
      await hold(page, `${path}-failing`);
      await page.unroute('**/api/v1/orgs/default/projects/default*/**');
    }
    await context.close();
  });

  it('show a session as it works: it is spoken to, asks, is stopped, follows at its end, and is archived with a reason', async () => {
    const { page, context, complaints } = await signedIn(`${root}/sessions/${session}`);
    await at(page, 'transcript').waitFor();
    await page.locator('.log pre', { hasText: 'Hello' }).first().waitFor();
    assert.match(await at(page, 'session-cost').innerText(), /^\$2\.42 of \$20$/);
    assert.equal(await at(page, 'transcript').getAttribute('role'), 'log');
    assert.equal(await at(page, 'session-bound').innerText(), 'acme/web#12');
    assert.match(await at(page, 'session-turn').innerText(), /^1 done [\d.]+\s(ms|s)/);
    // A call and what it gave are one line, with how long it took and how it ended.
    const call = page.locator('.message.tool').first();
    assert.match(await call.innerText(), /^\d\d:\d\d tool\s+nobody listens\s+[\d.]+\s(ms|s|m .*)\s+\S+ failed$/);
    assert.equal(await call.locator('[data-testid^="message-"]').count(), 1);
    await at(page, 'session-files').locator('summary').click();
    await at(page, 'row-file-report.txt').waitFor();
    const download = page.waitForEvent('download');
    await at(page, 'row-file-report.txt').locator('button').click();
    assert.equal((await download).suggestedFilename(), 'report.txt');
    await hold(page, 'session');

    await at(page, 'say').fill('!ask rm -r build\n!say allowed');
    await page.keyboard.press('Control+Enter');
    await at(page, 'allow')
      .waitFor()
      .catch(async (error: unknown) => {
        if (shots !== undefined) await page.screenshot({ path: `${shots}/why.png`, fullPage: true });
        throw error;
      });
    await page.locator('.message', { hasText: /^\d\d:\d\d asks\s*rm -r build$/ }).waitFor();
    await hold(page, 'session-asks');
    await at(page, 'allow').click();
    await page.locator('.log pre', { hasText: 'allowed' }).first().waitFor();
    await at(page, 'allow').waitFor({ state: 'detached' });

    await at(page, 'say').fill('!stream 3000 20');
    await at(page, 'say-send').click();
    await page.locator('.log pre', { hasText: 'chunk 30 ' }).first().waitFor();
    await at(page, 'session-turn')
      .filter({ hasText: /^\d+ running \d/ })
      .waitFor();
    // Who scrolls up stays where they are; the end is a key away.
    await at(page, 'follow').uncheck();
    const top = (): Promise<number> => at(page, 'transcript').evaluate((element) => element.scrollTop);
    const before = await top();
    await at(page, 'jump-end').filter({ hasText: 'new' }).waitFor();
    assert.equal(await top(), before);
    await at(page, 'jump-end').click();
    assert.equal(await at(page, 'follow').isChecked(), true);
    await at(page, 'stop-turn').click();
    await at(page, 'stop-turn').waitFor({ state: 'detached' });

    await at(page, 'archive').click();
    assert.match(await at(page, 'confirmation').innerText(), /The session ends/);
    await at(page, 'reason').fill('seen enough');
    await at(page, 'confirm').click();
    await at(page, 'session-state').filter({ hasText: 'archived' }).waitFor();
    const { body } = await bench.daemon.api('GET', 'P/audit?action=session.archived');
    assert.equal(body['items']?.[0]?.['detail']?.['reason'], 'seen enough');
    assert.deepEqual(complaints, []);
    await context.close();
  });

  it('draw what their tables say, and take secrets in without showing them', async () => {
    const { page, context, complaints } = await signedIn(`${root}/schedules`);
    await at(page, 'tick').first().waitFor();
    const fired = page.locator('tr', { hasText: sweeping });
    assert.match(await fired.innerText(), /skipped 3: at work/);
    assert.ok((await fired.locator('a').last().getAttribute('href'))?.endsWith(`/sessions/${session}`));
    assert.equal(await at(page, 'tick').count(), 72 + 1);
    await go(page, `${root}/spend`, 'page-spend');
    assert.equal(await at(page, 'spend-bar').count(), 4);
    assert.match(await at(page, 'row-agent-triage').innerText(), /\$2\.42 \+ 1 unpriced/);
    await spendBySession(page, session);
    await hold(page, 'spend-by-day');
    await go(page, `${root}/endpoints/reports`, 'page-endpoint');
    await page.locator('[data-testid="page-endpoint"] pre').waitFor();
    assert.match(await at(page, 'page-endpoint').innerText(), /curl -sS http.*x-svc-signature-256/s);
    await hold(page, 'endpoint');

    await go(page, `${root}/secrets`, 'page-secrets');
    await at(page, 'create').focus();
    await page.keyboard.press('Enter');
    await at(page, 'secret-name').fill('fresh');
    await at(page, 'secret-value').fill('never-on-a-page');
    await at(page, 'secret-save').click();
    await at(page, 'row-secret-fresh').waitFor();
    await hold(page, 'secret-set');
    await at(page, 'rotate-fresh').click();
    await at(page, 'secret-value').fill('never-on-a-page 2');
    await at(page, 'secret-save').click();
    await at(page, 'secret-dialog').waitFor({ state: 'detached' });
    await at(page, 'edit-fresh').click();
    assert.deepEqual(await axeViolations(page), [], 'secret-edit');
    await at(page, 'secret-description').fill('what it is for');
    await at(page, 'secret-edit-save').click();
    await at(page, 'row-secret-fresh').filter({ hasText: 'what it is for' }).waitFor();
    await at(page, 'row-secret-hook-secret').locator('[data-testid="delete"]').click();
    await at(page, 'consequences').waitFor();
    assert.match(await at(page, 'consequences').innerText(), /1 endpoint refuses every call: reports/);
    await page.keyboard.press('Escape');
    await at(page, 'row-secret-fresh').locator('[data-testid="delete"]').click();
    await at(page, 'reason').fill('no longer used');
    await at(page, 'confirm').click();
    await at(page, 'row-secret-fresh').waitFor({ state: 'detached' });
    await at(page, 'scope-organization').click();
    await page.getByText('The organization has no secret.').waitFor();
    assert.match(page.url(), /scope=organization$/);
    await at(page, 'create').click();
    await at(page, 'secret-name').fill('shared');
    await at(page, 'secret-value').fill('never-on-a-page');
    await at(page, 'secret-save').click();
    await at(page, 'row-secret-shared').waitFor();
    assert.equal((await bench.daemon.api('GET', '/api/v1/orgs/default/secrets/shared')).status, 200);

    await go(page, `${root}/connections`, 'page-connections');
    assert.match(await at(page, 'row-connection-desk').innerText(), /active\s+since .+; 3 calls failed/);
    await at(page, 'create').click();
    await at(page, 'connection-provider').selectOption('tracker');
    assert.deepEqual(await axeViolations(page), [], 'connection-dialog');
    await at(page, 'connection-name').fill('desk-tracker');
    await at(page, 'connection-webhookSecret').fill('never-on-a-page');
    await at(page, 'connection-save').click();
    await at(page, 'row-connection-desk-tracker').waitFor();
    assert.match(await at(page, 'intake-url').innerText(), /\/api\/v1\/intake\/tracker\//);
    await hold(page, 'connection-added');
    await at(page, 'remove-desk-tracker').click();
    assert.match(await at(page, 'consequences').innerText(), /its webhooks answer 404/);
    await at(page, 'confirm').click();
    await at(page, 'row-connection-desk-tracker').waitFor({ state: 'detached' });
    const audit = JSON.stringify((await bench.daemon.api('GET', 'P/audit?subject=fresh')).body);
    for (const action of ['secret.created', 'secret.rotated', 'secret.changed', 'secret.deleted', 'no longer used'])
      assert.ok(audit.includes(action), audit);
    assert.deepEqual(complaints, []);
    await context.close();
  });

  it('a command line is let in by its code, which a person types and sees whose it is', async () => {
    const begin = async (): Promise<{ user_code: string; device_code: string }> => {
      const body = new URLSearchParams({ client_id: 'svc-cli', host: 'laptop' });
      const answer = await fetch(`${bench.daemon.url}/api/v1/oauth/device_authorization`, { method: 'POST', body });
      return (await answer.json()) as { user_code: string; device_code: string };
    };
    const { page, context, complaints } = await signedIn('/device', { refused: /status of 404/ });
    for (const [decision, told] of [
      ['allow', /is let in/],
      ['reject', /was refused/],
    ] as const) {
      const { user_code } = await begin();
      await page.goto(`${bench.daemon.url}/device`);
      // By hand: small letters, and the dash where somebody leaves it out.
      await at(page, 'device-code').pressSequentially(user_code.toLowerCase().replace('-', ''));
      await page.keyboard.press('Enter');
      await at(page, decision).waitFor();
      assert.match(await at(page, 'page-device').innerText(), /laptop at 127\.0\.0\.1 asks/);
      assert.deepEqual(await axeViolations(page), []);
      await at(page, decision).click();
      await at(page, 'decision').waitFor();
      assert.match(await at(page, 'decision').innerText(), told);
      assert.equal(page.url(), `${bench.daemon.url}/device`);
    }
    await page.goto(`${bench.daemon.url}/device`);
    await at(page, 'device-code').fill('BCDF-GHJK');
    await at(page, 'device-look').click();
    await page.locator('.failure').waitFor();
    assert.deepEqual(complaints, []);
    await context.close();
  });

  it('are in no frame of another page', async () => {
    const { page, context } = await signedIn(`${root}/settings`);
    await page.goto('about:blank');
    await page.setContent(`<iframe src="${bench.daemon.url}${root}/settings"></iframe>`);
    const frame = page.frames().find((one) => one !== page.mainFrame());
    await page.waitForTimeout(500);
    assert.equal(await frame?.locator('[data-testid="page-settings"]').count(), 0);
    assert.match(frame?.url() ?? '', /^chrome-error:/);
    await context.close();
  });
});
