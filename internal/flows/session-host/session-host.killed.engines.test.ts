// Sessions on a real engine whose daemon, engine, wire or first process is killed (docs/reference/sessions.md#engines). What
// was left behind ends by itself, no message is lost, and the session goes on from its volume. Precondition: root, and the engines of
// the distribution; `make test-engines` installs it.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, describe, it, type TestContext } from 'node:test';
import { lacking } from '../../adapters/engine/engine-testkit.ts';
import { isLong } from '../../base/testkit/long.ts';
import { atRest, hang, readSession, saidIn, stateOf, wentOn } from './boxes-testkit.ts';
import { createEngineBench, type EngineBench } from './engine-crash-testkit.ts';
import { beginWorker, eventually } from './host-crash-testkit.ts';

const lostSeconds = 5;
/** Home is on the session's volume: the second time it finds what the first has left. */
const hangs = (): string => '! test -e ~/hung && touch ~/hung';

for (const name of ['docker', 'podman'] as const) {
  describe(`sessions on ${name}, killed`, { skip: lacking(name) ?? false }, () => {
    let on: EngineBench;
    before(async () => {
      on = await createEngineBench(name, { sandboxes: { lostSeconds } });
    });
    after(() => on?.stop());
    const boxesOf = (session: string) => on.boxesOf(session);

    /** Ended with its test. */
    const start = async (t: TestContext, env: { readonly [variable: string]: string } = {}, home = 'home') => {
      const started = await on.bench.start(home, env);
      t.after(() => started.daemon.kill('SIGKILL'));
      return started;
    };
    const killFirstProcess = async (box: string): Promise<void> => {
      const { body } = await on.engine.api('GET', `/v1.41/containers/${box}/json`);
      process.kill((body as { State: { Pid: number } }).State.Pid, 'SIGKILL');
    };

    it('the daemon: its box ends by itself, and the next one goes on from there', async (t) => {
      const one = await start(t);
      const session = await beginWorker(one.api, '!say ready.');
      const box = await hang(one.api, session, { boxesOf, hangs });
      await one.daemon.kill('SIGKILL');
      await on.hasEnded(session);
      const next = await start(t);
      await wentOn(next.api, session, { boxesOf, before: box });
      await next.api('POST', `P/sessions/${session}/archive`);
      await on.isGone(session);
      await next.daemon.kill('SIGTERM');
    });

    it('the first process of its box: the session goes on in a new one', async (t) => {
      const { api, daemon } = await start(t);
      const session = await beginWorker(api, '!say ready.');
      const box = await hang(api, session, { boxesOf, hangs });
      await killFirstProcess(box.name);
      await wentOn(api, session, { boxesOf, before: box });
      await api('POST', `P/sessions/${session}/archive`);
      await on.isGone(session);
      await daemon.kill('SIGTERM');
    });

    it('the daemon, for good: another one of the same engine goes on, and all is gone when both are there', {
      skip: !isLong && 'SVC_LONG=1',
    }, async (t) => {
      const one = await start(t);
      const session = await beginWorker(one.api, '!say ready.');
      await atRest(one.api, session, 'ready.');
      const other = await start(t, {}, 'other');
      await one.daemon.kill('SIGKILL');
      await other.api('POST', `P/sessions/${session}/messages`, { text: '!say after.' });
      await atRest(other.api, session, 'after.');
      const back = await start(t);
      await other.api('POST', `P/sessions/${session}/archive`);
      await on.isGone(session);
      assert.deepEqual(on.twins, []);
      await Promise.all([back, other].map(({ daemon }) => daemon.kill('SIGTERM')));
    });

    it('the wire, for good: it is told, the session is suspended when its box has ended, and goes on when it is mended', {
      skip: !isLong && 'SVC_LONG=1',
    }, async (t) => {
      // On one of them as it is where nothing is set.
      const [seconds, env] = name === 'docker' ? [60, { SVC_CONFIG: on.patient }] : [lostSeconds, {}];
      const { api, daemon } = await start(t, env);
      const session = await beginWorker(api, '!say ready.');
      const box = await hang(api, session, { boxesOf, hangs });
      const began = performance.now();
      const mend = on.cutOff();
      await eventually('its wire is lost while it runs', async () => {
        const { state, wire } = await readSession(api, session);
        return state === ('running' as never) && wire === ('lost' as never);
      });
      await eventually('it is suspended', async () => (await stateOf(api, session)) === 'suspended');
      const tookMs = performance.now() - began;
      assert.ok(tookMs > seconds * 900, `suspended ${tookMs} ms after the cut`);
      await on.hasEnded(session);
      mend();
      await wentOn(api, session, { boxesOf, before: box });
      await api('POST', `P/sessions/${session}/archive`);
      await on.isGone(session);
      assert.deepEqual(on.twins, []);
      await daemon.kill('SIGTERM');
    });

    const points = ['claimed', 'sandbox-open', 'provisioned', 'spawned', 'opened', 'turn-begun', 'turn-ended', 'down'];
    for (const point of isLong ? points : []) {
      it(`the daemon at session.${point}: nothing of it stays`, async (t) => {
        const first = await start(t, { SVC_FAILPOINT: `session.${point}` });
        const session = await beginWorker(first.api, '!say first.');
        if (point === 'down') {
          await atRest(first.api, session, 'first.');
          await first.api('POST', `P/sessions/${session}/archive`).catch(() => undefined);
        }
        assert.equal((await first.daemon.exited).signal, 'SIGKILL');
        await on.hasEnded(session);
        const next = await start(t);
        if (point !== 'down') {
          await atRest(next.api, session, 'first.');
          assert.equal((await readSession(next.api, session))['inbox']?.['failed'], 0);
        }
        await next.api('POST', `P/sessions/${session}/archive`);
        await on.isGone(session);
        assert.deepEqual(on.twins, []);
        await next.daemon.kill('SIGTERM');
      });
    }

    /** While the daemon stands still at a point. */
    const kills: { readonly [what: string]: () => Promise<void> } = {
      'the first process of its box': async () => {
        for (const box of await on.running()) await killFirstProcess(box);
      },
      'the wire': async () => on.cut(),
      // Last: an engine that was killed tells later ends of boxes late.
      'the engine': () => on.killEngine()(),
    };
    const isStopped = (pid: number): boolean => /^State:\sT/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
    for (const [what, kill] of Object.entries(isLong ? kills : {})) {
      for (const point of points) {
        it(`${what} at session.${point}: no message is lost, and nothing of it stays`, async (t) => {
          const { api, daemon } = await start(t, { SVC_FAILPOINT: `session.${point}:stop` });
          const begun = beginWorker(api, '!say first.');
          let archived: Promise<unknown> | undefined;
          if (point === 'down') {
            const session = await begun;
            await atRest(api, session, 'first.');
            archived = api('POST', `P/sessions/${session}/archive`);
          }
          await eventually('it stands still', () => isStopped(daemon.process.pid ?? 0));
          await kill();
          daemon.process.kill('SIGCONT');
          const session = await begun;
          await archived;
          if (point !== 'down') {
            await atRest(api, session, 'first.');
            const { inbox } = await readSession(api, session);
            assert.deepEqual(inbox, { pending: 0, inFlight: 0, done: 1, failed: 0 } as never);
            // A wire that is cut loses and repeats nothing.
            if (what === 'the wire') assert.equal(await saidIn(api, session), 'first.');
            if (what === 'the wire') assert.deepEqual(await on.heard(session), ['!say first.']);
            await api('POST', `P/sessions/${session}/archive`);
          }
          await on.isGone(session);
          assert.deepEqual(on.twins, []);
          await daemon.kill('SIGTERM');
        });
      }
    }

    it('the engine: the session waits for it, and goes on when it is back', async (t) => {
      const { api, daemon } = await start(t);
      const session = await beginWorker(api, '!say ready.');
      const box = await hang(api, session, { boxesOf, hangs });
      const startAgain = on.killEngine();
      await eventually('it is suspended', async () => (await stateOf(api, session)) === 'suspended');
      await startAgain();
      await wentOn(api, session, { boxesOf, before: box });
      await api('POST', `P/sessions/${session}/archive`);
      await on.isGone(session);
      await daemon.kill('SIGTERM');
    });
  });
}
