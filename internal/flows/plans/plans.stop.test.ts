// A daemon that stops while much is to be told to a code host that takes one write a second, and to a server that says nothing.

import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { startTestDaemon } from '../../base/testkit/daemon.ts';
import { isWithin } from '../../base/testkit/parsing.ts';
import { createTestDatabase } from '../../base/testkit/postgres.ts';
import { until } from '../sync/sync-testkit.ts';
import { branchOff, startPlanBench } from './plans-testkit.ts';

const waiting = 14;

// Side by side: both wait most of the time.
describe('a stop', { concurrency: true }, () => {
  it('waits for no turn of a write, and the next one tells what was left, each once', async () => {
    const database = await createTestDatabase();
    const dataDir = await mkdtemp(join(tmpdir(), 'svc-plans-stop-'));
    const bench = await startPlanBench({ database, dataDir, config: { file: {} } });
    const { sim, daemon } = bench;
    let isStopped = false;
    let next: Awaited<ReturnType<typeof startTestDaemon>> | undefined;
    try {
      const repo = await bench.follow('app');
      await bench.quiet();
      const commits: string[] = [];
      await branchOff(repo, 'aside');
      for (let n = 0; n < waiting; n += 1)
        commits.push(await repo.git.commit({ 'notes.txt': `${n}` }, { branch: 'aside', message: `${n}` }));
      const told = () => repo.statuses.filter(({ sha }) => commits.includes(sha)).length;
      // Of each a sync was begun and overtaken, which is to be told of.
      await database.db.query(
        `insert into svc.commit_statuses (repository_id, commit, due_at, run_id, state, description)
         select r.id, c.commit, now(), gen_random_uuid(), 'pending', 'the sync has begun'
           from svc.repositories r, unnest($1::text[]) as c (commit)`,
        [commits],
      );
      await until('the first', async () => told() > 0);
      const begun = performance.now();
      isStopped = true;
      await daemon.stop();
      const ms = Math.round(performance.now() - begun);
      assert.ok(told() < waiting / 2, `${told()} were told`);
      assert.ok(isWithin(ms, 10_000), `stopped after ${ms} ms`);
      const file = { providers: { codehost: { writeSpacingMs: 0 } } };
      const { masterKeyFile } = daemon.ctx.config;
      const config = { allowPrivateNetwork: true, masterKeyFile, file };
      next = await startTestDaemon({ database, token: daemon.token, config });
      await until('the rest', async () => told() >= waiting);
      await until('no call that is sending', async () => {
        const { rowCount } = await database.db.query(`select from svc.calls where status = 'sending'`);
        return rowCount === 0;
      });
      assert.deepEqual(
        repo.statuses
          .map(({ sha }) => sha)
          .filter((sha) => commits.includes(sha))
          .toSorted(),
        commits.toSorted(),
      );
    } finally {
      await next?.stop();
      if (!isStopped) await daemon.stop();
      await sim.stop();
      await database.close();
      await rm(dataDir, { recursive: true, force: true });
    }
  });

  it('waits a while for a receiver that says nothing, and leaves the call to whoever comes next', async () => {
    let heard = 0;
    const server = createServer((request) => {
      request.resume();
      heard += 1;
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`;
    const database = await createTestDatabase();
    const dataDir = await mkdtemp(join(tmpdir(), 'svc-plans-stop-'));
    const daemon = await startTestDaemon({ database, dataDir, config: { allowPrivateNetwork: true } });
    let isStopped = false;
    try {
      assert.equal((await daemon.api('POST', 'P/receivers', { name: 'hook', kind: 'webhook', url })).status, 201);
      await database.db.query(
        `insert into svc.notices (project_id, condition, key, subject_id, subject)
         select id, 'connection-lost', 'one', gen_random_uuid(), '{}' from svc.projects`,
      );
      await until('the notice', async () => heard > 0);
      const begun = performance.now();
      isStopped = true;
      await daemon.stop();
      const ms = Math.round(performance.now() - begun);
      assert.ok(isWithin(ms, 15_000), `stopped after ${ms} ms`);
      const { rows } = await database.db.query('select status, handed_at is not null as handed from svc.calls');
      assert.deepEqual(rows, [{ status: 'sending', handed: true }]);
      // Whoever is left takes it over.
      const { masterKeyFile } = daemon.ctx.config;
      const config = { allowPrivateNetwork: true, masterKeyFile };
      const next = await startTestDaemon({ database, token: daemon.token, config });
      await until('an end of the call', async () => {
        const { rowCount } = await database.db.query(`select from svc.calls where status = 'unknown'`);
        return rowCount === 1;
      });
      await next.stop();
      assert.equal(heard, 1, 'it is sent no second time');
    } finally {
      if (!isStopped) await daemon.stop();
      server.closeAllConnections();
      server.close();
      await database.close();
      await rm(dataDir, { recursive: true, force: true });
    }
  });
});
