// What a session is given (docs/reference/sessions.md#environment, docs/reference/secrets.md#resolution,
// docs/reference/compile.md#mounts), through the API and the public doors, from a real git server.

import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { after, before, describe, it } from 'node:test';
import { GitFixture } from '../../base/testkit/git-fixture.ts';
import { GitServer } from '../../base/testkit/git-server.ts';
import { post, routesOf, settled } from '../routing/routing-testkit.ts';
import { createHostBench, type HostBench, type SessionView } from './host-testkit.ts';

/** At rest, with nothing left to hear: a session rests for a moment before its first turn too. */
const idle = ({ state, body }: Pick<SessionView, 'state' | 'body'>): boolean =>
  state === 'idle' && Number(body['inbox']?.['pending']) + Number(body['inbox']?.['inFlight']) === 0;
const isFailed = (view: { readonly state: string }): boolean => view.state === 'failed';
const environment = (more: object): object => ({ name: 'given', image: { kind: 'preset', name: 'base' }, ...more });

describe('the environment of a session', () => {
  let bench: HostBench;
  before(async () => {
    bench = await createHostBench();
  });
  after(() => bench.stop());
  const put = async (name: string, body: object): Promise<void> => {
    const { status } = await bench.daemon.api('PUT', `P/secrets/${name}`, body);
    assert.ok(status < 300, String(status));
  };
  const remove = (name: string) => bench.daemon.api('DELETE', `P/secrets/${name}`);

  it('holds secrets by name, each access audited with its session and mode, and none of them is repeated', async () => {
    const value = 'first line of the key\nand "its" second line';
    await put('api-key', { value });
    await put('short', { value: 'pass', injection: { hosts: ['api.example.com'], header: 'x-key' } });
    await bench.apply({
      keyed: {
        env: { KEY: { $secret: 'api-key' }, SHORT: { $secret: 'short' }, NONE: { $secret: 'nothing', optional: true } },
        environment: environment({ env: { KEY: 'shadowed', ALSO: { $secret: 'api-key' } } }),
      },
    });
    const check = `test "$KEY" = "$ALSO" && test \${#KEY} = ${value.length} && echo whole`;
    const session = await bench.start('keyed', `!exec ${check}\n!env KEY\n!env SHORT\n!env NONE\n!exec env`);
    const view = await bench.until(session, idle);
    assert.ok(view.said.includes('whole'), view.said);
    assert.ok(view.said.includes('NONE is not set') && view.said.includes('KEY=***'), view.said);
    for (const hidden of ['first line', 'second line', 'SHORT=pass']) assert.ok(!view.said.includes(hidden), hidden);
    const { body } = await bench.daemon.api('GET', 'P/audit?limit=200');
    const entries = (body['items'] as unknown as { action: string; subject: { name: string }; detail: object }[])
      .filter((one) => one.action === 'secret.access')
      .map(({ subject, detail }) => ({ name: subject.name, ...detail }));
    for (const name of ['api-key', 'short']) {
      const entry = entries.find((one) => one.name === name) as { [key: string]: unknown } | undefined;
      assert.equal(entry?.['mode'] ?? entry?.['deliveryMode'] ?? entry?.['delivery'], 'env', JSON.stringify(entries));
      assert.ok(JSON.stringify(entry).includes(session));
    }
  });

  it('fails the launch where a required secret is missing or has expired, in those words', async () => {
    await put('leaves', { value: 'a value' });
    await put('ends', { value: 'a value', expiresAt: '2999-01-01T00:00:00Z' });
    await bench.apply({ one: { env: { A: { $secret: 'leaves' } } }, two: { env: { A: { $secret: 'ends' } } } });
    await remove('leaves');
    const missing = await bench.start('one', 'hello');
    assert.equal((await bench.until(missing, isFailed)).reason, 'Secret not found: leaves');
    await bench.daemon.ctx.db.query(
      `update svc.secrets set expires_at = now() - interval '1 second' where name = 'ends'`,
    );
    const expired = await bench.start('two', 'hello');
    assert.equal((await bench.until(expired, isFailed)).reason, 'Secret has expired: ends');
  });

  it('fails the launch where the token of a remote tool has expired, and says so', async () => {
    await put('going', { value: 'a value', idleExpirySeconds: 60 });
    const auth = { kind: 'bearer', token: { $secret: 'going' } };
    await bench.apply({ remote: { tools: { far: { kind: 'mcp_remote', url: 'https://tools.example/mcp', auth } } } });
    await bench.daemon.ctx.db.query(
      `update svc.secrets set idle_since = now() - interval '2 minutes' where name = 'going'`,
    );
    const expired = await bench.start('remote', 'hello');
    assert.equal((await bench.until(expired, isFailed)).reason, 'Secret has expired: going');
  });

  it('fails the launch where two injected secrets claim one host and header', async () => {
    const injection = { hosts: ['api.example.com'], header: 'Authorization' };
    await put('left', { value: 'a value', injection });
    await put('right', { value: 'a value', injection });
    await bench.apply({ both: { env: { A: { $secret: 'left' }, B: { $secret: 'right' } } } });
    const session = await bench.start('both', 'hello');
    const { reason } = await bench.until(session, isFailed);
    assert.match(
      reason ?? '',
      /Injected secrets left and right both claim header authorization of host api.example.com/i,
    );
  });

  it('names the session, its agent, its project and the service', async () => {
    await bench.apply({ plain: {} });
    const names = ['SVC_SESSION_ID', 'SVC_AGENT_NAME', 'SVC_PROJECT', 'SVC_BASE_URL'];
    const session = await bench.start('plain', names.map((name) => `!env ${name}\n!say ;`).join('\n'));
    const { said } = await bench.until(session, idle);
    const wanted = [session, 'plain', 'default', bench.daemon.url].map((value, index) => `${names[index]}=${value};`);
    assert.equal(said, wanted.join(''));
  });

  it('is refused over a ceiling that was lowered since it was applied, and says what its preset is not', async () => {
    const image = { kind: 'preset', name: 'node24' };
    await bench.apply({ big: { environment: { name: 'big', image, resources: { memoryMB: 1024 } } } });
    const first = await bench.start('big', '!say hello');
    const { body } = await bench.until(first, ({ state }) => state === 'idle');
    assert.match(JSON.stringify(body['sandbox']), /"notEnforced":\[[^\]]*"image"/);
    assert.equal((await bench.daemon.api('PATCH', 'P', { limits: { memoryMB: 512 } })).status, 200);
    const second = await bench.start('big', '!say hello');
    const { reason } = await bench.until(second, ({ state }) => state === 'failed');
    assert.match(reason ?? '', /memoryMB 1024; its preset and project allow 512/);
    assert.equal((await bench.daemon.api('PATCH', 'P', { limits: null })).status, 200);
  });

  it('is told to be set up while that goes on', async () => {
    const release = join(bench.daemon.dataDir, 'release');
    const commands = [`until [ -e '${release}' ]; do sleep 0.1; done`];
    await bench.apply({ waits: { environment: environment({ name: 'waits', setup: [{ name: 'long', commands }] }) } });
    const session = await bench.start('waits', '!say up');
    const stages = (view: Pick<SessionView, 'body'>) =>
      (view.body['provisioning'] ?? []) as unknown as { stage: string; name?: string; ms: number }[];
    const going = await bench.until(session, (view) => stages(view).some(({ name }) => name === 'long'));
    assert.equal(going.state, 'provisioning');
    await writeFile(release, '');
    const { body } = await bench.until(session, idle);
    assert.equal(stages({ body }).filter(({ stage }) => stage === 'setup').length, 1);
  });

  it('is set up once for a cache key, and again for another', async () => {
    const setup = (key: string) => ({
      cached: {
        environment: environment({
          setup: [
            {
              name: 'tools',
              commands: ['mkdir -p $HOME/tools && date +%N > $HOME/tools/made'],
              cache: { key, paths: ['/home/user/tools'] },
            },
          ],
        }),
      },
    });
    const made = async (): Promise<string> => {
      const session = await bench.start('cached', '!exec cat $HOME/tools/made');
      return (await bench.until(session, idle)).said;
    };
    await bench.apply(setup('one'));
    const first = await made();
    assert.equal(await made(), first);
    await bench.apply(setup('two'));
    assert.notEqual(await made(), first);
  });
});

describe('the mounts of a session', () => {
  const token = 'ghs_token_that_must_not_enter_the_sandbox';
  let dir: string;
  let server: GitServer;
  let bench: HostBench;
  let hook: string;
  before(async () => {
    dir = await mkdtemp(join(tmpdir(), 'svc-mounts-'));
    const repository = await GitFixture.create(join(dir, 'o', 'r.git'));
    await repository.commit({ 'README.md': 'of main' });
    await repository.commit({ 'README.md': 'of topic' }, { branch: 'topic' });
    server = await new GitServer({ root: dir, auth: { tokens: [token] }, allowPush: true }).start();
    server.fault = ({ path }) =>
      path.endsWith('/access_tokens')
        ? {
            kind: 'status',
            status: 201,
            headers: { 'content-type': 'application/json' },
            body: JSON.stringify({ token, expires_at: new Date(Date.now() + 3_600_000).toISOString() }),
          }
        : null;
    server.options = { ...server.options, keepBodies: true };
    bench = await createHostBench({ config: { allowPrivateNetwork: true } });
    const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
    const connection = {
      provider: 'codehost',
      name: 'hub',
      config: { apiUrl: `${server.origin}/api/v3`, appId: 7, installationId: 11 },
      credentials: { webhookSecret: 'secret', privateKey: privateKey.export({ type: 'pkcs8', format: 'pem' }) },
    };
    const added = await bench.daemon.api('POST', 'P/connections', connection);
    assert.ok(added.status < 300, JSON.stringify(added.body));
    await bench.apply({
      reader: {
        mounts: [
          {
            kind: 'git',
            repository: 'o/r',
            mountPath: '/workspace/repo',
            ref: '{{ payload.branch }}',
            auth: { kind: 'codehostApp', commitAuthor: { name: 'Bot', email: 'bot@example.com' } },
          },
        ],
        workingDirectory: '/workspace/repo',
        env: { LEAF: { $secret: 'leaf', optional: true } },
        triggers: [
          {
            event: 'webhook.received',
            endpoint: 'begin',
            auth: { kind: 'none' },
            routing: { kind: 'spawn' },
            message: '{{ say }}',
          },
        ],
      },
    });
    const { body } = await bench.daemon.api('GET', 'P/endpoints/begin');
    hook = new URL(String(body['ingestUrl'])).pathname;
  });
  after(async () => {
    await bench.stop();
    await server.stop();
    await rm(dir, { recursive: true, force: true });
  });
  const begin = async (body: object): Promise<{ session: string | undefined; event: string }> => {
    const event = await post(bench.daemon.url, hook, body);
    await settled(bench.daemon.ctx.db);
    const [route] = await routesOf(bench.daemon.ctx.db, event);
    return { session: route?.sessions[0], event };
  };

  it('are at the ref that the event names, and no token is anywhere inside', async () => {
    const look = [
      '!exec cat README.md; pwd; git config user.email; git config --get-all remote.origin.url; git log --oneline | wc -l',
      '!exec env | grep -c ghs_; grep -rl ghs_token . $HOME 2>/dev/null | grep -v jsonl; echo looked',
      `!exec for p in /proc/[0-9]*; do tr "\\0" " " < $p/cmdline 2>/dev/null | grep -v grep | grep -o ghs_tok; done; echo listed`,
    ];
    const { session } = await begin({ branch: 'topic', say: look.join('\n') });
    const { said } = await bench.until(session ?? '', (view) => idle(view) && view.said.includes('listed'));
    assert.match(said, /^of topic.*\/repo\n.*bot@example\.com/s);
    assert.match(said, /0\nlooked\n/);
    assert.match(said, /exit 0listed\n/);
    assert.ok(!said.includes('ghs_tok'), said);
    const asked = server.log.find(({ path }) => path.endsWith('/app/installations/11/access_tokens'));
    assert.deepEqual(JSON.parse(asked?.body ?? '{}'), { repositories: ['r'], permissions: { contents: 'read' } });
  });

  it('are compared with what was mounted, and files that it leaves are kept, bounded, masked and downloadable', async () => {
    await bench.daemon.api('PUT', 'P/secrets/leaf', { value: 'a-value-to-hide' });
    const steps = [
      '!exec cd "$SVC_ARTIFACTS"; mkdir -p out; echo "key $LEAF" > out/report.txt; head -c 300 /dev/zero > "a b%ü.bin"',
      '!exec cd "$SVC_ARTIFACTS"; ln -s /etc/passwd link; truncate -s 10485761 big; echo more >> README.md; echo new > "$OLDPWD/new.txt"',
      '!exec echo more >> README.md; git config diff.external false; echo done',
    ];
    const { session = '' } = await begin({ branch: 'topic', say: steps.join('\n') });
    await bench.until(session, (view) => idle(view) && view.said.includes('done'));
    const { api } = bench.daemon;
    // Read in the background after the turn; whatever it is at, the end reads once more.
    assert.equal((await api('POST', `P/sessions/${session}/archive`, { reason: 'seen' })).status, 200);
    const at = `P/sessions/${session}`;
    type File = { path: string; size: number; refused: string | null };
    const filesNow = async () => (await api('GET', `${at}/files`)).body['items'] as unknown as File[];
    type Mounts = {
      mountPath: string;
      repository: string;
      ref: string;
      commit: string;
      diff: string;
      truncated: boolean;
    }[];
    const mountsNow = async () => (await api('GET', `${at}/diff`)).body['mounts'] as unknown as Mounts;
    for (let waited = 0; (await mountsNow()).length === 0 && waited < 600; waited += 1) await sleep(100);
    const files = await filesNow();
    assert.deepEqual(
      files.map(({ path, refused }) => [path, refused]),
      [
        ['README.md', null],
        ['a b%ü.bin', null],
        ['big', 'too-large'],
        ['out/report.txt', null],
      ],
    );
    const report = await api('GET', `${at}/files/out/report.txt`);
    assert.deepEqual([report.status, String(report.body)], [200, 'key ***\n']);
    assert.equal(report.headers.get('x-content-type-options'), 'nosniff');
    assert.equal(
      report.headers.get('content-disposition'),
      `attachment; filename="report.txt"; filename*=UTF-8''report.txt`,
    );
    const odd = await fetch(
      `${bench.daemon.url}/api/v1/orgs/default/projects/default/sessions/${session}/files/${encodeURIComponent('a b%ü.bin')}`,
      { headers: { authorization: `Bearer ${bench.daemon.token}` } },
    );
    assert.equal((await odd.arrayBuffer()).byteLength, 300);
    assert.equal((await api('GET', `${at}/files/big`)).status, 409);
    for (const path of ['link', 'none', '..%2fnone', 'out'])
      assert.equal((await api('GET', `${at}/files/${path}`)).status, 404, path);
    const [mount] = await mountsNow();
    assert.deepEqual([mount?.mountPath, mount?.repository, mount?.ref], ['/workspace/repo', 'o/r', 'topic']);
    assert.match(
      mount?.diff ?? '',
      /^diff --git a\/README\.md b\/README\.md[^]*\+of topicmore\n[^]*new file mode[^]*\+new\n$/,
    );
    assert.equal(mount?.truncated, false);
    const { body: audit } = await api('GET', 'P/audit?action=session.archived');
    assert.equal(audit['items']?.[0]?.['detail']?.['reason'], 'seen');
  });

  it('are fetched and pushed by the session’s own git, at an address that holds no credential', async () => {
    const work = [
      '!exec git commit -q --allow-empty -m mine && git push -q origin HEAD:refs/heads/mine && git fetch -q && echo pushed',
      '!exec git rev-parse HEAD origin/mine; git remote get-url origin',
    ];
    const { session } = await begin({ branch: 'topic', say: work.join('\n') });
    const { said } = await bench.until(session ?? '', (view) => idle(view) && view.said.includes('/git/'));
    assert.match(said, /pushed\n/);
    assert.match(said, /http:\/\/127\.0\.0\.1:\d+\/git\/o\/r\.git/);
    const [head, remote] = /([0-9a-f]{40})\n([0-9a-f]{40})/.exec(said)?.slice(1) ?? [];
    assert.equal(head, remote);
    const { body } = await bench.daemon.api('GET', `P/sessions/${session}/calls`);
    const calls = body['items'] as unknown as { alias: string; tool: string; status: string }[];
    assert.deepEqual(
      calls.map(({ alias, tool, status }) => [alias, tool, status]),
      [['git', 'push', 'done']],
    );
    const shown = await bench.daemon.api('GET', `P/sessions/${session}`);
    assert.match(JSON.stringify(shown.body['sandbox']), /"notEnforced":\[[^\]]*"git"/);
  });

  it('fail the launch with a reason where the ref is not there, and refuse the session where no input names one', async () => {
    const { session } = await begin({ branch: 'no-such-branch', say: 'hello' });
    const { reason } = await bench.until(session ?? '', isFailed);
    assert.match(reason ?? '', /\/workspace\/repo.*no-such-branch|no-such-branch.*\/workspace\/repo/);
    const refused = await begin({ say: 'hello' });
    assert.equal(refused.session, undefined);
    const started = await bench.daemon.api('POST', 'P/agents/reader/sessions', { message: 'hello' });
    assert.equal(started.status, 422);
  });

  it('are the session’s own where a setup step is put back that another one ran before a push', async () => {
    const repository = await GitFixture.create(join(dir, 'o', 'cached.git'));
    await repository.commit({ 'lock.json': '1' });
    const commands = ['git config core.hooksPath .husky; git status; mkdir modules; date +%N > modules/made'];
    const setup = [{ name: 'deps', commands, cache: { files: ['lock.json'] } }];
    const mounts = [{ kind: 'git', repository: 'o/cached', mountPath: '/workspace/c', auth: { kind: 'codehostApp' } }];
    await bench.apply({
      cached: { mounts, workingDirectory: '/workspace/c', environment: environment({ name: 'cached', setup }) },
    });
    const look = 'git fetch && git status --porcelain && git config core.hooksPath && cat modules/made';
    const seen = async (): Promise<string> => {
      const session = await bench.start('cached', `!exec ${look}\n!say .`);
      const { said, reason } = await bench.until(session, (view) => (idle(view) && view.said !== '') || isFailed(view));
      await bench.daemon.api('POST', `P/sessions/${session}/archive`);
      return reason ?? said;
    };
    const first = await seen();
    assert.match(first, /^\?\? modules\/\n\.husky\n\d+\nexit 0/);
    await repository.commit({ 'new.txt': 'pushed meanwhile' });
    assert.equal(await seen(), first);
  });

  it('may lie inside one another in any order, and a relative working directory is below the work directory', async () => {
    const mount = (mountPath: string) => ({
      kind: 'git',
      repository: 'o/r',
      mountPath,
      ref: 'topic',
      auth: { kind: 'codehostApp' },
    });
    const mounts = [mount('/home/user/w/in/deep'), mount('/home/user/w')];
    await bench.apply({ nested: { mounts, workingDirectory: 'here/too' } });
    const session = await bench.start('nested', '!exec cat $HOME/w/README.md $HOME/w/in/deep/README.md; pwd');
    const { said, reason } = await bench.until(session, (view) => idle(view) || isFailed(view));
    assert.match(said, /^of topicof topic.*\/work\/here\/too\n/, String(reason));
  });
});
