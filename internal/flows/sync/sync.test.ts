import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { armFailpoint } from '../../base/failpoint.ts';
import type { JsonBody } from '../../base/testkit/daemon.ts';
import {
  agentFile,
  agentNames,
  type Bench,
  ended,
  resourceRows,
  runsOf,
  settled,
  startBench,
  syncNow,
  until,
  word,
} from './sync-testkit.ts';

describe('a repository over HTTP', () => {
  let bench: Bench;
  before(async () => {
    bench = await startBench();
  });
  after(() => bench.stop());
  const has = async (name: string): Promise<boolean> => (await agentNames(bench.daemon)).includes(name);
  const repositoryOf = async (name: string) => (await bench.daemon.api('GET', `P/repositories/${name}`)).body;

  it('becomes agents with its first sync, in stages', async () => {
    const repo = await bench.repository('first');
    const commit = await repo.commit({ '.svc/agents/a.yaml': agentFile('first-a') });
    const run = await bench.watch('first');
    assert.equal(word(run['status']), 'applied', JSON.stringify(run));
    assert.equal(word(run['commit']), commit);
    const stages = run['stages'] as unknown as { name: string; ms: number }[];
    assert.deepEqual(
      stages.map((stage) => stage.name),
      ['resolve', 'snapshot', 'compile', 'plan', 'guard', 'apply'],
    );
    assert.ok(await has('first-a'));
    const shown = await repositoryOf('first');
    assert.deepEqual(
      [word(shown['appliedCommit']), word(shown['agents']), word(shown['status'])],
      [commit, '1', 'applied'],
    );
  });

  it('follows a push by polling', async () => {
    const repo = await bench.repository('polled');
    await repo.commit({ '.svc/agents/a.yaml': agentFile('polled-a') });
    await bench.watch('polled', { intervalSeconds: 1 });
    const commit = await repo.commit({ '.svc/agents/b.yaml': agentFile('polled-b') });
    const run = await settled(bench.daemon, 'polled', (latest) => word(latest['commit']) === commit);
    assert.deepEqual([word(run['status']), word(run['reason'])], ['applied', 'poll']);
    assert.ok(await has('polled-b'));
  });

  it('says what the machine lacks where that ends a sync, without a path, and tries again', async () => {
    const repo = await bench.repository('full');
    await repo.commit({ '.svc/agents/a.yaml': agentFile('full-a') });
    const path = join(bench.daemon.dataDir, 'templates');
    armFailpoint('sync.before-apply', () => {
      armFailpoint(undefined);
      throw Object.assign(new Error(`ENOSPC: no space left on device, open '${path}'`), { code: 'ENOSPC', path });
    });
    await bench.watch('full', { intervalSeconds: 1 });
    const again = await settled(bench.daemon, 'full', (latest) => word(latest['status']) === 'applied');
    assert.equal(word(again['reason']), 'poll');
    const failed = (await runsOf(bench.daemon, 'full')).find((run) => word(run['status']) === 'failed');
    assert.equal(
      word(failed?.['detail']),
      'the sync broke off because the daemon’s data directory has no room left (ENOSPC), and it will be tried again',
    );
  });

  it('keeps the last good state when a push is broken, says where, and heals with the next', async () => {
    const repo = await bench.repository('broken');
    const good = await repo.commit({ '.svc/agents/a.yaml': agentFile('broken-a') });
    await bench.watch('broken');
    const bad = await repo.commit({ '.svc/agents/a.yaml': 'name: broken-a\nharness: nonsense\n' });
    const run = await syncNow(bench.daemon, 'broken');
    assert.deepEqual([word(run['status']), word(run['commit'])], ['failed', bad]);
    const diagnostics = run['diagnostics'] as unknown as { file: string; line: number; severity: string }[];
    assert.ok(diagnostics.some((item) => item.file === '.svc/agents/a.yaml' && item.line > 0));
    assert.ok(await has('broken-a'));
    assert.equal(word((await repositoryOf('broken'))['appliedCommit']), good);
    assert.equal(word((await syncNow(bench.daemon, 'broken'))['status']), 'failed', 'by hand it fails again');
    const { rows } = await bench.daemon.ctx.db.query<{ n: number }>(
      `select count(*)::int as n from svc.events where key = 'svc.project_resource_apply.failed'`,
    );
    assert.deepEqual(rows, [{ n: 2 }], 'each failed sync is an event');
    await repo.commit({ '.svc/agents/a.yaml': agentFile('broken-b') });
    assert.equal(word((await syncNow(bench.daemon, 'broken'))['status']), 'applied');
    assert.deepEqual([await has('broken-a'), await has('broken-b')], [false, true]);
  });

  it('is not tried again by a poll while the commit is broken', async () => {
    const repo = await bench.repository('stuck');
    await repo.commit({ '.svc/agents/a.yaml': 'name: stuck\n' });
    await bench.watch('stuck', { intervalSeconds: 1 });
    const asked = bench.server.log.length;
    await until('three more polls', async () => bench.server.log.length >= asked + 3);
    const runs = await runsOf(bench.daemon, 'stuck');
    assert.equal(runs.length, 1, JSON.stringify(runs));
  });

  it('writes nothing for a second sync of the same commit', async () => {
    const repo = await bench.repository('twice');
    await repo.commit({
      '.svc/agents/a.yaml': agentFile(
        'twice-a',
        'triggers:',
        '  - event: svc.project.onboarded',
        '    routing: { kind: spawn }',
      ),
    });
    await bench.watch('twice');
    const before = await resourceRows(bench.daemon);
    const run = await syncNow(bench.daemon, 'twice');
    assert.equal(word(run['status']), 'unchanged', JSON.stringify(run['diagnostics']));
    assert.equal(await resourceRows(bench.daemon), before);
  });

  it('says in a second sync of the same commit what it warned of in the first', async () => {
    await bench.daemon.api('PUT', 'P/secrets/IDLE', { value: 'long-enough-secret', idleExpirySeconds: 86_400 });
    const repo = await bench.repository('warned');
    const hook = ['  - event: webhook.in', '    endpoint: warned', '    auth: { kind: hmac_sha256, secretRef: IDLE }'];
    const triggers = ['triggers:', ...hook, '    message: hi', '    routing: { kind: spawn }'];
    await repo.commit({
      '.svc/agents/a.yaml': agentFile('warned-a', ...triggers),
      '.svc/agents/A.yaml': agentFile('warned-b'),
    });
    const codesOf = (run: JsonBody) => (run['diagnostics'] as unknown as { code: string }[]).map(({ code }) => code);
    const first = await bench.watch('warned');
    assert.deepEqual(codesOf(first), ['hostile-path', 'endpoint-idle-expiry']);
    for (const time of ['second', 'third']) {
      const again = await syncNow(bench.daemon, 'warned');
      assert.equal(word(again['status']), 'unchanged');
      assert.deepEqual(again['diagnostics'], first['diagnostics'], time);
    }
  });

  it('records the id alone of a commit that changes no file it reads, without compiling', async () => {
    const repo = await bench.repository('docs');
    await repo.commit({ '.svc/agents/a.yaml': agentFile('docs-a') });
    await bench.watch('docs');
    const before = await resourceRows(bench.daemon);
    const commit = await repo.commit({ 'README.md': 'words' });
    bench.server.log.length = 0;
    await bench.daemon.ctx.db.query('update svc.repository_polls set next_at = now()');
    const run = await settled(bench.daemon, 'docs', (latest) => word(latest['commit']) === commit);
    assert.equal(word(run['status']), 'unchanged');
    const asked = bench.server.log.filter(({ path }) => path.startsWith('/docs.git'));
    assert.equal(asked.length, 2, 'the look, and the trees');
    assert.ok(asked.every(({ bytesDown }) => bytesDown < 1000));
    const stages = run['stages'] as unknown as { name: string }[];
    assert.deepEqual(
      stages.map((stage) => stage.name),
      ['resolve', 'snapshot'],
    );
    assert.equal(await resourceRows(bench.daemon), before);
    assert.equal(word((await repositoryOf('docs'))['appliedCommit']), commit);
  });

  it('forgets a file outside .svc/ that nothing names any more', async () => {
    const repo = await bench.repository('outside');
    const prompt = 'systemPrompt: { file: ../../prompts/p.md }';
    await repo.commit({ '.svc/agents/a.yaml': agentFile('outside-a', prompt), 'prompts/p.md': 'one' });
    await bench.watch('outside');
    const stagesOf = (run: JsonBody) => (run['stages'] as unknown as { name: string }[]).map(({ name }) => name);
    const next = async (files: { [path: string]: string }) => {
      const commit = await repo.commit(files);
      await bench.daemon.ctx.db.query('update svc.repository_polls set next_at = now()');
      return settled(bench.daemon, 'outside', (latest) => word(latest['commit']) === commit);
    };
    assert.equal(word((await next({ 'prompts/p.md': 'two' }))['status']), 'applied');
    assert.equal(word((await next({ '.svc/agents/a.yaml': agentFile('outside-a') }))['status']), 'applied');
    assert.deepEqual(stagesOf(await next({ 'prompts/p.md': 'three' })), ['resolve', 'snapshot']);
  });

  it('makes no revision for a comment', async () => {
    const repo = await bench.repository('comment');
    await repo.commit({ '.svc/agents/a.yaml': agentFile('comment-a') });
    await bench.watch('comment');
    const commit = await repo.commit({ '.svc/agents/a.yaml': `# why\n${agentFile('comment-a')}` });
    const run = await syncNow(bench.daemon, 'comment');
    assert.deepEqual([word(run['status']), word(run['commit'])], ['unchanged', commit]);
    const { rows } = await bench.daemon.ctx.db.query<{ revision: number }>(
      `select revision from svc.agents where name = 'comment-a'`,
    );
    assert.deepEqual(rows, [{ revision: 1 }]);
  });

  it('follows a force-push like any other', async () => {
    const repo = await bench.repository('forced');
    await repo.commit({ '.svc/agents/a.yaml': agentFile('forced-a') });
    await bench.watch('forced');
    const commit = await repo.commit({ '.svc/agents/b.yaml': agentFile('forced-b') }, { orphan: true });
    const run = await syncNow(bench.daemon, 'forced');
    assert.deepEqual([word(run['status']), word(run['commit'])], ['applied', commit]);
    assert.deepEqual([await has('forced-a'), await has('forced-b')], [false, true]);
  });

  it('reads what a force-push left, where it took away the commit that was about to be read', async () => {
    const repo = await bench.repository('raced');
    await repo.commit({ '.svc/agents/a.yaml': agentFile('raced-one') });
    await bench.watch('raced');
    const taken = await repo.commit({ '.svc/agents/a.yaml': agentFile('raced-two') });
    const push = async (): Promise<void> => {
      await repo.commit({ '.svc/agents/a.yaml': agentFile('raced-three') }, { orphan: true });
      await repo.git(['gc', '--prune=now', '-q']);
    };
    let pushed: Promise<void> | undefined;
    bench.server.fault = ({ path, method }) => {
      // The first request asks for the ref, the second for the commit.
      if (method !== 'POST' || !path.startsWith('/raced.git')) return null;
      bench.server.fault = ({ path: next }) =>
        next.startsWith('/raced.git') ? { kind: 'hold', until: (pushed ??= push()) } : null;
      return null;
    };
    const run = await syncNow(bench.daemon, 'raced');
    bench.server.fault = () => null;
    assert.deepEqual([run['status'], run['commit']], ['applied', await repo.head()]);
    assert.notEqual(run['commit'], taken);
    assert.ok((await agentNames(bench.daemon)).includes('raced-three'));
  });

  it('prunes nothing when its branch is gone, and goes on when it is back', async () => {
    const repo = await bench.repository('gone');
    const commit = await repo.commit({ '.svc/agents/a.yaml': agentFile('gone-a') }, { branch: 'work' });
    await bench.watch('gone', { branch: 'work' });
    await repo.git(['update-ref', '-d', 'refs/heads/work']);
    const run = await syncNow(bench.daemon, 'gone');
    assert.deepEqual([word(run['status']), word(run['condition'])], ['failed', 'ref-missing']);
    assert.ok(await has('gone-a'));
    assert.equal(word((await repositoryOf('gone'))['condition']), 'ref-missing');
    await repo.git(['update-ref', 'refs/heads/work', commit]);
    assert.equal(word((await syncNow(bench.daemon, 'gone'))['status']), 'unchanged');
    assert.equal((await repositoryOf('gone'))['condition'], null);
  });

  it('holds a sync that finds no .svc/ any more until it is approved', async () => {
    const repo = await bench.repository('held');
    await repo.commit({ '.svc/agents/a.yaml': agentFile('held-a') });
    await bench.watch('held');
    await repo.commit({ 'README.md': 'x' }, { orphan: true });
    const held = await syncNow(bench.daemon, 'held');
    assert.equal(word(held['status']), 'held', JSON.stringify(held));
    const { body: told } = await bench.daemon.api('GET', `P/reconciles/${word(held['id'])}`);
    assert.match(word(told['detail']), new RegExp(`: svc repo approve held ${word(held['id'])}$`));
    assert.equal(word(told['consequences']?.['eventImpact']?.['events']), '0', 'it says what stored events would meet');
    assert.ok(await has('held-a'));
    const approve = (id: string) => bench.daemon.api('POST', 'P/repositories/held/approve', { reconcileId: id });
    const [first] = (await runsOf(bench.daemon, 'held')).slice(-1);
    assert.equal((await approve(word(first?.['id']))).status, 409, 'what is not held cannot be approved');
    const again = await syncNow(bench.daemon, 'held');
    assert.equal(word(again['status']), 'held');
    assert.equal((await approve(word(held['id']))).status, 409, 'a newer run makes it stale');
    const answer = await approve(word(again['id']));
    assert.equal(answer.status, 202, JSON.stringify(answer.body));
    const by = word(answer.body['reconcileId']);
    assert.equal(word((await ended(bench.daemon, by))['status']), 'applied');
    assert.equal(await has('held-a'), false);
    const { body: through } = await bench.daemon.api('GET', `P/reconciles/${word(again['id'])}`);
    assert.equal(word(through['detail']), `approved: run ${by}`);
  });

  it('holds a sync that would delete more than the guard lets it', async () => {
    const repo = await bench.repository('many');
    const names = Array.from({ length: 12 }, (_, index) => `many-${index}`);
    await repo.commit(Object.fromEntries(names.map((name) => [`.svc/agents/${name}.yaml`, agentFile(name)])));
    await bench.watch('many');
    await repo.commit({ '.svc/agents/many-0.yaml': agentFile('many-0') }, { orphan: true });
    assert.equal(word((await syncNow(bench.daemon, 'many'))['status']), 'held');
    assert.ok(await has('many-11'));
    await bench.daemon.api('PATCH', 'P/repositories/many', { guard: { deleteMax: 50 } });
    await settled(bench.daemon, 'many', (run) => word(run['status']) === 'applied');
    assert.equal(await has('many-11'), false);
  });
});
