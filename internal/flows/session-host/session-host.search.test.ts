// Everything that a fenced session can see, read by itself and searched from outside for every credential around it:
// environments, arguments and descriptors of all processes, files, sockets, mounts cloned with a token, and what its ways
// to model and tools answer. Its own two tokens are its own. Precondition: namespaces can be made on this machine.

import assert from 'node:assert/strict';
import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { startToolServer, type ToolServer } from '../../../testdata/scripted-agent/tool-server.ts';
import { scriptedAgent } from '../../adapters/harness/harness-testkit.ts';
import { ConfigError } from '../../base/config/config.ts';
import { type AuthorizationBench, startAuthorizationBench } from '../../base/testkit/authorization-server.ts';
import { GitFixture } from '../../base/testkit/git-fixture.ts';
import { GitServer } from '../../base/testkit/git-server.ts';
import { createHostBench, type HostBench, type SessionView } from './host-testkit.ts';
import { type ModelStub, startModelStub } from './model-testkit.ts';

const draw = (name: string): string => `${name}-${randomBytes(24).toString('hex')}`;
const drawn = {
  'key of the model': draw('model'),
  'token of the clone': draw('ghs'),
  'webhook secret': draw('hook'),
  'secret of a remote tool': draw('remote'),
  'secret that it was not given': draw('other'),
  'token in the remote of the harness’s checkout': draw('origin'),
  'setting beside the harness': draw('env'),
  'token of a registry beside the harness': draw('npm'),
};

/** Reads what is there into files under HOME; each part says that it was read. */
const lookScript = [
  'cd $HOME && mkdir -p seen',
  '(for p in /proc/[0-9]*; do for f in environ cmdline mountinfo; do cat $p/$f; echo; done; ls -l $p/fd $p/cwd; done) > seen/processes 2>/dev/null',
  'cat /proc/net/tcp /proc/net/unix > seen/sockets 2>/dev/null',
  '(cd /workspace/repo && git config --list --show-origin; git remote -v; cat .git/config) > seen/git 2>&1',
  'find / \\( -path /proc -o -path /dev -o -path /sys -o -path /usr -o -name seen -o -name node_modules -o -name testdata -o -name internal \\) -prune -o -type f -size -600k -print0 2>/dev/null | xargs -0 cat > seen/files 2>/dev/null',
].join('; ');
const ask = `const asked = ['4401/', '4401/v1/models', '4402/metrics', '4402/readyz', '4402/api/v1/me', '4402/api/v1/openapi.json',
  '4402/api/v1/orgs/default/projects/default/secrets', '4402/api/v1/orgs/default/projects/default/sessions'];
  Promise.all(asked.map((at) => fetch('http://127.0.0.1:' + at).then(async (answer) => at + ' ' + answer.status + ' ' + (await answer.text()),
  (error) => at + ' ' + error))).then((all) => require('fs').writeFileSync(process.env.HOME + '/seen/answers', all.join('\\n')));`;
const script = [
  `!exec ${lookScript}; echo looked`,
  `!exec ${process.execPath} -e "${ask.replaceAll('\n', ' ')}" && echo asked`,
];

describe('what a fenced session can see', () => {
  let root: string;
  let server: GitServer;
  let stub: ModelStub;
  let remote: ToolServer;
  let peer: AuthorizationBench;
  /** Of an attempt that still waits for its person. */
  let state = '';
  let bench: HostBench | undefined;
  let refused: unknown;
  const pem = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ type: 'pkcs8', format: 'pem' });

  before(async () => {
    root = await mkdtemp(join(tmpdir(), 'svc-search-'));
    // The harness's package is a checkout, and the data directory lies in it.
    const files = {
      'pkg/package.json': '{}',
      'pkg/settings.json': '{}',
      'pkg/.env': `KEY=${drawn['setting beside the harness']}\n`,
      'pkg/.npmrc': `//registry.example/:_authToken=${drawn['token of a registry beside the harness']}\n`,
      'pkg/.git/config': `[remote "origin"]\n\turl = https://x:${drawn['token in the remote of the harness’s checkout']}@git.example/o/p\n`,
    };
    for (const [name, text] of Object.entries(files)) {
      await mkdir(join(root, name, '..'), { recursive: true });
      await writeFile(join(root, name), text);
    }
    const dataDir = join(root, 'pkg', 'data');
    await mkdir(dataDir);
    const repository = await GitFixture.create(join(root, 'git', 'o', 'r.git'));
    await repository.commit({ 'README.md': 'cloned' });
    server = await startCodehost(join(root, 'git'), drawn['token of the clone']);
    stub = await startModelStub();
    remote = await startToolServer(drawn['secret of a remote tool']);
    peer = await startAuthorizationBench();
    const config = {
      sandbox: 'bubblewrap',
      allowPrivateNetwork: true,
      harnessACommand: [...scriptedAgent, join(root, 'pkg', 'settings.json')],
      file: { sessions: { fenced: true }, providers: { model: { 'provider-a': { baseUrl: stub.url } } } },
      secretEnv: () => drawn['key of the model'],
    } as const;
    bench = await createHostBench({ config, dataDir }).catch((error: unknown) => {
      refused = error;
      return undefined;
    });
    if (bench === undefined) return;
    state = await consent(bench, peer);
    await furnish(bench, { server, remote, peer, pem: String(pem) });
  });
  after(async () => {
    await bench?.stop();
    await peer.stop();
    await remote.close();
    await stub.stop();
    await server.stop();
    await rm(root, { recursive: true, force: true });
  });

  it('holds no credential but its own', async () => {
    if (bench === undefined) {
      assert.ok(refused instanceof ConfigError, String(refused));
      assert.match(refused.message, /SVC_SANDBOX=bubblewrap cannot be used: /);
      return;
    }
    const other = await look(bench);
    const base = /ANTHROPIC_BASE_URL=\S*\/s\/([\w-]{43})/.exec(other['processes'] ?? '')?.[1];
    assert.ok(base !== undefined, 'another session has a token of its own');
    const seen = await look(bench);
    // It has looked: at itself, its clone, and what it is answered.
    assert.match(seen['processes'] ?? '', /SVC_SESSION_ID=/);
    assert.ok(!seen['processes']?.includes(base));
    assert.match(seen['files'] ?? '', /cloned/);
    assert.match(seen['git'] ?? '', /remote\.origin\.url/);
    assert.match(seen['answers'] ?? '', /^4402\/api\/v1\/me 401 /m);
    assert.match(seen['answers'] ?? '', /^4402\/api\/v1\/orgs\/default\/projects\/default\/secrets 401 /m);
    assert.equal(remote.calls.length, 2, 'its remote tool works');
    const { dataDir, token, database } = bench.daemon;
    assert.ok(peer.secrets.size >= 4, 'a code, its verifier and two tokens');
    assert.ok(peer.shown.length >= 2, 'the tool by consent works');
    const consented = [...peer.secrets, ...peer.shown, state].map(
      (one, n) => [`secret ${n} of a consent`, one] as const,
    );
    const wanted = {
      ...drawn,
      ...Object.fromEntries(consented),
      'token of another session': base,
      'token of the administrator': token,
      'master key': (await readFile(join(dataDir, 'master.key'), 'utf8')).trim().split(':')[1] ?? '',
      'private key of the connection': String(pem).split('\n')[3] ?? '',
      'password of the database': new URL(database.url).password,
    };
    const found = Object.entries(wanted).flatMap(([what, value]) => {
      assert.ok(value.length >= 20, what);
      return Object.keys(seen).flatMap((part) => (seen[part]?.includes(value) ? [`${what} in ${part}`] : []));
    });
    assert.deepEqual(found, []);
  });
});

/** A code host that gives this token for its repositories. */
async function startCodehost(dir: string, token: string): Promise<GitServer> {
  const server = await new GitServer({ root: dir, auth: { tokens: [token] } }).start();
  const answer = { token, expires_at: new Date(Date.now() + 3_600_000).toISOString() };
  server.fault = ({ path }) =>
    path.endsWith('/access_tokens')
      ? {
          kind: 'status',
          status: 201,
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify(answer),
        }
      : null;
  return server;
}

/** A connection that somebody consented to, and one whose attempt waits: the state of that. */
async function consent({ daemon }: HostBench, peer: AuthorizationBench): Promise<string> {
  const begin = async (name: string): Promise<string> => {
    await daemon.api('POST', 'P/connections', { provider: 'mcp', name, url: peer.resource });
    const { status, body } = await daemon.api('POST', `P/connections/${name}/authorize`, {});
    assert.equal(status, 201, JSON.stringify(body));
    return String(body['authorizationUrl']);
  };
  const back = await peer.consent(await begin('docs'));
  const arrived = await fetch(back, { redirect: 'manual' });
  assert.match(arrived.headers.get('location') ?? '', /connectionOAuth=success/);
  return new URL(await begin('waiting')).searchParams.get('state') ?? '';
}

interface Around {
  readonly server: GitServer;
  readonly remote: ToolServer;
  readonly peer: AuthorizationBench;
  readonly pem: string;
}
async function furnish({ daemon, apply }: HostBench, { server, remote, peer, pem }: Around): Promise<void> {
  for (const [name, value] of [
    ['remote', drawn['secret of a remote tool']],
    ['other', drawn['secret that it was not given']],
  ]) {
    assert.ok((await daemon.api('PUT', `P/secrets/${name}`, { value })).status < 300);
  }
  const added = await daemon.api('POST', 'P/connections', {
    provider: 'codehost',
    name: 'hub',
    config: { apiUrl: `${server.origin}/api/v3`, appId: 7, installationId: 11 },
    credentials: { webhookSecret: drawn['webhook secret'], privateKey: pem },
  });
  assert.ok(added.status < 300, JSON.stringify(added.body));
  await apply({
    looker: {
      model: { provider: 'provider-a', id: 'claude-opus-4-8' },
      mounts: [{ kind: 'git', repository: 'o/r', mountPath: '/workspace/repo', auth: { kind: 'codehostApp' } }],
      tools: {
        svc: { kind: 'local', implementation: 'svc' },
        remote: {
          kind: 'mcp_remote',
          url: 'https://remote.example/mcp',
          auth: { kind: 'bearer', token: { $secret: 'remote' } },
        },
        docs: { kind: 'mcp_remote', url: 'https://docs.example/mcp', auth: { kind: 'mcp_oauth', connection: 'docs' } },
      },
    },
  });
  // Declarations name https alone; the server of this test has no certificate.
  await daemon.ctx.db.query(
    `update svc.agent_revisions set spec = replace(replace(spec::text, 'https://remote.example/mcp', $1::text),
       'https://docs.example/mcp', $2::text)::jsonb`,
    [remote.url, peer.resource],
  );
}

/** What a new session has seen, by part. */
async function look(bench: HostBench): Promise<{ readonly [part: string]: string }> {
  const session = await bench.start(
    'looker',
    [...script, '!model hello', '!call remote svc_ping {}', '!call docs read {}', '!say end.'].join('\n'),
  );
  const isOver = ({ state, said }: SessionView): boolean => state === 'idle' && said.endsWith('end.');
  const { said } = await bench.until(session, isOver);
  assert.match(said, /looked[^]*asked[^]*paid[^]*pong[^]*did read/);
  const seen = join(bench.daemon.dataDir, 'sandboxes', session, 'home', 'seen');
  const parts = ['processes', 'sockets', 'git', 'files', 'answers'];
  return Object.fromEntries(
    await Promise.all(parts.map(async (part) => [part, await readFile(join(seen, part), 'latin1')] as const)),
  );
}
