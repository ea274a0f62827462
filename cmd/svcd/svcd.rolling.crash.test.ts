// A rolling upgrade: the daemon of the tree before works on a database, the one of this tree starts beside it and migrates it
// under the traffic, both take what comes, and the old one leaves. Nothing is lost and nothing is routed twice.
// Which tree that is, testdata/rolling/landed.txt says: the newest there, with SVC_LONG=1 each; SVC_PREVIOUS names another.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { apiClient, readClientFile, spawnDaemon } from '../../internal/base/testkit/daemon.ts';
import { isLong } from '../../internal/base/testkit/long.ts';
import { createTestDatabase } from '../../internal/base/testkit/postgres.ts';
import { scriptedAgent } from '../../internal/adapters/harness/harness-testkit.ts';
import { MixedWork } from './rolling-testkit.ts';

const run = promisify(execFile);
const top = fileURLToPath(new URL('../../', import.meta.url));
const git = async (...args: string[]): Promise<string> => (await run('git', ['-C', top, ...args])).stdout.trim();

/** Of the trees in use, those from which one comes to this one, newest first; none where the checkout has no history. */
async function previous(): Promise<string[]> {
  const given = process.env['SVC_PREVIOUS'];
  if (given !== undefined) return [given];
  const text = await readFile(join(top, 'testdata/rolling/landed.txt'), 'utf8');
  const known: string[] = [];
  for (const commit of text.split('\n').filter((line) => /^[0-9a-f]{40}$/.test(line))) {
    const isBefore = await git('merge-base', '--is-ancestor', commit, 'HEAD').then(
      () => true,
      () => false,
    );
    if (isBefore && (await git('rev-parse', 'HEAD')) !== commit) known.unshift(commit);
  }
  return known;
}

test('the daemon of the tree before and this one share a database under traffic, and nothing is lost', async (t) => {
  const commits = await previous();
  if (commits.length === 0) return t.skip('this checkout has no history in which a tree that is in use stands');
  for (const commit of commits.slice(0, isLong ? commits.length : 1)) {
    await t.test(`from ${commit.slice(0, 12)}`, () => upgradeFrom(commit));
  }
});

async function upgradeFrom(commit: string): Promise<void> {
  const dir = await mkdtemp(join(tmpdir(), 'svc-rolling-'));
  const database = await createTestDatabase({ empty: true });
  const stops: (() => Promise<unknown>)[] = [];
  try {
    const tree = join(dir, 'tree');
    await mkdir(tree);
    const archive = join(dir, 'tree.tar');
    await git('archive', '--output', archive, commit);
    await run('tar', ['-xf', archive, '-C', tree]);
    await symlink(join(top, 'node_modules'), join(tree, 'node_modules'));
    const key = join(dir, 'master.key');
    await writeFile(key, `1:${randomBytes(32).toString('base64')}\n`, { mode: 0o600 });
    // A tree of before waits until all is told, and who takes every push of twenty has a write a second to tell for each.
    const config = join(dir, 'config.json');
    await writeFile(config, '{"providers":{"codehost":{"writeSpacingMs":0}}}');
    const env = {
      SVC_CONFIG: config,
      SVC_DATABASE_URL: database.url,
      SVC_MASTER_KEY_FILE: key,
      SVC_ALLOW_PRIVATE_NETWORK: 'true',
      SVC_HARNESS_A_COMMAND: JSON.stringify(scriptedAgent),
      SVC_SANDBOX: 'process',
    };
    const start = (name: string, entry?: string) => {
      const daemon = spawnDaemon({ dataDir: join(dir, name), env, ...(entry !== undefined && { entry }) });
      stops.push(() => daemon.kill('SIGKILL'));
      return daemon;
    };
    const old = start('old', join(tree, 'cmd/svcd/main.ts'));
    const oldUrl = (await old.ready).url;
    const api = apiClient(oldUrl, readClientFile(old.dataDir).token);
    const content =
      'name: worker\nharness: harness-b\nenvironment: {name: default, image: {kind: preset, name: base}}\n' +
      'triggers: [{name: hook, event: webhook.received, endpoint: in, auth: {kind: none}, routing: {kind: spawn}, ' +
      "message: 'from {{n}} {{mark}}'}]\n";
    const applied = await api('POST', 'P/apply', { files: [{ path: '.svc/agents/worker.yaml', content }] });
    assert.equal(applied.status, 200, JSON.stringify(applied.body));
    const path = new URL(String(applied.body['webhooks']?.[0]?.['ingestUrl'])).pathname;
    const work = await MixedWork.start(database.db, dir);
    stops.push(() => work.stop());
    await work.begin({ url: oldUrl, api });

    const accepted: string[] = [];
    const urls = [oldUrl];
    let isOver = false;
    let unanswered = 0;
    stops.push(async () => (isOver = true));
    const traffic = (async () => {
      for (let n = 0; !isOver; n += 1) {
        const url = urls[n % urls.length] ?? oldUrl;
        // A small one, one that is kept in a frame, and one that is kept compressed.
        const pad = 'some words '.repeat(n % 20 === 19 ? 60_000 : n % 5 === 4 ? 2_000 : 0);
        const sent = JSON.stringify({ n, pad, mark: 'behind' });
        const answer = await fetch(`${url}${path}`, { method: 'POST', body: sent }).catch((error: unknown) => error);
        if (!(answer instanceof Response)) {
          // A connection that rested is closed just as it is used again, on a machine that is busy. Who sends knows, and sends again.
          unanswered += 1;
          assert.ok(unanswered <= 3, String(answer));
          continue;
        }
        const body = (await answer.json()) as { eventRecordId?: string };
        if (answer.status === 202 && body.eventRecordId !== undefined) accepted.push(body.eventRecordId);
        else assert.equal(answer.status, 503, JSON.stringify(body));
        await sleep(10);
      }
    })();
    await sleep(500);
    const now = start('new');
    const nowUrl = (await now.ready).url;
    urls.push(nowUrl);
    // What one of them seals the other opens.
    const nowApi = apiClient(nowUrl, readClientFile(old.dataDir).token);
    for (const [by, from, to] of [
      ['old', api, nowApi],
      ['new', nowApi, api],
    ] as const) {
      const set = await from('PUT', `P/secrets/by-${by}`, { value: `sealed by ${by}`, protected: false });
      assert.ok([200, 201].includes(set.status), JSON.stringify(set.body));
      assert.equal((await to('POST', `P/secrets/by-${by}/reveal`)).body['value'], `sealed by ${by}`);
    }
    // Both take some of it, however slow the machine.
    const together = accepted.length + 60;
    while (accepted.length < together) await Promise.race([traffic, sleep(50)]);
    const sides = [
      { url: oldUrl, api },
      { url: nowUrl, api: nowApi },
    ] as const;
    await work.push(sides);
    for (let round = 0; round < 3; round += 1) await work.tick();
    urls.shift();
    await work.handOver(sides[1], async () => {
      const drained = await old.kill('SIGTERM');
      assert.equal(drained.code, 0, old.stderr().slice(-2_000));
    });
    await work.push([sides[1]]);
    await work.tick();
    isOver = true;
    await traffic;
    const left = async (): Promise<number> =>
      (await database.db.query(`select from svc.events where router_status = 'pending'`)).rowCount;
    for (let tries = 0; tries < 600 && (await left()) > 0; tries += 1) await sleep(100);
    const { rows } = await database.db.query<{ n: number }>(
      `select count(*)::int as n from svc.sessions where event_id = any($1::uuid[])`,
      [accepted],
    );
    assert.ok(accepted.length > 50, `${accepted.length} accepted`);
    assert.deepEqual(rows, [{ n: accepted.length }]);
    const { rows: whole } = await database.db.query<{ n: number }>(
      `select count(*)::int as n from svc.sessions s join svc.messages m on m.session_id = s.id
        where s.event_id = any($1::uuid[]) and m.text ~ '^from [0-9]+ behind$'`,
      [accepted],
    );
    assert.deepEqual(whole, rows, 'each was read to its end, whoever recorded it');
    const { rows: migrated } = await database.db.query<{ n: number }>('select count(*)::int as n from svc.migrations');
    assert.equal(
      migrated[0]?.n,
      (await readdir(join(top, 'migrations'))).filter((name) => name.endsWith('.sql')).length,
    );
    assert.doesNotMatch(old.stderr(), /"level":"(?:error|fatal)"/);
  } finally {
    for (const stop of stops) await stop();
    await database.close();
    await rm(dir, { recursive: true, force: true });
  }
}
