// Agents and endpoints whose names are steps in an address: they are reached like others, by the command line, over HTTP and on
// their pages.

import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { startBrowser } from '../../internal/base/testkit/browser.ts';
import { startTestDaemon, type TestDaemon } from '../../internal/base/testkit/daemon.ts';
import { at, root, signInOn } from '../../internal/edge/web/web-testkit.ts';
import { callSvc, emptyHome } from './testkit.ts';

const names = ['.', '..'];
let daemon: TestDaemon;
let home: Awaited<ReturnType<typeof emptyHome>>;
const svc = async (...args: string[]): Promise<string> => {
  const env = { SVC_URL: daemon.url, SVC_TOKEN: daemon.token, SVC_ORG: 'default', SVC_PROJECT: 'default' };
  const { code, stdout, stderr } = await callSvc(home.path, args, { env });
  assert.equal(code, 0, `${args.join(' ')}: ${stderr}`);
  return stdout;
};

before(async () => {
  daemon = await startTestDaemon({ config: { roles: ['api'] } });
  home = await emptyHome();
  await mkdir(join(home.path, '.svc/agents'), { recursive: true });
  for (const [index, name] of names.entries()) {
    const trigger = `{ event: webhook.received, endpoint: '${name}', auth: { kind: none }, routing: { kind: spawn } }`;
    const environment = '{ name: e, image: { kind: preset, name: base } }';
    const lines = [`name: '${name}'`, 'harness: harness-a', `environment: ${environment}`, `triggers: [${trigger}]`];
    await writeFile(join(home.path, `.svc/agents/${index}.yaml`), `${lines.join('\n')}\n`);
  }
  await svc('apply', home.path);
});
after(async () => {
  await daemon.stop();
  await home.remove();
});

test('over HTTP they stand behind a tilde, and a tilde of their own is not there', async () => {
  for (const name of names) {
    for (const kind of ['agents', 'endpoints'])
      assert.equal((await daemon.api('GET', `P/${kind}/~${name}`)).body['name'], name);
    const trigger = await daemon.api('GET', `P/triggers/~${name}/0`);
    assert.deepEqual([trigger.status, trigger.body['agent']], [200, name]);
  }
  assert.equal((await daemon.api('GET', 'P/agents/~...')).status, 404);
});

test('agents whose names are dots are opened by the links of the pages', async () => {
  const browser = await startBrowser();
  try {
    const context = await browser.open();
    const { page, complaints } = await signInOn(context, daemon, `${root}/agents`, {});
    for (const name of names) {
      await page.goto(`${daemon.url}${root}/agents`);
      await at(page, `row-agent-${name}`).getByRole('link').first().click();
      await at(page, 'page-agent').getByRole('heading', { level: 1, name, exact: true }).waitFor();
      assert.equal(new URL(page.url()).pathname, `${root}/agents/~${name}`);
      await page.reload();
      await page.locator('[data-testid="tab-world"]').click();
      await page.getByRole('link', { name, exact: true }).last().click();
      await at(page, 'page-endpoint').getByRole('heading', { level: 1, name, exact: true }).waitFor();
    }
    assert.deepEqual(complaints, []);
    await context.close();
  } finally {
    await browser.close();
  }
});

test('agents whose names are dots are shown and deleted by the command line', async () => {
  for (const name of names) {
    assert.match(await svc('agent', 'show', name), /harness-a/);
    assert.match(await svc('endpoint', 'show', name), /webhook-endpoints/);
    await svc('agent', 'delete', name, '--yes');
    await svc('endpoint', 'delete', name, '--yes');
  }
  assert.equal(await svc('agent', 'list', '-o', 'name'), '');
});
