// Sessions and SIGKILL: of the daemon at named points, of its database, and what another daemon makes of it. After each: no
// process is left, no message is lost, none goes in twice without its label, and no state stands without a lease.

import assert from 'node:assert/strict';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  type Api,
  apiClient,
  embeddedPid,
  readClientFile,
  spawnDaemon,
  tempDataDir,
} from '../../base/testkit/daemon.ts';
import { scriptedAgent } from '../../adapters/harness/harness-testkit.ts';
import { isLong } from '../../base/testkit/long.ts';
import { beginWorker, createCrashBench, eventually, heardUnder, processesOf } from './host-crash-testkit.ts';

const isLabelled = (text: string): boolean => text.includes('[Delivered again: ');

const stateOf = async (api: Api, session: string): Promise<string> =>
  String((await api('GET', `P/sessions/${session}`)).body['state']);

async function saidIn(api: Api, session: string): Promise<string> {
  const { body } = await api('GET', `P/sessions/${session}/messages?limit=200`);
  const items = body['items'] as unknown as { kind: string; text: string }[];
  return items.flatMap((one) => (one.kind === 'text' ? [one.text] : [])).join('');
}

interface Point {
  readonly name: string;
  /** Once the session runs: what makes it pass the point. */
  readonly then?: (api: Api, session: string) => Promise<unknown>;
  readonly ends?: true;
}
const say = (api: Api, session: string) => api('POST', `P/sessions/${session}/messages`, { text: '!say second' });
const archive = (api: Api, session: string) => api('POST', `P/sessions/${session}/archive`);
const short: readonly Point[] = [
  { name: 'session.spawned' },
  { name: 'session.turn-begun' },
  { name: 'session.interrupting', then: say },
  { name: 'session.turn-ended' },
];
const points: readonly Point[] = isLong
  ? [
      ...short,
      { name: 'session.claimed' },
      { name: 'session.sandbox-open' },
      { name: 'session.provisioned' },
      { name: 'session.opened' },
      { name: 'session.turn-due' },
      { name: 'session.turn-settled' },
      { name: 'session.down', then: archive, ends: true },
    ]
  : short;

describe('a daemon that is killed with a session at', () => {
  for (const sandbox of isLong ? ['process', 'auto'] : ['process']) {
    for (const { name, then, ends } of points) {
      it(`${name}, in the sandbox ${sandbox}: the next one goes on from there`, async () => {
        const bench = await createCrashBench(sandbox);
        try {
          const first = await bench.start('home', { SVC_FAILPOINT: name });
          // What interrupts it has all the time that it needs; the next daemon's harness does not wait again.
          const pause = then === undefined ? '!sleep 1000' : '!exec test -e ~/slept || { touch ~/slept; sleep 60; }';
          const session = await beginWorker(first.api, `${pause}\n!say first`);
          if (then !== undefined) {
            await eventually('it runs', async () => (await stateOf(first.api, session)) === 'running');
            await then(first.api, session).catch(() => undefined);
          }
          assert.equal((await first.daemon.exited).signal, 'SIGKILL');
          await eventually('nothing of it runs', () => processesOf(session).length === 0);
          const second = await bench.start('home');
          const wanted = ends === true ? 'archived' : 'idle';
          await eventually(wanted, async () => {
            const { body } = await second.api('GET', `P/sessions/${session}`);
            return body['state'] === (wanted as never) && body['inbox']?.['pending'] === (0 as never);
          });
          const { body } = await second.api('GET', `P/sessions/${session}`);
          const heard = await heardUnder(bench.dataDir('home'), session);
          if (ends === true) return;
          assert.equal(body['inbox']?.['failed'], 0);
          assert.equal(body['inbox']?.['inFlight'], 0);
          assert.ok((await saidIn(second.api, session)).includes(then === undefined ? 'first' : 'second'));
          // Told at least once, and not twice as if it were new.
          for (const text of then === undefined ? ['!say first'] : ['!say first', '!say second']) {
            const tellings = heard.filter((one) => one.includes(text));
            assert.ok(tellings.length >= 1, `${text} in ${JSON.stringify(heard)}`);
            assert.ok(tellings.slice(1).every(isLabelled), JSON.stringify(tellings));
          }
        } finally {
          await bench.remove();
        }
      });
    }
  }
});

describe('a session whose host or sandbox is gone', () => {
  it('moves to the other daemon, which tells its harness what was said, killed or not before the first turn', async () => {
    const bench = await createCrashBench('process');
    try {
      const first = await bench.start('one');
      const session = await beginWorker(first.api, 'remember the blue door');
      await eventually('it answered', async () => (await stateOf(first.api, session)) === 'idle');
      const killed = await bench.start('two', { SVC_FAILPOINT: 'session.turn-due' });
      await say(first.api, session);
      await eventually('the turn ended', async () => (await saidIn(first.api, session)).includes('second'));
      assert.deepEqual(await heardUnder(bench.dataDir('two'), session), [], 'it stays where it is');
      await first.daemon.kill('SIGKILL');
      await eventually('nothing of it runs there', () => processesOf(session).length === 0);
      await killed.api('POST', `P/sessions/${session}/messages`, { text: 'and go on' });
      assert.equal((await killed.daemon.exited).signal, 'SIGKILL');
      assert.deepEqual(await heardUnder(bench.dataDir('two'), session), [], 'its harness is up and knows nothing');
      const second = await bench.start('two');
      await eventually('the other told it', async () => (await heardUnder(bench.dataDir('two'), session)).length > 0);
      const [told = ''] = await heardUnder(bench.dataDir('two'), session);
      assert.match(told, /goes on in a new place.*remember the blue door.*second.*and go on$/s);
      await eventually('it is idle', async () => (await stateOf(second.api, session)) === 'idle');
      await rm(join(bench.dataDir('two'), 'sandboxes', session), { recursive: true });
      for (const pid of processesOf(session)) process.kill(pid, 'SIGKILL');
      await second.api('POST', `P/sessions/${session}/messages`, { text: 'once more' });
      await eventually('it was told anew', async () =>
        (await heardUnder(bench.dataDir('two'), session)).some((text) => text.endsWith('once more')),
      );
      assert.match((await heardUnder(bench.dataDir('two'), session))[0] ?? '', /remember the blue door/);
    } finally {
      await bench.remove();
    }
  });

  it('keeps its turn when the database is killed under it', async () => {
    const data = await tempDataDir();
    const daemon = spawnDaemon({
      dataDir: data.path,
      env: { SVC_HARNESS_A_COMMAND: JSON.stringify(scriptedAgent), SVC_SANDBOX: 'process' },
    });
    try {
      const { url } = await daemon.ready;
      const api = apiClient(url, readClientFile(data.path).token);
      const session = await beginWorker(api, '!say before it sleeps\n!sleep 4000\n!say after');
      await eventually('it runs', async () => (await saidIn(api, session)).includes('before'));
      const pid = await embeddedPid(data.path);
      process.kill(pid ?? 0, 'SIGKILL');
      await sleep(1_000);
      const idle = async (): Promise<boolean> => (await stateOf(api, session)) === 'idle';
      await eventually('it is idle', () => idle().catch(() => false));
      assert.ok((await saidIn(api, session)).includes('after'));
      await say(api, session);
      await eventually('it answers', async () => (await saidIn(api, session)).includes('second'));
      const heard = await heardUnder(data.path, session);
      assert.deepEqual(heard.slice(1), ['!say second'], 'the turn went on meanwhile');
    } finally {
      await daemon.kill('SIGTERM');
      await data.remove();
    }
  });
});
