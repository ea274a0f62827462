import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { silent } from '../../base/testkit/postgres.ts';
import { inApply } from '../../adapters/store/routing/project-lock.ts';
import { openDatabase } from '../../adapters/store/store.ts';
import { type ApiAnswer, type JsonBody, startTestDaemon } from '../../base/testkit/daemon.ts';
import {
  agentFile,
  agentNames,
  type Bench,
  ended,
  runsOf,
  settled,
  startBench,
  syncNow,
  until,
  word,
} from './sync-testkit.ts';

describe('what people do to a repository', () => {
  let bench: Bench;
  before(async () => {
    bench = await startBench();
  });
  after(() => bench.stop());
  const has = async (name: string): Promise<boolean> => (await agentNames(bench.daemon)).includes(name);
  const repositoryOf = async (name: string) => (await bench.daemon.api('GET', `P/repositories/${name}`)).body;
  const act = (name: string, action: string, body?: object) =>
    bench.daemon.api('POST', `P/repositories/${name}/${action}`, body);
  const run = async (name: string, action: string, body?: object) => {
    const answer = await act(name, action, body);
    assert.equal(answer.status, 202, JSON.stringify(answer.body));
    return ended(bench.daemon, word(answer.body['reconcileId']));
  };

  it('rolls back to the commit before, passes over the one it left, and resumes at the next', async () => {
    const repo = await bench.repository('back');
    const one = await repo.commit({ '.svc/agents/a.yaml': agentFile('back-one') }, { message: 'one\n\nmore' });
    await bench.watch('back', { intervalSeconds: 1 });
    const two = await repo.commit({ '.svc/agents/a.yaml': agentFile('back-two') }, { message: 'two' });
    await settled(bench.daemon, 'back', (latest) => word(latest['commit']) === two);
    const back = await run('back', 'rollback', {});
    assert.deepEqual([word(back['status']), word(back['commit'])], ['applied', one], JSON.stringify(back));
    assert.deepEqual(
      [word(back['commitMessage']), word(back['commitAuthor'])],
      ['one', 'Demo'],
      'without reading it again',
    );
    assert.deepEqual([await has('back-one'), await has('back-two')], [true, false]);
    assert.equal(word((await repositoryOf('back'))['quarantinedCommit']), two);
    const passed = await settled(bench.daemon, 'back', (latest) => word(latest['status']) === 'quarantined');
    assert.deepEqual([word(passed['commit']), word(passed['commitMessage'])], [two, 'two']);
    const count = (await runsOf(bench.daemon, 'back')).length;
    const asked = bench.server.log.length;
    await until('two more polls', async () => bench.server.log.length >= asked + 2);
    assert.equal((await runsOf(bench.daemon, 'back')).length, count, 'said once');
    assert.ok(await has('back-one'));
    const three = await repo.commit({ '.svc/agents/a.yaml': agentFile('back-three') });
    await settled(bench.daemon, 'back', (latest) => word(latest['commit']) === three);
    assert.ok(await has('back-three'));
    assert.equal((await repositoryOf('back'))['quarantinedCommit'], null);
  });

  it('refuses to roll back to what was never applied', async () => {
    const repo = await bench.repository('never');
    await repo.commit({ '.svc/agents/a.yaml': agentFile('never') });
    await bench.watch('never');
    assert.equal((await act('never', 'rollback', {})).status, 409);
    assert.equal((await act('never', 'rollback', { commit: 'f'.repeat(40) })).status, 409);
  });

  it('stays at a pinned commit, and follows the branch again when unpinned', async () => {
    const repo = await bench.repository('pinned');
    const one = await repo.commit({ '.svc/agents/a.yaml': agentFile('pinned-one') });
    await bench.watch('pinned', { intervalSeconds: 1 });
    const two = await repo.commit({ '.svc/agents/a.yaml': agentFile('pinned-two') });
    await settled(bench.daemon, 'pinned', (latest) => word(latest['commit']) === two);
    assert.equal((await act('pinned', 'pin', { commit: 'ffffffff' })).status, 400, 'nobody knows that one');
    const back = await run('pinned', 'pin', { commit: one.slice(0, 10) });
    assert.deepEqual([word(back['status']), word(back['commit'])], ['applied', one]);
    assert.equal(word((await syncNow(bench.daemon, 'pinned'))['commit']), one);
    assert.ok(await has('pinned-one'));
    assert.equal(word((await run('pinned', 'unpin'))['commit']), two);
    assert.ok(await has('pinned-two'));
  });

  it('does nothing while suspended, and catches up when resumed', async () => {
    const repo = await bench.repository('asleep');
    await repo.commit({ '.svc/agents/a.yaml': agentFile('asleep-one') });
    await bench.watch('asleep', { intervalSeconds: 1 });
    assert.equal((await act('asleep', 'suspend')).status, 200);
    const commit = await repo.commit({ '.svc/agents/a.yaml': agentFile('asleep-two') });
    for (const way of ['sync', 'unpin']) assert.equal((await act('asleep', way)).status, 409, way);
    assert.ok(await has('asleep-one'));
    assert.equal((await act('asleep', 'resume')).status, 200);
    await settled(bench.daemon, 'asleep', (latest) => word(latest['commit']) === commit);
    assert.ok(await has('asleep-two'));
  });

  it('heals what was changed behind its back', async () => {
    const repo = await bench.repository('drift');
    await repo.commit({ '.svc/agents/a.yaml': agentFile('drift-a') });
    await bench.watch('drift');
    const spoil = `update svc.agents set spec = jsonb_set(spec, '{harness}', '"harness-b"') where name = 'drift-a'`;
    await bench.daemon.ctx.db.query(spoil);
    await bench.daemon.ctx.db.query(`update svc.repository_polls set next_at = now(), resync_at = now()
      where repository_id = (select id from svc.repositories where name = 'drift')`);
    const healed = await settled(bench.daemon, 'drift', (latest) => word(latest['reason']) === 'resync');
    assert.equal(word(healed['status']), 'applied');
    const { body } = await bench.daemon.api('GET', 'P/agents/drift-a');
    assert.equal(word(body['spec']?.['harness']), 'harness-a');
  });

  it('leaves no run behind a resync that finds nothing', async () => {
    const repo = await bench.repository('calm');
    await repo.commit({ '.svc/agents/a.yaml': agentFile('calm-a') });
    await bench.watch('calm');
    const { db } = bench.daemon.ctx;
    await db.query(`update svc.repository_polls set next_at = now(), resync_at = now()
      where repository_id = (select id from svc.repositories where name = 'calm')`);
    await until('the resync', async () => {
      const { rows } = await db.query<{ done: boolean }>(`select p.resync_at > now() as done from svc.repository_polls p
        join svc.repositories r on r.id = p.repository_id where r.name = 'calm'`);
      return rows[0]?.done;
    });
    // Of this repository: others of the file may still be read.
    const inHand = `select 1 from svc.repository_polls p join svc.repositories r on r.id = p.repository_id
      where r.name = 'calm' and p.claimed_by is not null`;
    await until('its end', async () => (await db.query(inHand)).rows.length === 0);
    assert.equal((await runsOf(bench.daemon, 'calm')).length, 1);
  });

  it('changes settings, and syncs under them', async () => {
    const repo = await bench.repository('moved');
    await repo.commit({
      '.svc/agents/a.yaml': agentFile('moved-top'),
      'sub/.svc/agents/a.yaml': agentFile('moved-sub', 'imports: ../../../shared/f.yaml'),
      'shared/f.yaml': 'labels: {from: above}\n',
    });
    await bench.watch('moved');
    const before = await repositoryOf('moved');
    const { status, body } = await bench.daemon.api('PATCH', 'P/repositories/moved', {
      root: 'sub',
      context: { team: 'x', size: 3 },
    });
    assert.equal(status, 200);
    assert.ok(Number(body['generation']) > Number(before['generation']));
    await until('the other root', () => has('moved-sub')).catch(async (error: unknown) => {
      throw new Error(JSON.stringify(await runsOf(bench.daemon, 'moved'), null, 1).slice(0, 3000), { cause: error });
    });
    assert.equal(await has('moved-top'), false);
    assert.deepEqual((await repositoryOf('moved'))['context'], { team: 'x', size: '3' });
    const labels = async () => JSON.stringify((await bench.daemon.api('GET', 'P/agents/moved-sub')).body['spec']);
    assert.match(await labels(), /"from":"above"/, 'what lies above the root is in the repository');
    await repo.commit({ 'shared/f.yaml': 'labels: {from: new}\n' });
    assert.equal((await syncNow(bench.daemon, 'moved'))['status'], 'applied', 'and a change of it is one');
    assert.match(await labels(), /"from":"new"/);
  });

  it('is removed with what it owns, or without', async () => {
    for (const keep of [false, true]) {
      const name = keep ? 'kept' : 'dropped';
      const repo = await bench.repository(name);
      await repo.commit({ '.svc/agents/a.yaml': agentFile(`${name}-a`) });
      await bench.watch(name);
      const { status } = await bench.daemon.api('DELETE', `P/repositories/${name}?keepResources=${keep}`);
      assert.equal(status, 204);
      assert.equal(await has(`${name}-a`), keep);
      assert.equal((await bench.daemon.api('GET', `P/repositories/${name}`)).status, 404);
    }
    const { body } = await bench.daemon.api('GET', 'P/agents/kept-a');
    assert.match(JSON.stringify(body['owner']), /manual/);
  });

  /** Asks for a removal while an apply is under way, and acts once it waits for that. */
  async function removedMeanwhile(query: string, act: () => Promise<unknown>): Promise<ApiAnswer> {
    const { db } = bench.daemon.ctx;
    const other = openDatabase({ url: db.url, log: silent });
    let isAnswered = false;
    const { rows } = await db.query<{ id: string }>('select project_id as id from svc.repositories limit 1');
    const { answer } = await inApply(other, rows[0]?.id ?? '', async () => {
      const asked = bench.daemon.api('DELETE', `P/repositories/${query}`).finally(() => {
        isAnswered = true;
      });
      await until('the call to wait for the lock', async () => {
        const waiting = await db.query(
          `select 1 from pg_locks l join pg_database d on d.oid = l.database
            where l.locktype = 'advisory' and not l.granted and d.datname = current_database()`,
        );
        return isAnswered || waiting.rows.length > 0;
      });
      assert.equal(isAnswered, false);
      await act();
      return { answer: asked };
    });
    await other.close();
    return answer;
  }

  it('is removed without what it owns only when no apply is under way', async () => {
    const repo = await bench.repository('busy');
    await repo.commit({ '.svc/agents/a.yaml': agentFile('busy-a') });
    await bench.watch('busy');
    assert.equal((await removedMeanwhile('busy?keepResources=true', async () => undefined)).status, 204);
    assert.ok(await has('busy-a'));
  });

  it('stays with all that it owns, and its removal says so, where its settings were changed meanwhile', async () => {
    for (const name of ['owner', 'ownerless']) {
      const repo = await bench.repository(name);
      await repo.commit({ '.svc/agents/a.yaml': name === 'owner' ? agentFile('owner-a') : '' });
      await bench.watch(name);
      const change = () => bench.daemon.api('PATCH', `P/repositories/${name}`, { suspended: true });
      const { status, body } = await removedMeanwhile(name, change);
      assert.deepEqual([status, body['code']], [409, 'repository-changed']);
      assert.equal((await bench.daemon.api('GET', `P/repositories/${name}`)).status, 200);
    }
    assert.ok(await has('owner-a'));
    const quicker = `delete from svc.repositories where name = 'ownerless'`;
    assert.equal((await removedMeanwhile('ownerless', () => bench.daemon.ctx.db.query(quicker))).status, 404);
  });

  it('refuses what cannot be a repository, naming the key and never the credential', async () => {
    const signer = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl';
    const cases: readonly (readonly [object, number, RegExp])[] = [
      [{ name: 'x', url: 'https://ann:hunter2@example.com/a/b' }, 400, /url/],
      [{ name: 'x', url: 'https://hunter2@example.com/a/b' }, 400, /url/],
      [{ name: 'x', url: 'file:///etc' }, 400, /url/],
      [{ name: 'x' }, 400, /url and path/],
      [{ name: 'x', url: 'https://example.com/a', path: '/a' }, 400, /url and path/],
      [{ name: 'x', path: 'relative' }, 400, /path/],
      [{ name: 'a b', url: 'https://example.com/a' }, 400, /name/],
      [{ name: 'x', url: 'https://example.com/a', intervalSeconds: 0 }, 400, /intervalSeconds/],
      [{ name: 'x', url: 'https://example.com/a', root: '../up' }, 400, /root/],
      [{ name: 'x', url: 'https://example.com/a', colour: 'red' }, 400, /colour/],
      [{ name: '..', url: 'https://example.com/a' }, 400, /name/],
      [{ name: 'x', url: 'https://example.com/a', verify: { keys: [signer, 'nonsense'] } }, 400, /verify\.keys\[1\]/],
    ];
    for (const [body, status, names] of cases) {
      const answer = await bench.daemon.api('POST', 'P/repositories', body);
      assert.equal(answer.status, status, JSON.stringify(body));
      assert.match(JSON.stringify(answer.body), names);
      assert.doesNotMatch(JSON.stringify(answer.body), /hunter2/);
    }
    const repo = await bench.repository('taken');
    await repo.commit({ '.svc/agents/a.yaml': agentFile('taken') });
    await bench.watch('taken');
    const again = await bench.daemon.api('POST', 'P/repositories', { name: 'taken', url: 'https://example.com/a' });
    assert.equal(again.status, 409);
  });

  it('tells what is wrong and what to do', async () => {
    const body = { name: 'absent', url: bench.server.url('absent.git'), auth: { kind: 'token', secretRef: 'no-such' } };
    await bench.daemon.api('POST', 'P/repositories', body);
    const failed = await settled(bench.daemon, 'absent');
    assert.deepEqual([word(failed['status']), word(failed['condition'])].slice(0, 1), ['failed']);
    const { body: found } = await bench.daemon.api('GET', 'P/doctor');
    assert.match(JSON.stringify(found), /absent/);
    assert.match(JSON.stringify(found), /no-such/);
    const repo = await bench.repository('garbled');
    await repo.commit({ '.svc/agents/a.yaml': agentFile('garbled') });
    bench.server.fault = ({ path }) =>
      path.startsWith('/garbled') ? { kind: 'replace', body: () => Buffer.from('zzzz') } : null;
    await bench.watch('garbled');
    bench.server.fault = () => null;
    const { checks } = (await bench.daemon.api('GET', 'P/doctor')).body as unknown as { checks: JsonBody[] };
    const garbled = checks.find((check) => word(check['message']).startsWith('repository garbled'));
    assert.match(word(garbled?.['message']), /\(corrupt, 1 in a row\)/);
    assert.match(word(garbled?.['hint']), /git fsck/);
  });

  it('a source that fails backs off on its own and delays no other', async () => {
    const server = bench.server;
    const repo = await bench.repository('lively');
    await repo.commit({ '.svc/agents/a.yaml': agentFile('lively-one') });
    await bench.watch('lively', { intervalSeconds: 1 });
    const sick = await bench.repository('sick');
    await sick.commit({ '.svc/agents/a.yaml': agentFile('sick') });
    await bench.watch('sick', { intervalSeconds: 1 });
    server.fault = (request) => (request.path.includes('sick') ? { kind: 'status', status: 503 } : null);
    await until('several failures', async () => Number((await repositoryOf('sick'))['failures']) >= 2);
    const commit = await repo.commit({ '.svc/agents/a.yaml': agentFile('lively-two') });
    await settled(bench.daemon, 'lively', (latest) => word(latest['commit']) === commit);
    const shown = await repositoryOf('sick');
    assert.equal(word(shown['condition']), 'unreachable');
    assert.ok(await has('sick'));
    const conditions = (await runsOf(bench.daemon, 'sick')).filter((one) => one['condition'] !== undefined);
    assert.equal(conditions.length, 1, 'the same condition is told once');
    server.fault = () => null;
    assert.equal(word((await syncNow(bench.daemon, 'sick'))['status']), 'unchanged');
    assert.equal(Number((await repositoryOf('sick'))['failures']), 0);
  });

  it('tells each change of a run on the stream, and resumes after the last event', async () => {
    const repo = await bench.repository('told');
    await repo.commit({ '.svc/agents/a.yaml': agentFile('told-one') });
    await bench.watch('told');
    const { url, token } = bench.daemon;
    const stream = `${url}/api/v1/orgs/default/projects/default/reconciles/stream?repository=told`;
    const opened = Promise.withResolvers<void>();
    const read = async (headers: Record<string, string>, enough: (text: string) => boolean): Promise<string> => {
      const stop = new AbortController();
      const late = setTimeout(() => stop.abort(), 120_000);
      const response = await fetch(stream, {
        headers: { authorization: `Bearer ${token}`, ...headers },
        signal: stop.signal,
      });
      assert.equal(response.status, 200);
      opened.resolve();
      let text = '';
      const decoder = new TextDecoder();
      for await (const chunk of response.body ?? []) {
        text += decoder.decode(chunk as Uint8Array, { stream: true });
        if (enough(text)) break;
      }
      clearTimeout(late);
      stop.abort();
      return text;
    };
    const reading = read({}, (text) => text.includes('"status":"applied"'));
    await repo.commit({ '.svc/agents/a.yaml': agentFile('told-two') });
    // The stream holds whatever happens after it was answered.
    await opened.promise;
    await syncNow(bench.daemon, 'told');
    const text = await reading;
    assert.match(text, /"name":"resolve"/);
    const ids = [...text.matchAll(/^id: (\d+)$/gm)].map((match) => Number(match[1]));
    assert.deepEqual(
      ids,
      ids.toSorted((a, b) => a - b),
    );
    const resumed = await read({ 'last-event-id': String((ids[0] ?? 1) - 1) }, (more) =>
      more.includes('"status":"applied"'),
    );
    assert.match(resumed, /told/);
  });

  it('is shared by two daemons of one database', async () => {
    const second = await startTestDaemon({
      database: bench.daemon.database,
      token: bench.daemon.token,
      config: { allowPrivateNetwork: true, masterKeyFile: join(bench.daemon.dataDir, 'master.key') },
    });
    try {
      const repo = await bench.repository('shared');
      await repo.commit({ '.svc/agents/a.yaml': agentFile('shared-0') });
      await bench.watch('shared', { intervalSeconds: 1 });
      let last = '';
      for (let index = 1; index <= 8; index += 1) {
        last = await repo.commit({ '.svc/agents/a.yaml': agentFile(`shared-${index}`) });
        const on = index % 2 === 0 ? second : bench.daemon;
        await on.api('POST', 'P/repositories/shared/sync');
      }
      await settled(
        bench.daemon,
        'shared',
        (latest) => word(latest['commit']) === last && /^(applied|unchanged)$/.test(word(latest['status'])),
      );
      assert.deepEqual(
        (await agentNames(bench.daemon)).filter((name) => name.startsWith('shared-')),
        ['shared-8'],
      );
      const { rows } = await bench.daemon.ctx.db.query<{ n: number }>(
        `select count(*)::int as n from svc.reconciles where status = 'running' and repository_name = 'shared'`,
      );
      assert.deepEqual(rows, [{ n: 0 }]);
    } finally {
      await second.stop();
    }
  });

  it('a newer commit supersedes a run that is still reading', async () => {
    const repo = await bench.repository('overtaken');
    await repo.commit({ '.svc/agents/a.yaml': agentFile('overtaken-0') });
    await bench.watch('overtaken');
    const one = await repo.commit({ '.svc/agents/a.yaml': agentFile('overtaken-1') });
    const { promise: read, resolve: goOn } = Promise.withResolvers<void>();
    let holds = true;
    bench.server.fault = (request) =>
      holds && request.path.includes('overtaken') && request.path.endsWith('git-upload-pack') && request.bytesUp > 150
        ? { kind: 'hold', until: read }
        : null;
    const first = await act('overtaken', 'sync');
    const firstId = word(first.body['reconcileId']);
    await until(
      'its commit',
      async () => word((await bench.daemon.api('GET', `P/reconciles/${firstId}`)).body['commit']) === one,
    );
    holds = false;
    const two = await repo.commit({ '.svc/agents/a.yaml': agentFile('overtaken-2') });
    const run2 = await run('overtaken', 'sync');
    assert.deepEqual([word(run2['status']), word(run2['commit'])], ['applied', two], JSON.stringify(run2));
    goOn();
    assert.equal(word((await ended(bench.daemon, firstId))['status']), 'superseded');
    bench.server.fault = () => null;
    assert.ok(await has('overtaken-2'));
  });
});
