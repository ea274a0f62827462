// What a reader says yes to on a page is what is done, whatever has happened since it was read.

import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { startBrowser } from '../../base/testkit/browser.ts';
import { startTestDaemon } from '../../base/testkit/daemon.ts';
import { agentText, at, root, signInOn, until } from './web-testkit.ts';

test('a rollback goes back to the commit that was named, though another was applied while it was read', async (t) => {
  const tree = await mkdtemp(join(tmpdir(), 'svc-acts-'));
  const daemon = await startTestDaemon();
  const browser = await startBrowser();
  t.after(async () => {
    await browser.close();
    await daemon.stop();
    await rm(tree, { recursive: true, force: true });
  });
  await mkdir(join(tree, '.svc/agents'), { recursive: true });
  const sync = async (prompt: string): Promise<string> => {
    await writeFile(join(tree, '.svc/agents/a.yaml'), agentText('triage', prompt));
    const { body } = await daemon.api('POST', 'P/repositories/fleet/sync');
    return until(`the run of ${prompt}`, async () => {
      const { body: run } = await daemon.api('GET', `P/reconciles/${String(body['reconcileId'])}`);
      return /^(applied|unchanged)$/.test(String(run['status'])) ? String(run['commit']) : undefined;
    });
  };
  // The folder is watched as well: whichever looks first applies it.
  const made = { name: 'fleet', path: tree, intervalSeconds: 3600 };
  await writeFile(join(tree, '.svc/agents/a.yaml'), agentText('triage', 'None.'));
  assert.equal((await daemon.api('POST', 'P/repositories', made)).status, 201);
  const first = await sync('One.');
  await sync('Two.');
  const context = await browser.open();
  const { page } = await signInOn(context, daemon, `${root}/repositories/fleet`, {});
  await at(page, 'rollback').click();
  await at(page, 'consequences').filter({ hasText: first }).waitFor();
  await sync('Three.');
  await at(page, 'confirm').click();
  await at(page, 'confirmation').waitFor({ state: 'detached' });
  const back = await until('the rollback', async () => {
    const { body } = await daemon.api('GET', 'P/repositories/fleet');
    return body['quarantinedCommit'] === null ? undefined : body;
  });
  assert.equal(back['appliedCommit'], first);
});
