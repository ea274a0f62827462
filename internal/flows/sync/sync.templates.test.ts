// A managed template that changes under a commit which stays: the periodic comparison takes it, or says why it cannot.

import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { agentFile, runsOf, startBench, until, word } from './sync-testkit.ts';

test('a template that breaks a commit that was good is told once, and once more when it is mended', async (t) => {
  const directory = await mkdtemp(join(tmpdir(), 'svc-kits-'));
  t.after(() => rm(directory, { recursive: true, force: true }));
  const kit = join(directory, 'kit');
  await mkdir(kit);
  const publish = async (version: string, text: string): Promise<void> => {
    await writeFile(join(kit, 'package.json'), JSON.stringify({ name: '@acme/kit', version }));
    await writeFile(join(kit, 'base.yaml'), text);
  };
  await publish('1.0.0', 'labels: { from: one }\n');
  const bench = await startBench({ config: { file: { templates: [{ scope: '@acme', directory }] } } });
  t.after(() => bench.stop());
  const { daemon } = bench;
  const repo = await bench.repository('kits');
  await repo.commit({ '.svc/agents/a.yaml': agentFile('kits-a', 'imports: "@acme/kit/base.yaml"') });
  assert.equal(word((await bench.watch('kits'))['status']), 'applied');
  const compare = async (): Promise<string[]> => {
    const { db } = daemon.ctx;
    await db.query('update svc.repository_polls set next_at = now(), resync_at = now()');
    const inHand = 'select from svc.repository_polls where next_at <= now() or claimed_by is not null';
    await until('the comparison', async () => (await db.query(inHand)).rows.length === 0);
    return (await runsOf(daemon, 'kits')).map((run) => word(run['status']));
  };
  await publish('1.1.0', 'labels: { from: 2 }\n');
  assert.deepEqual(await compare(), ['failed', 'applied']);
  assert.equal(word((await daemon.api('GET', 'P/repositories/kits')).body['status']), 'failed');
  assert.deepEqual(await compare(), ['failed', 'applied'], 'nobody needs to read that every time');
  await publish('1.2.0', 'labels: { from: three }\n');
  assert.deepEqual(await compare(), ['applied', 'failed', 'applied']);
  const { body } = await daemon.api('GET', 'P/agents/kits-a');
  assert.equal(word(body['spec']?.['labels']?.['from']), 'three');
});
