import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { runGit } from '../../base/testkit/git-fixture.ts';
import type { GitRoute } from '../../flows/ports.ts';
import type { Mount } from '../../domain/spec.ts';
import { type CodehostBench, everything, startCodehostBench } from '../mcp/codehost-testkit.ts';
import { callerOf } from '../../flows/tools/tools.ts';
import { createGitRoutes } from './gitproxy.ts';

const most = 200_000;

describe('git of a session’s mounts', () => {
  let bench: CodehostBench;
  let session: string;
  let token: string;
  let route: GitRoute;
  let routes: ReturnType<typeof createGitRoutes>;
  let dir: string;
  before(async () => {
    bench = await startCodehostBench();
    await bench.sim.repository('acme/secret');
    await bench.sim.repository('acme/reads');
    await bench.sim.repository('acme/none');
    const seat = await bench.agent('worker', {
      'acme/app': everything,
      'acme/reads': { contents: 'read' },
      'acme/none': { contents: 'none' },
    });
    session = seat.session;
    token = seat.token;
    routes = createGitRoutes(() => bench.daemon.ctx, { pushMaxBytes: most });
    const caller = (await callerOf(bench.daemon.ctx, seat.session, seat.token)) ?? assert.fail();
    const { sessionId, agent, project, spec } = caller;
    assert.equal((spec.mounts as readonly Mount[]).length, 3);
    route = await routes.open({ sessionId, agent, project, spec });
    dir = await mkdtemp(join(tmpdir(), 'svc-git-'));
    await git(dir, 'clone', '-q', `${route.baseUrl()}/acme/app.git`, 'app');
  });
  after(async () => {
    await routes.stop();
    await bench.stopAll();
    await rm(dir, { recursive: true, force: true });
  });
  const git = async (cwd: string, ...args: string[]): Promise<string> =>
    (await runGit(args, { cwd })).toString('utf8').trim();
  const commit = async (name: string, content: string | Uint8Array): Promise<string> => {
    await writeFile(join(dir, 'app', name), content);
    await git(join(dir, 'app'), 'add', '.');
    await git(join(dir, 'app'), 'commit', '-q', '-m', name);
    return git(join(dir, 'app'), 'rev-parse', 'HEAD');
  };
  const pushes = async () => {
    const { body } = await bench.daemon.api('GET', `P/sessions/${session}/calls?limit=100`);
    const items = body['items'] as unknown as {
      alias: string;
      tool: string;
      write: boolean;
      status: string;
      code?: string;
    }[];
    return items
      .filter((one) => one.alias === 'git')
      .map(({ tool, write, status, code }) => [tool, write, status, code]);
  };

  const none = '0'.repeat(40);
  /** What git would send, line by line; nothing behind it. Resolves to what it is told. */
  const push = async (...lines: string[]): Promise<string> => {
    const line = (text: string): string => (text.length + 4).toString(16).padStart(4, '0') + text;
    const address = `${route.baseUrl()}/acme/app.git/git-receive-pack`;
    const headers = { 'content-type': 'application/x-git-receive-pack-request' };
    const body = `${lines.map(line).join('')}0000`;
    return (await fetch(address, { method: 'POST', headers, body })).text();
  };

  it('fetches and pushes with the system’s git, and a push is a row', async () => {
    const sha = await commit('new.txt', 'new\n');
    await git(join(dir, 'app'), 'push', '-q', 'origin', 'HEAD:refs/heads/topic');
    assert.equal(await bench.app.branch('topic'), sha);
    assert.deepEqual(await pushes(), [['push', true, 'done', undefined]]);
    await bench.app.git.commit({ 'up.txt': 'x' });
    await git(join(dir, 'app'), 'fetch', '-q');
    assert.equal(await git(join(dir, 'app'), 'rev-parse', 'origin/main'), await bench.app.branch('main'));
    assert.equal((await pushes()).length, 1, 'a fetch has none');
    const config = await git(join(dir, 'app'), 'config', '--get', 'remote.origin.url');
    assert.equal(config, `${route.baseUrl()}/acme/app.git`);
  });

  it('mints for the one repository: to read for a fetch, to write for a push', () => {
    const scopes = [...bench.sim.tokens.values()].map((one) => [one.repositories, one.permissions['contents']]);
    assert.deepEqual(
      new Set(scopes.map((one) => JSON.stringify(one))),
      new Set(['[["app"],"read"]', '[["app"],"write"]']),
    );
  });

  it('refuses what the mount does not have, with a line that says so', async () => {
    await git(dir, 'clone', '-q', `${route.baseUrl()}/acme/reads.git`, 'reads');
    await git(join(dir, 'reads'), 'commit', '-q', '--allow-empty', '-m', 'x');
    await assert.rejects(
      git(join(dir, 'reads'), 'push', 'origin', 'HEAD:x'),
      /does not have the capability contents: write/,
    );
    await assert.rejects(
      git(dir, 'clone', `${route.baseUrl()}/acme/none.git`, 'none'),
      /does not have the capability contents: read/,
    );
    assert.deepEqual((await pushes())[0], ['push', true, 'refused', 'capability-missing']);
  });

  it('knows the mounts’ repositories and no other, in whatever spelling', async () => {
    const before = bench.sim.log.length;
    const spellings = [
      'acme/secret.git',
      'acme/secret',
      'ACME/Secret.git',
      'acme/app.git/../secret.git',
      'acme%2fapp.git',
      'acme/%61pp.git',
      'acme/app%2egit',
      'acme//app.git',
      'acme/app.git.git',
      'x/acme/app.git',
      'acme/app.gi',
      'acme/app\u212A.git',
      'acme/..%2fapp.git',
    ];
    for (const one of spellings) {
      const answer = await fetch(`${route.baseUrl()}/${one}/info/refs?service=git-upload-pack`);
      assert.equal(answer.status, 404, one);
      await answer.text();
    }
    assert.equal(bench.sim.log.length, before, 'nobody was asked');
    for (const [path, method] of [
      ['acme/app.git/HEAD', 'GET'],
      ['acme/app.git/objects/info/packs', 'GET'],
      ['acme/app.git/info/refs', 'GET'],
      ['acme/app.git/git-upload-pack', 'GET'],
    ] as const) {
      assert.equal((await fetch(`${route.baseUrl()}/${path}`, { method })).status, 404, path);
    }
    const upper = await fetch(`${route.baseUrl()}/ACME/App.git/info/refs?service=git-upload-pack`);
    assert.equal(upper.status, 200, 'the code host does not tell cases apart either');
    await upper.text();
  });

  it('bounds what is pushed, and says so', async () => {
    const bytes = new Uint8Array(most * 3);
    for (let at = 0; at < bytes.length; at += 65_536) crypto.getRandomValues(bytes.subarray(at, at + 65_536));
    await commit('large.bin', bytes);
    await assert.rejects(
      git(join(dir, 'app'), 'push', 'origin', 'HEAD:refs/heads/large'),
      /a push has at most 200000 bytes/,
    );
    await assert.rejects(
      git(join(dir, 'app'), '-c', 'http.postBuffer=1000000000', 'push', 'origin', 'HEAD:refs/heads/large'),
      /a push has at most 200000 bytes/,
    );
    assert.equal(await bench.app.branch('large'), undefined);
    assert.deepEqual((await pushes()).slice(0, 2), [
      ['push', true, 'refused', 'too-large'],
      ['push', true, 'refused', 'too-large'],
    ]);
    await git(join(dir, 'app'), 'reset', '-q', '--hard', 'HEAD~1');
  });

  it('says of very many refs that none was taken, in packets that git reads', async () => {
    const names = Array.from({ length: 2_500 }, (_, at) => `refs/heads/many-${at}`);
    const lines = names.map(
      (name, at) => `${none} ${'1'.repeat(40)} ${name}${at === 0 ? '\0report-status side-band-64k' : ''}`,
    );
    const said = await push(...lines);
    let report = '';
    for (let at = 0, length = 1; length > 0; at += length) {
      length = Number.parseInt(said.slice(at, at + 4), 16);
      assert.ok(length <= 65_520, `a packet of ${length} bytes at ${at}`);
      if (said[at + 4] === '\x01') report += said.slice(at + 5, at + length);
    }
    for (const name of names) assert.ok(report.includes(`ng ${name} too-large\n`), name);
    assert.equal(report.slice(-4), '0000');
    assert.deepEqual((await pushes())[0], ['push', true, 'refused', 'too-large']);
  });

  it('looks again where the answer to a push is lost', async () => {
    const sha = await commit('lost.txt', 'lost\n');
    bench.sim.fault = ({ operation, method }) =>
      operation === 'git push' && method === 'POST' ? { kind: 'lose' } : null;
    await git(join(dir, 'app'), 'push', '-q', 'origin', 'HEAD:refs/heads/lost');
    bench.sim.fault = () => null;
    assert.equal(await bench.app.branch('lost'), sha);
    assert.deepEqual((await pushes())[0], ['push', true, 'done', undefined]);
  });

  it('notes a push in whatever spelling, and passes nothing on that it does not understand', async () => {
    const sha = await commit('spelled.txt', 'spelled\n');
    await git(join(dir, 'app'), 'push', '-q', 'origin', 'HEAD:refs/heads/spelled', 'HEAD:refs/heads/kept');
    const before = (await pushes()).length;
    await push(`${sha.toUpperCase()} ${none} refs/heads/spelled\0report-status`);
    assert.equal(await bench.app.branch('spelled'), undefined, 'deleted');
    assert.equal((await pushes()).length, before + 1);
    assert.deepEqual((await pushes())[0], ['push', true, 'done', undefined]);
    const kept = `${sha} ${none} refs/heads/kept`;
    const asked = bench.sim.log.length;
    for (const odd of [
      [`${kept}\n\n`],
      ['push-cert\0report-status', kept],
      [`shallow ${sha}`],
      ['x', kept],
      [` ${kept}`],
    ]) {
      assert.match(await push(...odd), odd[0]?.startsWith('push-cert') ? /push without --signed/ : /no push of git/);
      assert.deepEqual((await pushes())[0], ['push', true, 'refused', 'refused'], odd[0]);
    }
    assert.equal((await pushes()).length, before + 6);
    assert.equal(bench.sim.log.length, asked, 'nobody was asked');
    await push(`${sha} ${none} __proto__\0report-status`);
    assert.deepEqual([(await pushes()).length, (await pushes())[0]?.[2]], [before + 7, 'refused']);
    assert.equal(await bench.app.branch('kept'), sha);
  });

  it('notes a push of which the code host took nothing as refused, with and without a side band', async () => {
    const main = await bench.app.branch('main');
    for (const capabilities of ['report-status', 'report-status side-band-64k']) {
      const before = (await pushes()).length;
      await push(`${'1'.repeat(40)} ${none} refs/heads/main\0${capabilities}`);
      assert.deepEqual(
        [(await pushes()).length, (await pushes())[0]],
        [before + 1, ['push', true, 'refused', 'refused']],
      );
    }
    assert.equal(await bench.app.branch('main'), main);
  });

  it('bounds what the code host answers to the question that git asks before a push', async () => {
    await push();
    const address = `${route.baseUrl()}/acme/app.git/git-receive-pack`;
    const body = { text: 'x'.repeat(5 * 1024 * 1024) };
    bench.sim.fault = ({ operation, method }) =>
      operation === 'git push' && method === 'POST' ? { kind: 'status', status: 200, body } : null;
    const answer = await fetch(address, { method: 'POST', body: '0000' });
    bench.sim.fault = () => null;
    const said = (await answer.text()).slice(0, 40);
    assert.deepEqual([answer.status, said.split(':')[1]], [502, ' provider-unavailable']);
  });

  it('tells git within 5 s that the database does not answer, of a fetch and of a push', async () => {
    const { git: ways } = bench.daemon.ctx;
    const caller = (await callerOf(bench.daemon.ctx, session, token)) ?? assert.fail();
    const { sessionId, agent, project, spec } = caller;
    const own = (await ways?.open({ sessionId, agent, project, spec })) ?? assert.fail();
    const look = async (service: string): Promise<[number, string]> => {
      const answer = await fetch(`${own.baseUrl()}/acme/app.git/info/refs?service=${service}`);
      return [answer.status, await answer.text()];
    };
    const before = (await pushes()).length;
    const line = 'svc: unavailable: The database cannot be reached at the moment; try again.\n';
    const said = await bench.daemon.database.db.tx(async (tx) => {
      await tx.query('lock table svc.connections, svc.calls in access exclusive mode');
      return Promise.all(['git-upload-pack', 'git-receive-pack'].map(look));
    });
    assert.deepEqual(said, [
      [503, line],
      [503, line],
    ]);
    assert.equal((await look('git-upload-pack'))[0], 200);
    assert.equal((await pushes()).length, before);
    await own.close();
  });

  it('stops though the code host does not answer, and asks it no more for whoever has left', async () => {
    const { ctx } = bench.daemon;
    const asked = Promise.withResolvers<void>();
    bench.sim.fault = ({ operation }) => {
      if (operation !== 'git fetch') return null;
      asked.resolve();
      return { kind: 'slow', delayMs: 600_000 };
    };
    const others = createGitRoutes(() => ctx, { pushMaxBytes: most });
    const { sessionId, agent, project, spec } = (await callerOf(ctx, session, token)) ?? assert.fail();
    const own = await others.open({ sessionId, agent, project, spec });
    const look = fetch(`${own.baseUrl()}/acme/app.git/info/refs?service=git-upload-pack`).catch(() => undefined);
    await asked.promise;
    bench.sim.fault = () => null;
    const late = new AbortController();
    const isOver = await Promise.race([
      others.stop().then(() => true),
      sleep(10_000, false, { signal: late.signal }).catch(() => false),
    ]);
    late.abort();
    await look;
    assert.ok(isOver, 'the stop waits for the code host');
  });

  it('replaces a token that is not taken any more', async () => {
    bench.sim.revokeTokens();
    await commit('again.txt', 'again\n');
    await git(join(dir, 'app'), 'push', '-q', 'origin', 'HEAD:refs/heads/again');
    assert.deepEqual(bench.sim.schemaRefusals, []);
  });

  it('tells a refusal of the code host, and keeps the token to itself', async () => {
    bench.sim.fault = ({ operation }) => (operation === 'git push' ? { kind: 'status', status: 403 } : null);
    await assert.rejects(
      git(join(dir, 'app'), 'push', 'origin', 'HEAD:refs/heads/no'),
      /permission-missing: .* lacks one of contents: write/,
    );
    bench.sim.fault = ({ operation }) => (operation === 'git fetch' ? { kind: 'status', status: 403 } : null);
    await assert.rejects(git(join(dir, 'app'), 'fetch', 'origin'), /it lacks one of contents: read/);
    for (const [status, headers, seconds] of [
      [429, { 'retry-after': '90' }, 90],
      [403, { 'retry-after': '30' }, 30],
      [429, {}, 60],
    ] as const) {
      bench.sim.fault = ({ operation }) =>
        operation?.startsWith('git') === true ? { kind: 'status', status, headers } : null;
      const limited = new RegExp(`rate-limited: the code host limits these calls; retry after ${seconds} seconds`);
      await assert.rejects(git(join(dir, 'app'), 'fetch', 'origin'), limited);
      await assert.rejects(git(join(dir, 'app'), 'push', 'origin', 'HEAD:refs/heads/no'), limited);
      assert.deepEqual((await pushes())[0], ['push', true, 'refused', 'rate-limited']);
    }
    bench.sim.fault = () => null;
    assert.doesNotMatch(bench.log(), /ghs_[A-Za-z0-9._-]{36,}/);
  });
});
