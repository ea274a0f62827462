import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import {
  agentFile,
  agentNames,
  type Bench,
  runsOf,
  settled,
  startBench,
  syncNow,
  until,
  word,
} from './sync-testkit.ts';

describe('a watched folder', () => {
  let bench: Bench;
  before(async () => {
    bench = await startBench();
  });
  after(() => bench.stop());
  const has = async (name: string): Promise<boolean> => (await agentNames(bench.daemon)).includes(name);

  it('follows a folder as it is edited', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'svc-folder-'));
    await mkdir(join(folder, '.svc/agents'), { recursive: true });
    await writeFile(join(folder, '.svc/agents/a.yaml'), agentFile('folder-one'));
    await bench.daemon.api('POST', 'P/repositories', { name: 'folder', path: folder, intervalSeconds: 3600 });
    const first = await settled(bench.daemon, 'folder');
    assert.match(word(first['commit']), /^folder:/);
    assert.ok(await has('folder-one'));
    // The watch begins within two seconds of the registration: an edit before that is seen when it does.
    for (const [index, save] of ['before the watch', 'at once', 'by an editor'].entries()) {
      const file = join(folder, '.svc/agents/a.yaml');
      if (save === 'by an editor') {
        await rename(file, `${file}~`);
        await writeFile(join(folder, '.svc/agents/4913'), '');
        await rm(join(folder, '.svc/agents/4913'));
      }
      await writeFile(file, agentFile(`folder-${index}`));
      await until(`the edit ${save}`, () => has(`folder-${index}`));
    }
    // At once: what is removed a file at a time is a tree without agents first, and read as that by a daemon that is quick.
    await rename(join(folder, '.svc'), join(folder, 'removed'));
    await settled(bench.daemon, 'folder', (one) => word(one['status']) === 'held');
    await mkdir(join(folder, '.svc/agents'), { recursive: true });
    const many = Array.from({ length: 60 }, (_, index) => index);
    await Promise.all(
      many.map((index) => writeFile(join(folder, `.svc/agents/${index}.yaml`), agentFile(`many-${index}`))),
    );
    await until('all of them', () => has('many-59'));
    await writeFile(join(folder, 'prompt.md'), 'first');
    const outside = 'systemPrompt: { file: ../../prompt.md }';
    await writeFile(join(folder, '.svc/agents/0.yaml'), agentFile('many-0', outside));
    const promptOf = async (): Promise<string> =>
      word((await bench.daemon.api('GET', 'P/agents/many-0')).body['spec']?.['systemPrompt']);
    await until('the prompt', async () => (await promptOf()) === 'first');
    await writeFile(join(folder, 'prompt.md'), 'second');
    await until('the edit outside', async () => (await promptOf()) === 'second');
    await rm(join(folder, 'prompt.md'));
    await settled(bench.daemon, 'folder', (one) => /file-missing/.test(JSON.stringify(one['diagnostics'])));
    const before = (await runsOf(bench.daemon, 'folder')).length;
    const polled = async (): Promise<string> =>
      word((await bench.daemon.api('GET', 'P/repositories/folder')).body['nextPollAt']);
    const asked = await bench.daemon.ctx.db.query<{ at: Date }>(
      `update svc.repository_polls set next_at = now(), resync_at = 'infinity' returning next_at as at`,
    );
    // Its next turn is within the hour, wherever the phase and the jitter of the interval put it.
    const at = asked.rows[0]?.at.getTime() ?? Number.NaN;
    await until('a poll', async () => Date.parse(await polled()) > at + 2_000);
    await syncNow(bench.daemon, 'folder');
    assert.equal((await runsOf(bench.daemon, 'folder')).length, before + 1, 'the sync by hand alone');
    await rm(folder, { recursive: true, force: true });
  });
});
