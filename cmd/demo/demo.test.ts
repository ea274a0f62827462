// `make run` as a user lives it: the first run, the printed commands copied into a shell, Ctrl-C, and a second run.

import assert from 'node:assert/strict';
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { mkdtemp, rm, writeFile, mkdir } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { copyPrepared, embeddedPid } from '../../internal/base/testkit/daemon.ts';

const main = join(import.meta.dirname, 'main.ts');

let home: string;
const running = new Set<ChildProcess>();
before(async () => {
  home = await mkdtemp(join(tmpdir(), 'svc-demo-'));
});
after(async () => {
  for (const child of running) child.kill('SIGKILL');
  await rm(home, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });
});

interface Demo {
  output(): string;
  /** Resolves once the output holds the pattern; rejects when the demo ends before. */
  shows(pattern: RegExp): Promise<void>;
  interrupt(): Promise<number | null>;
}

function startDemo(args: readonly string[], env: { readonly [name: string]: string } = {}): Demo {
  const child = spawn(process.execPath, [main, ...args], {
    env: { PATH: process.env['PATH'] ?? '', HOME: home, SVC_LISTEN: '127.0.0.1:0', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  running.add(child);
  let output = '';
  const waiting = new Set<() => void>();
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text;
      for (const look of waiting) look();
    });
  }
  const ended = new Promise<number | null>((resolve) => child.once('close', resolve));
  return {
    output: () => output,
    shows: (pattern) =>
      new Promise((resolve, reject) => {
        const look = (): void => {
          if (!pattern.test(output)) return;
          waiting.delete(look);
          resolve();
        };
        waiting.add(look);
        const fail = (why: string): void => reject(new Error(`${why} without ${pattern}:\n${output}`));
        void ended.then((code) => fail(`ended with ${code}`));
        setTimeout(fail, 180_000, 'three minutes went by').unref();
        look();
      }),
    async interrupt() {
      child.kill('SIGINT');
      const code = await ended;
      running.delete(child);
      return code;
    },
  };
}

test('the first run shows agents and a webhook, its printed commands push a change, a second run keeps it', async () => {
  const dataDir = join(home, '.local/share/svc');
  const first = startDemo([]);
  await first.shows(/Ctrl-C stops everything/);
  assert.match(first.output(), /status: +applied/);
  assert.match(first.output(), /^gardener +1 +harness-a +garden/m);
  assert.match(
    first.output(),
    /^webhook greetings: http:\/\/127\.0\.0\.1:\d+\/api\/v1\/webhook-endpoints\/greetings-\w{10}\/events$/m,
  );
  assert.match(first.output(), /the scripted agent stands in/);
  const [, origin, handoff] = /^(http:\/\/127\.0\.0\.1:\d+)\/signin#h=([\w-]{43})$/m.exec(first.output()) ?? [];
  const open = () =>
    fetch(`${origin}/api/v1/auth/sessions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ handoff }),
    });
  assert.deepEqual([(await open()).status, (await open()).status], [201, 401], 'the way into the console, once');
  assert.match(first.output(), /Say hello to Ada\.\n\n.* assistant\n {4}echo: Say hello to Ada\./);
  const wholeWay = new RegExp(
    [
      'push to garden/almanac of (\\w{12})',
      'event codehost\\.push',
      'session \\S+ of scribe',
      'branch page-\\1…',
      'commit \\w{12}',
      'pull request #1: Add a page',
      'event codehost\\.pull_request\\.opened',
      'session \\S+ of proofreader',
      'check Proofreading: success',
      'comment: Read it; nothing to change\\.',
    ].join('\\n  '),
  );
  assert.match(first.output(), wholeWay);
  assert.match(first.output(), /code create_pull_request +write +done/);
  const script = /watch it here:\n((?: {2}.*\n)+)/.exec(first.output())?.[1] ?? '';
  const shell = spawnSync('sh', ['-e', '-c', script], {
    cwd: home,
    encoding: 'utf8',
    env: { PATH: process.env['PATH'], HOME: home },
  });
  assert.equal(shell.status, 0, shell.stderr);
  await first.shows(/applied .*\(1 updated\)/);
  assert.equal(await first.interrupt(), 0);
  assert.equal(await embeddedPid(dataDir), undefined);
  const second = startDemo([]);
  await second.shows(/Ctrl-C stops everything/);
  assert.match(second.output(), /status: +unchanged/);
  assert.equal(/git clone (\S+)/.exec(second.output())?.[1], /git clone (\S+)/.exec(first.output())?.[1]);
  assert.match(second.output(), /^greeter +2 /m);
  assert.match(second.output(), wholeWay);
  assert.equal(await second.interrupt(), 0);
});

test('REPO=<path> watches the user’s own folder, and says so when its tree is broken', async () => {
  const fleet = join(home, 'my fleet');
  await mkdir(join(fleet, '.svc/agents'), { recursive: true });
  await writeFile(join(fleet, '.svc/agents/a.yaml'), 'name: default\nharnes: harness-a\nconcurrency: 2\n');
  await copyPrepared(join(home, 'own'));
  const demo = startDemo(['--repo', fleet], { SVC_DATA_DIR: join(home, 'own') });
  await demo.shows(/Ctrl-C stops everything/);
  assert.match(demo.output(), /a\.yaml:3:14: error \[concurrency-invalid\]/);
  assert.match(demo.output(), /the first sync did not apply/);
  await writeFile(join(fleet, '.svc/agents/a.yaml'), 'name: default\n');
  await demo.shows(/ my-fleet {2}applied {2}folder:/);
  assert.equal(await demo.interrupt(), 0);
});

test('a taken port is told and a free one used; a path that is not there ends it with a sentence', async () => {
  const missing = startDemo(['--repo', join(home, 'nowhere')]);
  await assert.rejects(missing.shows(/Ctrl-C stops everything/), /ended with 1.*\ndemo: REPO=.*there is no such path/);
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  const port = typeof address === 'object' ? address?.port : undefined;
  try {
    await copyPrepared(join(home, 'taken'));
    const demo = startDemo([], { SVC_DATA_DIR: join(home, 'taken'), SVC_LISTEN: `127.0.0.1:${port}` });
    await demo.shows(/svcd serves http:\/\/127\.0\.0\.1:\d+;/);
    assert.match(
      demo.output(),
      new RegExp(`127\\.0\\.0\\.1:${port} is taken by another program; svcd gets a free port`),
    );
    assert.equal(await demo.interrupt(), 0);
  } finally {
    await new Promise((resolve) => server.close(resolve));
  }
});
