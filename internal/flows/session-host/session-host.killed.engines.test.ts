// Sessions on a real dockerd whose daemon, engine, first process or box is killed (docs/reference/sessions.md#engines). What
// was left behind ends by itself, no message is lost, and the session goes on from its volume. Precondition: root, and dockerd of
// the distribution; `make test-engines` installs it.

import assert from 'node:assert/strict';
import { spawn, type ChildProcess } from 'node:child_process';
import { readFileSync, readlinkSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { lacking, startEngine, type TestEngine, testImage } from '../../adapters/engine/engine-testkit.ts';
import { isLong } from '../../base/testkit/long.ts';
import { atRest, type Box, hang, readSession, running, stateOf, wentOn } from './boxes-testkit.ts';
import { beginWorker, type CrashBench, createCrashBench, eventually } from './host-crash-testkit.ts';

const lostSeconds = 5;
/** Home is on the session's volume: the second time it finds what the first has left. */
const hangs = (): string => '! test -e ~/hung && touch ~/hung';

for (const name of ['docker', 'podman'] as const) {
  describe(`sessions on ${name}, killed`, { skip: lacking(name) ?? false }, () => {
    let engine: TestEngine;
    let bench: CrashBench;
    let second: ChildProcess | undefined;
    before(async () => {
      engine = await startEngine(name);
      const file = join(dirname(engine.socket), 'svc.json');
      const presets = { base: { image: testImage } };
      await writeFile(file, JSON.stringify({ sandboxes: { docker: { socket: engine.socket }, presets, lostSeconds } }));
      bench = await createCrashBench('docker', { SVC_CONFIG: file });
    });
    after(async () => {
      await bench?.remove();
      second?.kill('SIGKILL');
      await engine?.stop();
    });

    interface Listed {
      readonly Id: string;
      readonly State: string;
      readonly Labels: Readonly<Record<string, string>>;
    }
    const listed = async (session: string): Promise<Listed[]> => {
      const filters = encodeURIComponent(JSON.stringify({ label: [`svc/session=${session}`] }));
      const { body } = await engine.api('GET', `/v1.41/containers/json?all=true&filters=${filters}`);
      return body as Listed[];
    };
    const boxesOf = async (session: string): Promise<Box[]> =>
      (await listed(session)).map(({ Id, State, Labels }) => ({
        name: Id,
        epoch: Number(Labels['svc/epoch']),
        runs: State === 'running',
      }));
    const hasEnded = (session: string) =>
      eventually('its box has ended', async () => (await running(boxesOf, session)).length === 0);
    /** The engine as it was started, after it was killed. */
    const killEngine = async (): Promise<() => Promise<void>> => {
      const { pid } = engine;
      const [file = '', ...args] = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').slice(0, -1);
      const options = {
        cwd: readlinkSync(`/proc/${pid}/cwd`),
        env: { PATH: process.env['PATH'] ?? '' },
        stdio: 'ignore',
      } as const;
      process.kill(pid, 'SIGKILL');
      return async () => {
        second = spawn(file, args, options);
        await eventually('the engine answers', async () =>
          engine.api('GET', '/version').then(
            ({ status }) => status === 200,
            () => false,
          ),
        );
      };
    };

    it('the daemon: its box ends by itself, and the next one goes on from there', async () => {
      const one = await bench.start('home');
      const session = await beginWorker(one.api, '!say ready.');
      const box = await hang(one.api, session, { boxesOf, hangs });
      await one.daemon.kill('SIGKILL');
      await hasEnded(session);
      const next = await bench.start('home');
      await wentOn(next.api, session, { boxesOf, before: box });
      await next.api('POST', `P/sessions/${session}/archive`);
      await eventually('no box is left', async () => (await boxesOf(session)).length === 0);
      await next.daemon.kill('SIGTERM');
    });

    const unshown =
      name === 'podman' && 'not shown on Podman yet: its boxes do not depend on the program that was killed';
    it('the engine: the session waits for it, and goes on when it is back', { skip: unshown }, async () => {
      const { api, daemon } = await bench.start('home');
      const session = await beginWorker(api, '!say ready.');
      const box = await hang(api, session, { boxesOf, hangs });
      const startAgain = await killEngine();
      await eventually('it is suspended', async () => (await stateOf(api, session)) === 'suspended');
      await startAgain();
      await wentOn(api, session, { boxesOf, before: box });
      await daemon.kill('SIGTERM');
    });

    it('the first process of its box: the session goes on in a new one', async () => {
      const { api, daemon } = await bench.start('home');
      const session = await beginWorker(api, '!say ready.');
      const box = await hang(api, session, { boxesOf, hangs });
      const { body } = await engine.api('GET', `/v1.41/containers/${box.name}/json`);
      process.kill((body as { State: { Pid: number } }).State.Pid, 'SIGKILL');
      await wentOn(api, session, { boxesOf, before: box });
      await daemon.kill('SIGTERM');
    });

    const points = ['claimed', 'sandbox-open', 'provisioned', 'spawned', 'opened', 'turn-begun', 'turn-ended', 'down'];
    for (const point of isLong ? points : []) {
      it(`the daemon at session.${point}: nothing of it stays`, async () => {
        const first = await bench.start('home', { SVC_FAILPOINT: `session.${point}` });
        const session = await beginWorker(first.api, '!say first.');
        if (point === 'down') {
          await atRest(first.api, session, 'first.');
          await first.api('POST', `P/sessions/${session}/archive`).catch(() => undefined);
        }
        assert.equal((await first.daemon.exited).signal, 'SIGKILL');
        await hasEnded(session);
        const next = await bench.start('home');
        if (point !== 'down') {
          await atRest(next.api, session, 'first.');
          assert.equal((await readSession(next.api, session))['inbox']?.['failed'], 0);
        }
        await next.api('POST', `P/sessions/${session}/archive`);
        await eventually('no box is left', async () => (await boxesOf(session)).length === 0);
        await next.daemon.kill('SIGTERM');
      });
    }
  });
}
