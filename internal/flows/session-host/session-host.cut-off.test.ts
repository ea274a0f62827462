// A host that lives and is cut off from its database: no session runs at two hosts, the host lets go of its own by itself
// before another may begin, and changes nothing of them when it is back. Real daemons on one database.

import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { startCutProxy } from '../../base/testkit/cut-proxy.ts';
import type { Api } from '../../base/testkit/daemon.ts';
import type { Database } from '../../adapters/store/store.ts';
import {
  beginWorker,
  createCrashBench,
  environments,
  eventually,
  heardUnder,
  processesOf,
} from './host-crash-testkit.ts';

const takenOverMs = 120_000;

/** All that is stored of a session, but its lease, which its host renews. */
async function stored(db: Database, session: string): Promise<unknown> {
  const { rows } = await db.query(
    `select (select to_jsonb(s) - 'lease_until' from svc.sessions s where id = $1::uuid) as session,
       (select jsonb_agg(to_jsonb(m) order by m.seq) from svc.messages m where session_id = $1::uuid) as messages,
       (select jsonb_agg(to_jsonb(i) order by i.seq) from svc.inbox i where session_id = $1::uuid) as inbox,
       (select jsonb_agg(to_jsonb(t) order by t.number) from svc.turns t where session_id = $1::uuid) as turns`,
    [session],
  );
  return rows[0];
}

/**
 * What it said, and then its state: idle after a message's own words were there is the end of that message's turn, where
 * idle before them could be the end of the turn before it. A host in trouble may not answer; it is asked again then.
 */
const read = async (api: Api, session: string): Promise<{ state: string; said: string }> => {
  const page = await api('GET', `P/sessions/${session}/messages?limit=200&order=desc`);
  if (page.status === 503) return { state: 'not told', said: '' };
  assert.equal(page.status, 200, JSON.stringify(page.body));
  const newest = page.body['items'] as unknown as { kind: string; text: string }[];
  const { body } = await api('GET', `P/sessions/${session}`);
  const said = newest.filter((one) => one.kind === 'text').toReversed();
  return { state: String(body['state']), said: said.map((one) => one.text).join('') };
};

/** Where the other host was told what was cut off, something ends that turn: from then on the session is quiet. */
async function settle(api: Api, session: string, dataDir: string, isCut = true): Promise<void> {
  if (isCut) await eventually('it is told again', async () => (await heardUnder(dataDir, session)).length > 0);
  assert.equal((await api('POST', `P/sessions/${session}/messages`, { text: '!say over here' })).status, 202);
  await eventually('it is quiet', async () => {
    const { state, said } = await read(api, session);
    return state === 'idle' && said.includes('over here');
  });
}

describe('a host that is cut off from its database', { concurrency: 2 }, () => {
  it('ends its harnesses before another host starts them, and writes nothing when the network is back', async () => {
    const bench = await createCrashBench('process');
    const network = await startCutProxy(bench.database.url);
    try {
      const one = await bench.start('one', { SVC_DATABASE_URL: network.url });
      // One whose turn goes on while it is cut off, one whose turn comes to its end, and one that has nothing to do.
      const sessions: string[] = [];
      const go = join(bench.dataDir('one'), 'go');
      // The end of a text may be held back: it could be the beginning of a secret.
      const until = `!say chunk by chunk\n!exec until [ -e ${go} ]; do sleep 0.05; done`;
      for (const message of ['!stream 1000000 20', until, '!say chunk']) {
        sessions.push(await beginWorker(one.api, message));
      }
      for (const session of sessions) {
        await eventually('it speaks', async () => (await read(one.api, session)).said.includes('chunk'));
      }
      const two = await bench.start('two');
      const at = (name: string, session: string, among = environments()): number[] =>
        processesOf(session, bench.dataDir(name), among);
      const moved = new Set<string>();
      assert.ok(sessions.every((session) => at('one', session).length > 0));
      network.cut();
      await writeFile(go, '');
      await eventually(
        'the other host runs those that have something to do',
        () => {
          const now = environments();
          for (const session of sessions) {
            const [here, there] = [at('one', session, now), at('two', session, now)];
            assert.ok(here.length === 0 || there.length === 0, `${sessions.indexOf(session)} runs at both`);
            if (there.length > 0) moved.add(session);
          }
          // The one that has nothing to do takes no place anywhere.
          return moved.size === 2 && at('one', sessions[2] ?? '', now).length === 0;
        },
        takenOverMs,
      );
      for (const [n, session] of sessions.entries()) await settle(two.api, session, bench.dataDir('two'), n < 2);
      const [told = ''] = await heardUnder(bench.dataDir('two'), sessions[0] ?? '');
      assert.match(told, /\n\[Delivered again: [^]*!stream/);
      const before = await Promise.all(sessions.map((session) => stored(bench.database.db, session)));
      assert.ok(network.heldBytes() > 0, 'something of it is still under way');
      network.mend();
      await eventually('it is back', async () => (await one.api('GET', '/readyz')).status === 200, takenOverMs);
      assert.deepEqual(await one.daemon.kill('SIGTERM'), { code: 0, signal: null });
      assert.deepEqual(await Promise.all(sessions.map((session) => stored(bench.database.db, session))), before);
      assert.deepEqual(
        sessions.flatMap((session) => at('one', session)),
        [],
      );
    } finally {
      await network.stop();
      await bench.remove();
    }
  });

  it('that stood still until its lease was another’s ends its harness when it goes on, and writes nothing', async () => {
    const bench = await createCrashBench('process');
    let stopped: number | undefined;
    try {
      const one = await bench.start('one');
      const session = await beginWorker(one.api, '!stream 1000000 20');
      await eventually('it speaks', async () => (await read(one.api, session)).said.includes('chunk'));
      const two = await bench.start('two');
      stopped = one.daemon.process.pid ?? 0;
      process.kill(stopped, 'SIGSTOP');
      const at = (name: string): number[] => processesOf(session, bench.dataDir(name));
      await eventually('another host runs it', () => at('two').length > 0, takenOverMs);
      await settle(two.api, session, bench.dataDir('two'));
      const before = await stored(bench.database.db, session);
      process.kill(stopped, 'SIGCONT');
      stopped = undefined;
      await eventually('it has let go', () => at('one').length === 0);
      assert.deepEqual(await one.daemon.kill('SIGTERM'), { code: 0, signal: null });
      assert.deepEqual(await stored(bench.database.db, session), before);
    } finally {
      if (stopped !== undefined) process.kill(stopped, 'SIGCONT');
      await bench.remove();
    }
  });
});
