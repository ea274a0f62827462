// The same bounds as in svcd.hostile.fuzz.test.ts for what comes by git: what somebody pushes to a repository that is read from a
// real git server, what a server sends that is no git's, and what a session pushes through the daemon.

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { GitFixture, runGit } from '../../internal/base/testkit/git-fixture.ts';
import { type Fault, GitServer, type LoggedRequest } from '../../internal/base/testkit/git-server.ts';
import { isLong } from '../../internal/base/testkit/long.ts';
import { type MeasuredDaemon, startMeasuredDaemon } from '../../internal/base/testkit/measured-daemon.ts';
import { boundsOf, some } from './hostile-bounds-testkit.ts';
import { type Age, answers, bombs, fetchAnswer, pushedTrees } from './hostile-git-testkit.ts';
import { hostAnswers, pushes, type Seat, takeSeat } from './hostile-push-testkit.ts';
import { mebibyte } from './hostile-testkit.ts';

const rawAgent = [process.execPath, join(import.meta.dirname, '../../testdata/raw-agent/agent.ts')];
let daemon: MeasuredDaemon;
let root: string;
before(async () => {
  root = await mkdtemp(join(tmpdir(), 'svc-hostile-git-'));
  daemon = await startMeasuredDaemon({
    SVC_LOG_LEVEL: 'warn',
    SVC_ALLOW_PRIVATE_NETWORK: 'true',
    SVC_HARNESS_A_COMMAND: JSON.stringify(rawAgent),
    SVC_SANDBOX: 'process',
  });
  // What the first read of all loads and keeps is not that of one push.
  const repo = await GitFixture.create(join(root, 'first.git'));
  await repo.commit({ '.svc/agents/a.yaml': 'name: a\n' });
  const server = await new GitServer({ root }).start();
  await read(server.url('first.git'));
  await server.stop();
});
after(async () => {
  await daemon.stop();
  await rm(root, { recursive: true, force: true });
});
const { isBounded } = boundsOf(() => daemon);

const ages: { readonly [age in Age]: { readonly allowFilter?: boolean; readonly passProtocol?: boolean } } = {
  new: {},
  'without filters': { allowFilter: false },
  old: { passProtocol: false },
};

/** What the server's own git computes is not what is measured. */
const quick = { 'pack.window': '0', 'core.compression': '0', 'pack.compression': '0' };
let made = 0;

/** Reads a repository once, from a server that the daemon has not met; answers with what became of that. */
async function read(url: string): Promise<string> {
  const name = `r${(made += 1)}`;
  const { status, body } = await daemon.api('POST', 'P/repositories', {
    name,
    url,
    intervalSeconds: 3_600,
    adopt: true,
  });
  assert.equal(status, 201, JSON.stringify(body));
  for (let waited = 0; ; waited += 20) {
    const runs = await daemon.api('GET', `P/reconciles?repository=${name}&limit=1`);
    const run = runs.body['items']?.[0];
    if (run !== undefined && String(run['status']) !== 'running') {
      await daemon.api('DELETE', `P/repositories/${name}`);
      return `${String(run['condition'] ?? run['status'])}: ${JSON.stringify(run['conditionDetail'] ?? '')}`;
    }
    assert.ok(waited < 120_000, daemon.log());
    await sleep(20);
  }
}

/** Holds the daemon to its bounds while it reads from a server of this age. */
async function isReadBounded(what: string, age: Age, of: string, fault: GitServer['fault']): Promise<string> {
  let ended = '';
  await isBounded(`${what} (${age})`, async () => {
    const server = await new GitServer({ root, keepBodies: true, config: quick, ...ages[age] }).start();
    server.fault = fault;
    try {
      ended = await read(server.url(of));
    } finally {
      await server.stop();
    }
  });
  return ended;
}

describe('a push that is read from a git server', () => {
  for (const [what, { ages: of, fill }] of some(pushedTrees, (name) => name.startsWith('as many files of two'))) {
    it(what, async () => {
      const repo = await GitFixture.create(join(root, `${(made += 1)}.git`));
      await fill(repo);
      for (const age of isLong ? of : of.slice(0, 1)) {
        const ended = await isReadBounded(what, age, `${repo.dir.split('/').at(-1)}`, () => null);
        assert.match(ended, /^(applied|unchanged|too-large|hostile|invalid):/, what);
      }
      await rm(repo.dir, { recursive: true, force: true });
    });
  }
});

describe('what a git server sends that is no git’s', () => {
  let repo: GitFixture;
  before(async () => {
    repo = await GitFixture.create(join(root, 'bombs.git'));
    await repo.commit({ '.svc/agents/a.yaml': 'name: a\n' });
  });
  const isFetch = ({ body }: LoggedRequest, age: Age): boolean =>
    body.includes('want ') && (age !== 'without filters' || !body.includes('filter '));

  for (const [what, { ages: of, pack }] of some(bombs, (name) => /single bytes that are copied/.test(name))) {
    it(what, async () => {
      const answer = fetchAnswer(pack());
      const fault: Fault = { kind: 'replace', body: () => answer };
      for (const age of isLong ? of : of.slice(0, 1)) {
        const ended = await isReadBounded(what, age, 'bombs.git', (request) => (isFetch(request, age) ? fault : null));
        assert.match(ended, /^(too-large|corrupt|server-lacks-filter):/, what);
      }
    });
  }

  for (const [what, make] of some(answers, () => false)) {
    it(what, async () => {
      const answer = make();
      const fault: Fault = { kind: 'replace', body: () => answer };
      for (const step of ['the refs', 'a pack']) {
        const ended = await isReadBounded(`${what} for ${step}`, 'new', 'bombs.git', ({ method, body }) =>
          method === 'POST' && body.includes('want ') === (step === 'a pack') ? fault : null,
        );
        assert.match(ended, /^(too-large|corrupt|ref-missing|unreachable):/, what);
      }
    });
  }
});

describe('what a session’s git sends through the daemon, and is answered', () => {
  let seat: Seat;
  before(async () => {
    seat = await takeSeat(daemon);
  });
  after(() => seat.stop());
  const calls = [...some(pushes, (name) => /as is taken|^as many refs/.test(name)), ...some(hostAnswers, () => false)];
  for (const [what, call] of calls) {
    it(what, async () => {
      let told = '';
      await isBounded(what, async () => void (told = await seat.call(call)));
      assert.match(told, call.told, what);
    });
  }

  it('as much as a push takes, by git itself, and back again', { skip: !isLong }, async () => {
    const git = (...args: string[]): Promise<Buffer> =>
      runGit(['-c', 'core.compression=0', '-c', 'pack.window=0', ...args], { cwd: seat.work });
    await git('config', 'user.name', 'a');
    await git('config', 'user.email', 'a@b.example');
    let pushed = 0;
    await isBounded('a push of git', async () => {
      pushed += 1;
      for (let at = 0; at < 4; at += 1) await writeFile(join(seat.work, `f${at}`), randomBytes(63 * mebibyte));
      await git('add', '.');
      await git('commit', '-q', '-m', `${pushed}`);
      await git('push', '-q', 'origin', `HEAD:refs/heads/large-${pushed}`);
    });
    const sha = (await git('rev-parse', 'HEAD')).toString().trim();
    assert.equal(await seat.app.branch(`large-${pushed}`), sha);
    const back = await mkdtemp(join(root, 'back-'));
    await isBounded('a clone by git', async () => {
      await rm(back, { recursive: true, force: true });
      const remote = (await git('config', 'remote.origin.url')).toString().trim();
      await git('clone', '-q', '--bare', '--single-branch', '-b', `large-${pushed}`, remote, back);
    });
    await isBounded('very many refs by git', async () => {
      const refs = Array.from({ length: 5_000 }, (_, at) => `HEAD~1:refs/heads/many-${pushed}-${at}`);
      pushed += 1;
      await git('push', '-q', 'origin', ...refs);
    });
  });
});
