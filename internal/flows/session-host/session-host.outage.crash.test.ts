// A session whose database, or whose harness with all that it started, is killed at a named point, while its daemon lives:
// the daemon takes it up from there by itself. Postmaster and backends die together, and the server recovers from what
// is on its disk.

import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { armFailpoint } from '../../base/failpoint.ts';
import { embeddedPid } from '../../base/testkit/daemon.ts';
import { isLong } from '../../base/testkit/long.ts';
import { eventually, processesOf } from './host-crash-testkit.ts';
import { createHostBench, type HostBench } from './host-testkit.ts';

interface Point {
  readonly name: string;
  /** What makes a session that runs pass the point. */
  readonly then?: 'say' | 'archive';
  /** Also in the short form. */
  readonly isShort?: true;
}
const points: readonly Point[] = [
  { name: 'session.claimed', isShort: true },
  { name: 'session.sandbox-open' },
  { name: 'session.provisioned' },
  { name: 'session.spawned' },
  { name: 'session.opened' },
  { name: 'session.turn-due', isShort: true },
  { name: 'session.turn-begun', isShort: true },
  { name: 'session.interrupting', then: 'say', isShort: true },
  { name: 'session.turn-ended', isShort: true },
  { name: 'session.turn-settled' },
  { name: 'session.down', then: 'archive', isShort: true },
];
const isLabelled = (text: string): boolean => text.includes('[Delivered again: ');

/** The server's processes: the first, and those that it has started. */
function serverProcesses(postmaster: number): number[] {
  const parentOf = (pid: number): number => {
    try {
      const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
      return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
    } catch {
      return 0;
    }
  };
  const all = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  return [postmaster, ...all.map(Number).filter((pid) => parentOf(pid) === postmaster)];
}

const kill = (pids: readonly number[]): void => {
  for (const pid of pids) {
    try {
      process.kill(pid, 'SIGKILL');
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
    }
  }
};

/** No turn runs that no session runs, nothing is in flight without a turn, and who is at work has a lease; who has nothing to do needs none. */
async function unbacked(bench: HostBench): Promise<unknown> {
  const { rows } = await bench.daemon.ctx.db.query(
    `select s.id, s.state, s.lease_until, t.state as turn, i.state as message from svc.sessions s
       left join svc.turns t on t.session_id = s.id and t.state = 'running'
       left join svc.inbox i on i.session_id = s.id and i.state = 'in_flight'
      where (t.id is null) <> (i.seq is null) or (t.id is null) <> (s.state not in ('running', 'waiting_permission', 'interrupting'))
         or (s.state in ('provisioning', 'starting', 'idle', 'running', 'waiting_permission', 'interrupting')
             and (s.state <> 'idle' and s.leased_by is null or s.lease_until < now()))
      order by s.id`,
  );
  return rows;
}

for (const sandbox of isLong ? (['process', 'auto'] as const) : (['process'] as const)) {
  for (const victim of isLong ? (['database', 'harness'] as const) : (['database'] as const)) {
    describe(`a ${victim} that is killed with a session in the sandbox ${sandbox} at`, () => {
      let bench: HostBench;
      before(async () => {
        bench = await createHostBench({ config: { sandbox }, embedded: victim === 'database' });
        await bench.apply({ worker: {} });
      });
      after(async () => {
        armFailpoint(undefined);
        await bench.stop();
      });
      /** False as long as the database does not answer. */
      const sees = (session: string, wanted: (state: string, pending: number) => boolean): Promise<boolean> =>
        bench.view(session).then(
          ({ state, body }) => wanted(state, Number(body['inbox']?.['pending']) + Number(body['inbox']?.['inFlight'])),
          () => false,
        );

      for (const { name, then } of points.filter(({ isShort }) => isLong || isShort === true)) {
        it(name, async () => {
          const postmaster = victim === 'database' ? ((await embeddedPid(bench.daemon.dataDir)) ?? 0) : 0;
          let session = '';
          let struck = 0;
          const strike = (): void => {
            struck += 1;
            if (victim === 'harness') kill(processesOf(session));
            else kill(serverProcesses(postmaster));
          };
          armFailpoint(name, strike);
          // A turn that lasts, where it is told for the first time.
          const lasting =
            '!exec test -e told && touch again; touch told\n!say it has begun by now\n!exec test -e again || exec sleep 50';
          session = await bench.start('worker', `${then === undefined ? '' : lasting}\n!say first`);
          if (then !== undefined) {
            await eventually('it lasts', async () => (await bench.view(session)).said.includes('begun'));
            if (then === 'say') await bench.send(session, '!say second');
            else assert.equal((await bench.daemon.api('POST', `P/sessions/${session}/archive`)).status, 200);
          }
          await eventually('it was struck', () => struck === 1);
          const wanted = then === 'archive' ? 'archived' : 'idle';
          await eventually(wanted, () => sees(session, (state, waiting) => state === wanted && waiting === 0));
          assert.equal(struck, 1);
          if (then === 'archive') {
            await eventually('nothing of it runs', () => processesOf(session).length === 0);
            return;
          }
          assert.deepEqual(await unbacked(bench), []);
          const { body, said } = await bench.view(session);
          assert.equal(body['inbox']?.['failed'], 0);
          assert.ok(said.includes(then === undefined ? 'first' : 'second'), said);
          const heard = await bench.heard(session);
          for (const text of then === undefined ? ['!say first'] : ['!say first', '!say second']) {
            const tellings = heard.filter((one) => one.includes(text));
            assert.ok(tellings.length >= 1, `${text} in ${JSON.stringify(heard)}`);
            assert.ok(tellings.slice(1).every(isLabelled), JSON.stringify(tellings));
          }
          // Its end passes points too, after its processes are gone: none may strike for the next test.
          armFailpoint(undefined);
          assert.equal((await bench.daemon.api('POST', `P/sessions/${session}/archive`)).status, 200);
          await eventually('nothing of it runs', () => processesOf(session).length === 0);
          const folder = join(bench.daemon.dataDir, 'sandboxes', session);
          await eventually('its sandbox is destroyed', () => !existsSync(folder));
        });
      }
    });
  }
}
