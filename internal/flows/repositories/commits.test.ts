import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import type { TestDaemon } from '../../base/testkit/daemon.ts';
import type { GitFixture } from '../../base/testkit/git-fixture.ts';
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
} from '../sync/sync-testkit.ts';

const broken = { '.svc/agents/a.yaml': 'name: a\nharness: nonsense\n' };

describe('going back', () => {
  let bench: Bench;
  before(async () => {
    bench = await startBench();
  });
  after(() => bench.stop());
  const act = (name: string, action: string, body?: object) =>
    bench.daemon.api('POST', `P/repositories/${name}/${action}`, body);
  const shown = async (name: string) => (await bench.daemon.api('GET', `P/repositories/${name}`)).body;

  it('leaves what runs where the newest commit is not what runs, and says what that is', async () => {
    const repo = await bench.repository('bad-head');
    await repo.commit({ '.svc/agents/a.yaml': agentFile('bad-one') });
    await bench.watch('bad-head');
    const good = await repo.commit({ '.svc/agents/a.yaml': agentFile('bad-two') });
    await syncNow(bench.daemon, 'bad-head');
    const bad = await repo.commit(broken);
    assert.equal(word((await syncNow(bench.daemon, 'bad-head'))['status']), 'failed');
    const { status, body } = await act('bad-head', 'rollback', {});
    assert.deepEqual([status, word(body['code'])], [409, 'nothing-to-roll-back']);
    assert.match(word(body['detail']), new RegExp(`${bad}.*${good} runs`));
    assert.deepEqual(
      (await agentNames(bench.daemon)).filter((name) => name.startsWith('bad-')),
      ['bad-two'],
    );
    assert.equal((await shown('bad-head'))['quarantinedCommit'], null);
  });

  it('goes past commits that changed nothing, step by step, and the branch stays set aside until it is released', async () => {
    const repo = await bench.repository('steps');
    const commits: string[] = [];
    for (const version of ['one', 'two', 'three']) {
      commits.push(await repo.commit({ '.svc/agents/a.yaml': agentFile(`steps-${version}`) }));
      if (version === 'one') await bench.watch('steps');
      else await syncNow(bench.daemon, 'steps');
    }
    const [one, two] = commits;
    const head = await repo.commit({ 'README.md': 'words\n' });
    assert.equal(word((await syncNow(bench.daemon, 'steps'))['commit']), head);
    const back = async (): Promise<string[]> => {
      const { status, body } = await act('steps', 'rollback', {});
      assert.equal(status, 202, JSON.stringify(body));
      await ended(bench.daemon, word(body['reconcileId']));
      return [word(body['from']), word(body['to'])];
    };
    assert.deepEqual(await back(), [head, two], 'what the reader changed is not undone by a step that changes nothing');
    assert.deepEqual(await back(), [two, one]);
    assert.equal((await act('steps', 'rollback', {})).status, 409);
    assert.equal(word((await shown('steps'))['quarantinedCommit']), head);
    assert.equal(word((await syncNow(bench.daemon, 'steps'))['status']), 'quarantined');
    const { status, body } = await act('steps', 'release');
    assert.equal(status, 202, JSON.stringify(body));
    const run = await ended(bench.daemon, word(body['reconcileId']));
    assert.deepEqual([word(run['status']), word(run['commit'])], ['applied', head]);
    assert.equal((await shown('steps'))['quarantinedCommit'], null);
    assert.equal(word((await act('steps', 'release')).body['code']), 'nothing-quarantined');
  });

  it('the first commit after it can be let through where the guard holds it', async () => {
    const { daemon } = bench;
    const repo = await bench.repository('let-through');
    await repo.commit({ '.svc/agents/a.yaml': agentFile('through-one') });
    await bench.watch('let-through');
    await repo.commit({ '.svc/agents/b.yaml': agentFile('through-two') });
    await syncNow(daemon, 'let-through');
    await ended(daemon, word((await act('let-through', 'rollback', {})).body['reconcileId']));
    const { quarantinedCommit, generation } = await shown('let-through');
    assert.notEqual(quarantinedCommit, null);
    await repo.commit({ '.svc/agents/a.yaml': null, '.svc/agents/b.yaml': null, 'README.md': 'words' });
    const held = await syncNow(daemon, 'let-through');
    assert.equal(word(held['status']), 'held');
    const after = await shown('let-through');
    assert.deepEqual([after['quarantinedCommit'], after['generation']], [null, generation], 'no setting of a person');
    const { status, body } = await act('let-through', 'approve', { reconcileId: word(held['id']) });
    assert.equal(status, 202, JSON.stringify(body));
    assert.equal(word((await ended(daemon, word(body['reconcileId'])))['status']), 'applied');
  });

  it('tells no step apart over rows that were put right again', async () => {
    const { daemon } = bench;
    const repo = await bench.repository('edited');
    const one = await repo.commit({ '.svc/agents/a.yaml': agentFile('edited-one') });
    await bench.watch('edited');
    await repo.commit({ '.svc/agents/a.yaml': agentFile('edited-two') });
    await syncNow(daemon, 'edited');
    const edit = `update svc.agents set spec = jsonb_set(spec, '{harness}', '"harness-b"') where name = 'edited-two'`;
    await daemon.ctx.db.query(edit);
    assert.equal(word((await syncNow(daemon, 'edited'))['status']), 'applied');
    await repo.commit({ 'README.md': 'words' });
    assert.equal(word((await syncNow(daemon, 'edited'))['status']), 'unchanged');
    const { body } = await act('edited', 'rollback', {});
    assert.equal(word(body['to']), one, 'not the commit whose state runs');
    assert.equal(word((await ended(daemon, word(body['reconcileId'])))['status']), 'applied');
  });

  it('can be tried again where what it applies lacks something', async () => {
    const { daemon } = bench;
    const put = () => daemon.api('PUT', 'P/secrets/OLD', { value: 'long-enough-secret' });
    await put();
    const repo = await bench.repository('lacks');
    const one = await repo.commit({ '.svc/agents/a.yaml': agentFile('lacks', 'env: { X: { $secret: OLD } }') });
    await bench.watch('lacks');
    const two = await repo.commit({ '.svc/agents/a.yaml': agentFile('lacks') });
    await syncNow(daemon, 'lacks');
    assert.equal((await daemon.api('DELETE', 'P/secrets/OLD')).status, 204);
    const back = async () => {
      const { status, body } = await act('lacks', 'rollback', {});
      assert.equal(status, 202, JSON.stringify(body));
      return ended(daemon, word(body['reconcileId']));
    };
    assert.equal(word((await back())['status']), 'failed');
    const { appliedCommit, seenCommit } = await shown('lacks');
    assert.deepEqual([word(appliedCommit), word(seenCommit)], [two, two], 'the newest commit is what it was');
    await put();
    const run = await back();
    assert.deepEqual([word(run['status']), word(run['commit'])], ['applied', one]);
  });

  it('says nothing of a source that it has not asked', async () => {
    const { daemon, server } = bench;
    const repo = await bench.repository('away');
    await repo.commit({ '.svc/agents/a.yaml': agentFile('away-one') });
    await bench.watch('away');
    await repo.commit({ '.svc/agents/a.yaml': agentFile('away-two') });
    await syncNow(daemon, 'away');
    server.fault = ({ path }) => (path.startsWith('/away.git') ? { kind: 'status', status: 503 } : null);
    assert.equal(word((await syncNow(daemon, 'away'))['condition']), 'unreachable');
    const { body } = await act('away', 'rollback', {});
    assert.equal(word((await ended(daemon, word(body['reconcileId'])))['status']), 'applied');
    const { condition, failures } = await shown('away');
    assert.deepEqual([word(condition), Number(failures)], ['unreachable', 1]);
    // Two more of its repositories: it is left alone.
    for (const name of ['away-two', 'away-three']) {
      server.fault = ({ path }) => (path.startsWith('/away') ? { kind: 'status', status: 503 } : null);
      await bench.watch(name);
    }
    const pauses = async () => (await daemon.ctx.db.query('select from svc.server_pauses')).rows.length;
    assert.equal(await pauses(), 1);
    const { body: released } = await act('away', 'rollback', { commit: word(body['to']) });
    assert.equal(word((await ended(daemon, word(released['reconcileId'])))['status']), 'unchanged');
    await act('away', 'pin', { commit: word(body['to']) });
    await settled(daemon, 'away', (run) => word(run['act']) === 'pin');
    assert.equal(await pauses(), 1, 'nor does it end the pause of the server');
    await act('away', 'unpin');
    server.fault = () => null;
    await syncNow(daemon, 'away');
    assert.deepEqual([(await shown('away'))['condition'], await pauses()], [null, 0]);
  });

  it('a newer commit ends the quarantine also when it fails', async () => {
    const repo = await bench.repository('newer');
    await repo.commit({ '.svc/agents/a.yaml': agentFile('newer-one') });
    await bench.watch('newer');
    await repo.commit({ '.svc/agents/a.yaml': agentFile('newer-two') });
    await syncNow(bench.daemon, 'newer');
    await ended(bench.daemon, word((await act('newer', 'rollback', {})).body['reconcileId']));
    assert.notEqual((await shown('newer'))['quarantinedCommit'], null);
    await repo.commit(broken);
    assert.equal(word((await syncNow(bench.daemon, 'newer'))['status']), 'failed');
    assert.equal((await shown('newer'))['quarantinedCommit'], null);
  });
});

/** Two commits whose ids begin alike, of one tree. */
async function twins(repo: GitFixture): Promise<readonly [string, string]> {
  const files = { '.svc/agents/a.yaml': agentFile('twin') };
  const first = await repo.commit(files);
  const text = await repo.git(['cat-file', 'commit', first]);
  for (let count = 0; ; count += 1) {
    const other = `${text}\n${count}\n`;
    const id = createHash('sha1')
      .update(`commit ${Buffer.byteLength(other)}\0${other}`)
      .digest('hex');
    if (id.slice(0, 4) === first.slice(0, 4)) return [first, await repo.writeObject('commit', Buffer.from(other))];
  }
}

describe('the beginning of a commit id', () => {
  let bench: Bench;
  before(async () => {
    bench = await startBench();
  });
  after(() => bench.stop());

  it('that several applied commits have is none of them, for a rollback as for a pin', async () => {
    const { daemon } = bench;
    const repo = await bench.repository('twin');
    const [one, two] = await twins(repo);
    await bench.watch('twin');
    await repo.git(['update-ref', 'refs/heads/main', two]);
    assert.equal(word((await syncNow(daemon, 'twin'))['commit']), two);
    for (const action of ['pin', 'rollback', 'rollback?dryRun=true']) {
      const act = (commit: string) => daemon.api('POST', `P/repositories/twin/${action}`, { commit });
      const { status, body } = await act(one.slice(0, 4));
      assert.deepEqual([status, word(body['code'])], [400, 'invalid-body'], action);
      assert.match(word(body['detail']), /several commits begin with/);
    }
    const exact = await daemon.api('POST', 'P/repositories/twin/rollback', { commit: one });
    assert.deepEqual([exact.status, word(exact.body['to'])], [202, one]);
    const unknown = await daemon.api('POST', 'P/repositories/twin/rollback', { commit: '0123456' });
    assert.deepEqual([unknown.status, word(unknown.body['code'])], [409, 'nothing-to-roll-back']);
  });
});

describe('what was missing and is there again', () => {
  let bench: Bench;
  before(async () => {
    bench = await startBench();
  });
  after(() => bench.stop());
  const hook = (endpoint: string, auth: string): string[] => [
    'triggers:',
    '  - event: webhook.in',
    `    endpoint: ${endpoint}`,
    ...(auth === '' ? [] : [`    auth: ${auth}`]),
    '    message: hello',
    '    routing: { kind: spawn }',
  ];

  it('a secret made again heals what failed for want of it, without anybody asking', async () => {
    const { daemon } = bench;
    const put = () => daemon.api('PUT', 'P/secrets/HOOK', { value: 'long-enough-secret' });
    await put();
    const repo = await bench.repository('secretive');
    const files = {
      '.svc/agents/a.yaml': agentFile('secretive', ...hook('in', '{ kind: hmac_sha256, secretRef: HOOK }')),
    };
    await repo.commit(files);
    assert.equal(word((await bench.watch('secretive'))['status']), 'applied');
    assert.equal((await daemon.api('DELETE', 'P/secrets/HOOK')).status, 204);
    await settled(daemon, 'secretive', (run) => word(run['status']) === 'failed');
    await put();
    const healed = await settled(daemon, 'secretive', (run) => word(run['status']) !== 'failed');
    assert.equal(word(healed['status']), 'unchanged');
    assert.equal(word((await daemon.api('GET', 'P/repositories/secretive')).body['status']), 'unchanged');
  });

  it('a secret that came while nobody looked heals what is resumed', async () => {
    const { daemon } = bench;
    const act = (action: string) => daemon.api('POST', `P/repositories/asleep/${action}`);
    const patch = (suspended: boolean) => daemon.api('PATCH', 'P/repositories/asleep', { suspended });
    const repo = await bench.repository('asleep');
    const needs = (secret: string) => agentFile('asleep', `env: { X: { $secret: ${secret} } }`);
    for (const [secret, suspend, resume] of [
      ['FIRST', () => act('suspend'), () => act('resume')],
      ['SECOND', () => patch(true), () => patch(false)],
    ] as const) {
      await repo.commit({ '.svc/agents/a.yaml': needs(secret) });
      if (secret === 'FIRST') await bench.watch('asleep');
      else await syncNow(daemon, 'asleep');
      assert.equal(word((await runsOf(daemon, 'asleep'))[0]?.['status']), 'failed');
      await suspend();
      await daemon.api('PUT', `P/secrets/${secret}`, { value: 'long-enough-secret' });
      await resume();
      await settled(daemon, 'asleep', (run) => word(run['status']) === 'applied');
    }
  });

  it('a secret that a source is read with heals the source', async () => {
    const { daemon, server } = bench;
    const repo = await bench.repository('locked');
    await repo.commit({ '.svc/agents/a.yaml': agentFile('locked-a') });
    server.options = { ...server.options, auth: { tokens: ['good-token'] } };
    const run = await bench.watch('locked', { auth: { kind: 'token', secretRef: 'READ' } });
    assert.equal(word(run['condition']), 'auth-failed');
    await daemon.api('PUT', 'P/secrets/READ', { value: 'good-token' });
    await settled(daemon, 'locked', (latest) => word(latest['status']) === 'applied');
    server.options = { root: server.options.root };
    assert.equal((await daemon.api('GET', 'P/repositories/locked')).body['condition'], null);
  });

  it('an endpoint that another tree makes heals a tree that names it', async () => {
    const { daemon } = bench;
    const repo = await bench.repository('names-it');
    await repo.commit({ '.svc/agents/a.yaml': agentFile('names-it', ...hook('late', '')) });
    assert.equal(word((await bench.watch('names-it'))['status']), 'failed');
    const maker = await bench.repository('makes-it');
    await maker.commit({ '.svc/agents/b.yaml': agentFile('makes-it', ...hook('late', '{ kind: none }')) });
    assert.equal(word((await bench.watch('makes-it'))['status']), 'applied');
    await settled(daemon, 'names-it', (run) => word(run['status']) === 'applied');
  });
});

describe('folders of the machine', () => {
  let root: string;
  before(async () => {
    root = await mkdtemp(join(tmpdir(), 'svc-roots-'));
    for (const name of ['allowed/app/.svc/agents', 'other/.svc/agents']) {
      await mkdir(join(root, name), { recursive: true });
      await writeFile(join(root, name, 'a.yaml'), agentFile(name.startsWith('a') ? 'inside' : 'outside'));
    }
    await symlink(join(root, 'other'), join(root, 'allowed/link'));
  });
  after(() => rm(root, { recursive: true, force: true }));
  const add = async (daemon: TestDaemon, name: string, path: string, token?: string) => {
    const { status, body } = await daemon.api(
      'POST',
      'P/repositories',
      { name, path, intervalSeconds: 3600 },
      token === undefined ? {} : { token },
    );
    return { status, told: JSON.stringify({ ...body, requestId: undefined }) };
  };

  it('are those below the roots that are configured, whoever asks and whatever exists', async () => {
    const bench = await startBench({ config: { file: { sources: { folders: [join(root, 'allowed')] } } } });
    try {
      const { daemon } = bench;
      assert.equal((await add(daemon, 'in', join(root, 'allowed/app'))).status, 201);
      assert.equal(word((await settled(daemon, 'in'))['status']), 'applied');
      const refused = await add(daemon, 'a', join(root, 'other'));
      assert.match(refused.told, /folder-not-allowed/);
      for (const path of ['nowhere', 'allowed/../other', 'allowed/link', 'allowed-not']) {
        assert.deepEqual(await add(daemon, 'a', `${root}/${path}`), refused, path);
      }
      const { status } = await daemon.api('PATCH', 'P/repositories/in', { path: join(root, 'other') });
      assert.equal(status, 403);
      // A link that turns up afterwards leads nowhere either.
      await symlink(join(root, 'other'), join(root, 'allowed/app/way'));
      assert.equal((await add(daemon, 'later', join(root, 'allowed/soon'))).status, 201);
      await symlink(join(root, 'other'), join(root, 'allowed/soon'));
      assert.equal(word((await syncNow(daemon, 'later'))['condition']), 'hostile');
    } finally {
      await bench.stop();
    }
  });

  it('are without a setting for who administers the first organization alone', async () => {
    const bench = await startBench();
    try {
      const { daemon } = bench;
      const org = '/api/v1/orgs/default';
      const email = 'lee@example.test';
      const lee = await daemon.api('POST', `${org}/members`, { email, role: 'member' });
      assert.equal(lee.status, 201, JSON.stringify(lee.body));
      const token = await daemon.api('POST', `${org}/tokens`, { email, name: 't' });
      const { principalId } = { principalId: word(lee.body['principalId'] ?? lee.body['id']) };
      const made = await daemon.api('POST', 'P/members', { principalId, role: 'admin' });
      assert.equal(made.status, 201, JSON.stringify(made.body));
      const refused = await add(daemon, 'a', join(root, 'other'), word(token.body['token']));
      assert.equal(refused.status, 403, refused.told);
      assert.deepEqual(await add(daemon, 'a', join(root, 'nowhere'), word(token.body['token'])), refused);
      assert.equal((await add(daemon, 'a', join(root, 'other'))).status, 201);
      await until('its run', async () => (await runsOf(daemon, 'a')).length > 0);
    } finally {
      await bench.stop();
    }
  });
});
