// What is changed elsewhere, by a command or by another person, while a page stands open: the page says so by itself.

import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { png } from '../../core/compile/testkit.ts';
import { type Page, startBrowser, type TestBrowser } from '../../base/testkit/browser.ts';
import { startTestDaemon, type TestDaemon } from '../../base/testkit/daemon.ts';
import { agentText, at, root, signInOn, until } from './web-testkit.ts';

let daemon: TestDaemon;
let browser: TestBrowser;
let dir: string;

before(async () => {
  dir = mkdtempSync(join(tmpdir(), 'svc-elsewhere-'));
  daemon = await startTestDaemon({ config: { roles: ['api', 'sync', 'route'] } });
  browser = await startBrowser();
});
after(async () => {
  await browser.close();
  await daemon.stop();
  rmSync(dir, { recursive: true, force: true });
});

/** Signs in on a page that follows what happens. */
async function following(path: string) {
  const context = await browser.open();
  const signedIn = await signInOn(context, daemon, `${root}/${path}`, {});
  await signedIn.page.locator('[data-testid="live-state"][data-state="live"]').waitFor();
  return { context, ...signedIn };
}
const apply = async (files: readonly object[]): Promise<void> => {
  const { status, body } = await daemon.api('POST', 'P/apply', { files, prune: false });
  assert.equal(status, 200, JSON.stringify(body));
};
const says = (page: Page, id: string, text: string) => at(page, id).filter({ hasText: text }).waitFor();

test('an agent is shown as people see it, on its page and at the head of its sessions, and as it is by now', async () => {
  const face = '<b>Ann</b> & “co”';
  const asset = '.svc/assets/a.png';
  const called = (name: string, by = 'reader') =>
    apply([
      {
        path: `.svc/agents/${by}.yaml`,
        content: agentText(
          by,
          'Read.',
          `identity: { name: ann, displayName: '${name}', username: ann, description: Reads what is new, avatar: { asset: ${asset} } }\n`,
        ),
      },
      { path: '.svc/agents/other.yaml', content: agentText('other', 'Read too.', 'identity: ann\n') },
      { path: asset, content: Buffer.from(png(512, 512)).toString('base64'), encoding: 'base64' },
    ]);
  await called(face);
  const { body } = await daemon.api('GET', 'P/agents/reader');
  assert.deepEqual(
    { ...body['identity'], avatar: body['identity']?.['avatar']?.['asset'] },
    { displayName: face, username: 'ann', description: 'Reads what is new', avatar: asset },
  );
  const { page, context, complaints } = await following('agents/other');
  for (const text of [`Display name${face}`, 'Usernameann', 'DescriptionReads what is new', `Avatar${asset}`])
    await says(page, 'agent-facts', text);
  const started = await daemon.api('POST', 'P/agents/other/sessions', { message: 'hello' });
  await page.goto(`${daemon.url}${root}/sessions/${String(started.body['id'])}`);
  await says(page, 'session-agent-name', face);
  await page.locator('[data-testid="live-state"][data-state="live"]').waitFor();
  // The other agent's spec stays as it is: what stands under the name has changed.
  await called('Bea');
  await says(page, 'session-agent-name', 'Bea');
  assert.deepEqual(complaints, []);
  await context.close();
});

test('a repository that is suspended, resumed or removed elsewhere is so on its page and in the list', async () => {
  mkdirSync(join(dir, '.svc/agents'), { recursive: true });
  writeFileSync(join(dir, '.svc/agents/swept.yaml'), agentText('swept', 'Sweep.'));
  const { api } = daemon;
  assert.equal((await api('POST', 'P/repositories', { name: 'fleet', path: dir })).status, 201);
  await until('what was applied', async () =>
    (await api('GET', 'P/repositories/fleet')).body['appliedCommit'] === null ? undefined : true,
  );
  const { page, context } = await following('repositories/fleet');
  const list = await context.newPage();
  await list.goto(`${daemon.url}${root}/repositories`);
  await at(list, 'row-repository-fleet').waitFor();
  assert.equal((await api('POST', 'P/repositories/fleet/suspend', {})).status, 200);
  await at(page, 'resume').waitFor();
  assert.equal((await api('POST', 'P/repositories/fleet/resume', {})).status, 200);
  await at(page, 'suspend').waitFor();
  // Of two tabs the one that is looked at reads.
  await list.bringToFront();
  assert.equal((await api('DELETE', 'P/repositories/fleet?keepResources=true')).status, 204);
  await at(list, 'row-repository-fleet').filter({ hasText: 'gone' }).waitFor();
  await context.close();
});

test('when a repository is looked at next, and a schedule fires next, is told anew once it is over', async () => {
  const { api, ctx } = daemon;
  writeFileSync(join(dir, '.svc/agents/swept.yaml'), agentText('swept', 'Sweep.'));
  assert.equal((await api('POST', 'P/repositories', { name: 'still', path: dir, adopt: true })).status, 201);
  const beat = `triggers:\n- { kind: heartbeat, cron: '30 * * * *', message: m, routing: { kind: spawn } }\n`;
  await apply([{ path: '.svc/agents/beats.yaml', content: agentText('beats', 'Beat.', beat) }]);
  // A page that is opened is told what has happened a moment before: from here on nothing does.
  await sleep(5_000);
  const soon = (): Date => new Date(Date.now() + 3_000);
  await ctx.db.query(
    `update svc.repository_polls set next_at = $1 where repository_id =
       (select id from svc.repositories where name = 'still')`,
    [soon()],
  );
  const { page, context } = await following('repositories/still');
  const next = page.locator('dt:text-is("Next look") + dd');
  const isFar = async (): Promise<true | undefined> => {
    const [time] = await next.locator('time').all();
    return Date.parse((await time?.getAttribute('datetime')) ?? '') > Date.now() + 30_000 ? true : undefined;
  };
  assert.equal(await isFar(), undefined);
  await until('the look after the next one', isFar);
  const tick = (status: string | null, to: Date): Promise<unknown> =>
    ctx.db.query('update svc.schedules set next_at = $1, last_status = $2', [to, status]);
  await tick(null, soon());
  await page.goto(`${daemon.url}${root}/schedules`);
  const row = page.locator('tr[data-testid^="row-schedule-"]');
  await row.waitFor();
  await page.locator('[data-testid="live-state"][data-state="live"]').waitFor();
  // As a tick that is passed over leaves it.
  await tick('skipped-overlap', new Date(Date.now() + 3_600_000));
  await row.filter({ hasText: 'skipped-overlap' }).waitFor();
  await context.close();
});

test('tokens, secrets, settings and receivers that are changed elsewhere are so on the pages that stand open', async () => {
  const { api } = daemon;
  assert.equal((await api('PUT', 'P/secrets/leaves', { value: 'x' })).status, 201);
  const { page, context } = await following('settings');
  const [tokens, secrets] = [await context.newPage(), await context.newPage()];
  await tokens.goto(`${daemon.url}${root}/tokens`);
  await secrets.goto(`${daemon.url}${root}/secrets`);
  await at(tokens, 'page-tokens').filter({ hasText: 'Your own' }).waitFor();
  await at(secrets, 'row-secret-leaves').waitFor();
  await says(page, 'notify', 'failed launches');
  const receiver = { kind: 'webhook', name: 'ops', url: 'https://ops.example/hook', secret: 'a key for deliveries' };
  assert.equal((await api('POST', 'P/receivers', receiver)).status, 201);
  assert.equal((await api('PATCH', 'P', { notify: false })).status, 200);
  assert.equal((await api('DELETE', 'P/secrets/leaves')).status, 204);
  const { status, body: made } = await api('POST', '/api/v1/tokens', { name: 'laptop' });
  assert.equal(status, 201);
  await at(page, 'row-receiver-ops').waitFor();
  await says(page, 'notify', 'nothing');
  await at(secrets, 'row-secret-leaves').filter({ hasText: 'gone' }).waitFor();
  await says(tokens, `row-token-${String(made['id'])}`, 'live');
  assert.equal((await api('DELETE', `/api/v1/tokens/${String(made['id'])}`)).status, 204);
  await says(tokens, `row-token-${String(made['id'])}`, 'revoked');
  await context.close();
});

test('a binding that is released elsewhere is, and an endpoint that an apply makes ready is ready', async () => {
  const { api, ctx } = daemon;
  const projectId = String((await api('GET', 'P')).body['id']);
  await apply([{ path: '.svc/agents/holds.yaml', content: agentText('holds', 'Hold.') }]);
  const session = String((await api('POST', 'P/agents/holds/sessions', { message: 'hold' })).body['id']);
  await ctx.db.query(
    `insert into svc.bindings (id, project_id, agent_id, agent, session_id, target_type, target_key, state, lifecycle, continuity,
       created_at, updated_at)
     select gen_random_uuid(), $1, a.id, a.name, $2, 'codehost.issue', 'acme/web#12', 'active', 'manual', 'session', now(), now()
       from svc.agents a where a.name = 'holds'`,
    [projectId, session],
  );
  const { body: held } = await api('GET', 'P/bindings');
  const binding = String(held['items']?.[0]?.['id']);
  const { page, context } = await following(`sessions/${session}`);
  await says(page, 'session-bound', 'acme/web#12');
  const list = await context.newPage();
  await list.goto(`${daemon.url}${root}/bindings`);
  await at(list, `row-binding-${binding}`).waitFor();
  assert.equal((await api('DELETE', `P/bindings/${binding}`)).status, 204);
  await at(list, `row-binding-${binding}`).filter({ hasText: 'gone' }).waitFor();
  await page.bringToFront();
  await at(page, 'session-bound').waitFor({ state: 'detached' });
  assert.equal((await api('POST', 'P/endpoints', { name: 'soon' })).status, 201);
  await page.goto(`${daemon.url}${root}/endpoints/soon`);
  await says(page, 'page-endpoint', 'No trigger uses it.');
  await page.locator('[data-testid="live-state"][data-state="live"]').waitFor();
  const hook =
    'triggers:\n- { event: webhook.received, endpoint: soon, auth: { kind: none }, routing: { kind: spawn } }\n';
  await apply([{ path: '.svc/agents/hears.yaml', content: agentText('hears', 'Hear.', hook) }]);
  await says(page, 'page-endpoint', 'hears#0');
  await context.close();
});
