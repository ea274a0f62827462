// Repositories that failed over a name that another had: they are tried again as soon as that gives it up, and nobody waits for
// the periodic comparison.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { openDatabase } from '../../adapters/store/store.ts';
import { silent } from '../../base/testkit/postgres.ts';
import { syncPortsOf } from '../context.ts';
import { agentFile, agentNames, type Bench, settled, startBench, syncNow, until, word } from './sync-testkit.ts';

describe('a repository that failed over what another has', () => {
  let bench: Bench;
  before(async () => {
    bench = await startBench();
  });
  after(() => bench.stop());

  const file = '.svc/agents/moves.yaml';
  /** A repository that begins with these files, and how its first run ended. */
  const watched = async (name: string, files: { readonly [path: string]: string }) => {
    const repo = await bench.repository(name);
    await repo.commit(files);
    const run = await bench.watch(name);
    return { repo, status: word(run['status']), code: word((run['diagnostics'] as never)?.[0]?.['code']) };
  };
  const isApplied = (name: string) =>
    settled(bench.daemon, name, (run) => word(run['status']) === 'applied').then(() => undefined);
  const base = (name: string) => ({ '.svc/agents/stays.yaml': agentFile(name) });
  const manual = (files: { readonly [path: string]: string }) =>
    bench.daemon.api('POST', 'P/apply', {
      files: Object.entries(files).map(([path, content]) => ({ path, content })),
    });

  it('has the agent once its old repository drops it', async () => {
    const old = await watched('old', { ...base('old-stays'), [file]: agentFile('moves') });
    const heir = await watched('heir', { [file]: agentFile('moves') });
    assert.deepEqual([old.status, heir.status, heir.code], ['applied', 'failed', 'owner-conflict']);
    await old.repo.commit({ [file]: null });
    await syncNow(bench.daemon, 'old');
    await isApplied('heir');
    assert.ok((await agentNames(bench.daemon)).includes('moves'));
  });

  it('has it once that repository is removed, and once it is deleted by hand', async () => {
    await watched('gone', { [file]: agentFile('left') });
    assert.equal((await watched('after', { [file]: agentFile('left') })).code, 'owner-conflict');
    assert.equal((await bench.daemon.api('DELETE', 'P/repositories/gone')).status, 204);
    await isApplied('after');
    assert.equal((await manual({ [file]: agentFile('byhand') })).status, 200);
    assert.equal((await watched('files', { [file]: agentFile('byhand') })).code, 'owner-conflict');
    assert.equal((await bench.daemon.api('DELETE', 'P/agents/byhand')).status, 204);
    await isApplied('files');
  });

  it('has its environment once the other one has it the same, or lets its agent go', async () => {
    const of = (name: string, preset: string) =>
      agentFile(name).replace('{ name: plain, image: { kind: preset, name: base } }', preset);
    const [one, two] = [
      '{ name: shared, image: { kind: preset, name: base } }',
      '{ name: shared, image: { kind: preset, name: node24 } }',
    ];
    const first = await watched('first', { ...base('first-stays'), [file]: of('first-agent', one) });
    const second = await watched('second', { [file]: of('second-agent', two) });
    assert.deepEqual([first.status, second.code], ['applied', 'resource-conflict']);
    await first.repo.commit({ [file]: of('first-agent', two) });
    await syncNow(bench.daemon, 'first');
    await isApplied('second');
    await second.repo.commit({ [file]: of('second-agent', one) });
    assert.equal(word((await syncNow(bench.daemon, 'second'))['status']), 'failed');
    await first.repo.commit({ [file]: null });
    await syncNow(bench.daemon, 'first');
    await settled(bench.daemon, 'second', (run) => word(run['status']) === 'applied');
  });

  it('has its endpoint once the one of other credentials is deleted', async () => {
    const of = (name: string, auth: string) =>
      agentFile(
        name,
        'triggers:',
        `  - { event: webhook.received, endpoint: reports, auth: ${auth}, message: m, routing: { kind: spawn } }`,
      );
    await bench.daemon.api('PUT', 'P/secrets/hook', { value: 'v' });
    const keeper = await watched('keeper', { ...base('keeper-stays'), [file]: of('keeper-agent', '{ kind: none }') });
    const signed = await watched('signed', {
      [file]: of('signed-agent', '{ kind: bearer_token, secretRef: hook }'),
    });
    assert.deepEqual([keeper.status, signed.code], ['applied', 'endpoint-auth-conflict']);
    await keeper.repo.commit({ [file]: null });
    await syncNow(bench.daemon, 'keeper');
    assert.equal((await bench.daemon.api('DELETE', 'P/endpoints/reports')).status, 204);
    await isApplied('signed');
  });

  it('has its identity once somebody brings one of that name', async () => {
    const named = `${agentFile('named')}identity: borrowed\n`;
    const borrower = await watched('borrower', { [file]: named });
    assert.deepEqual([borrower.status, borrower.code], ['failed', 'identity-not-stored']);
    const lender = `${agentFile('lender')}identity: { name: borrowed, displayName: Ann }\n`;
    await watched('lender', { [file]: lender });
    await isApplied('borrower');
  });

  it('has its resources once the project allows as much', async () => {
    const limited = (memoryMB: number | null) =>
      bench.daemon.api('PATCH', 'P', { limits: memoryMB === null ? null : { memoryMB } });
    assert.equal((await limited(256)).status, 200);
    const large = agentFile('large').replace('name: plain,', 'name: large, resources: { memoryMB: 512 },');
    const wants = await watched('wants', { [file]: large });
    assert.deepEqual([wants.status, wants.code], ['failed', 'resources-over-limit']);
    assert.equal((await limited(1024)).status, 200);
    await isApplied('wants');
    assert.equal((await limited(null)).status, 200);
  });

  it('is tried again where the other one gives it up in the moment in which it fails', async () => {
    const { ctx, api } = bench.daemon;
    assert.equal((await manual({ [file]: agentFile('between') })).status, 200);
    const repo = await bench.repository('between');
    await repo.commit({ [file]: agentFile('between') });
    const { rows } = await ctx.db.query<{ id: string }>('select project_id as id from svc.repositories limit 1');
    const { promise: freed, resolve: free } = Promise.withResolvers<void>();
    // What is about to be applied waits for those before it in the project.
    const before = Promise.all(
      Array.from({ length: 64 }, () => syncPortsOf(ctx).applying(rows[0]?.id ?? '', () => freed)),
    );
    const body = { name: 'between', url: bench.server.url('between.git'), intervalSeconds: 3600 };
    assert.equal((await api('POST', 'P/repositories', body)).status, 201);
    const compiled = `select id from svc.reconciles where repository_name = 'between' and inputs <> '{}'`;
    const run = await until('its run', async () => (await ctx.db.query<{ id: string }>(compiled)).rows[0]?.id);
    const other = openDatabase({ url: ctx.db.url, log: silent });
    const waits = `select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
    const { deleted } = await other.tx(async (tx) => {
      await tx.query('select from svc.reconciles where id = $1::uuid for update', [run]);
      free();
      await before;
      await until('the end that cannot be written', async () => (await ctx.db.query(waits)).rowCount > 0);
      const asked = api('DELETE', 'P/agents/between');
      // It is over by then, or waits for its turn in the project.
      await Promise.race([asked, sleep(500)]);
      return { deleted: asked };
    });
    await other.close();
    assert.equal((await deleted).status, 204);
    await isApplied('between');
  });
});
