// What the clock decides while sessions run: the roll of UTC days and months over spend caps, and how long what setup
// steps made is kept. One daemon on a clock of its own, through the API, with the scripted agent.

import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { createHostBench, type HostBench, type SessionView } from './host-testkit.ts';
import { type ModelStub, startModelStub } from './model-testkit.ts';

/** At rest, with nothing left to hear: a session rests for a moment before its first turn too. */
const idle = ({ state, body }: Pick<SessionView, 'state' | 'body'>): boolean =>
  state === 'idle' && Number(body['inbox']?.['pending']) + Number(body['inbox']?.['inFlight']) === 0;
const isBlocked = (view: SessionView): boolean => view.state === 'blocked';
/** What it says that it waits for before its first launch. */
const capOf = ({ body }: SessionView): string => String(body['reasonText']);
const awaitsCap = (view: SessionView): boolean => view.state === 'queued' && view.reason === 'cap';

describe('a daemon on a clock that is moved', () => {
  let bench: HostBench;
  let stub: ModelStub;
  let at = Date.now();
  let since = performance.now();
  const now = (): Date => new Date(at + performance.now() - since);
  const moveTo = (instant: string): void => {
    at = Date.parse(instant);
    since = performance.now();
  };
  before(async () => {
    stub = await startModelStub();
    moveTo('2031-03-29T12:00:00Z');
    bench = await createHostBench({
      runtime: { now },
      config: {
        allowPrivateNetwork: true,
        file: { providers: { model: { 'provider-a': { baseUrl: stub.url } } } },
        secretEnv: () => 'a-key-of-the-provider',
      },
    });
  });
  after(async () => {
    await bench.stop();
    await stub.stop();
  });
  const model = { provider: 'provider-a', id: 'claude-opus-4-8' };

  // Each call of the model comes to 30 USD.
  it('lets a session at its daily cap go on with the next UTC day, and at its monthly one with the next month', async () => {
    await bench.apply({ spender: { model, spendCaps: { dailyUsd: '30', monthlyUsd: '60' } } });
    // Its turn lasts until the cap ends it, and it is told the same again when there is room.
    const session = await bench.start('spender', '!model first\n!sleep 60000');
    const spent = (costUsd: string): Promise<SessionView> =>
      bench.until(session, (view) => isBlocked(view) && String(view.body['usage']?.['costUsd']) === costUsd);
    assert.match((await spent('30')).reason ?? '', /dailyUsd allows 30 USD .* it resets at 2031-03-30T00:00:00/);
    moveTo('2031-03-29T23:59:00Z');
    const waiting = await bench.start('spender', '!say hello');
    assert.match(capOf(await bench.until(waiting, awaitsCap)), /dailyUsd/);
    moveTo('2031-03-30T00:00:01Z');
    await spent('60');
    moveTo('2031-03-31T00:00:01Z');
    const late = await bench.start('spender', '!say hello');
    assert.match(
      capOf(await bench.until(late, awaitsCap)),
      /monthlyUsd allows 60 USD .* it resets at 2031-04-01T00:00:00/,
    );
    assert.equal((await bench.view(session)).state, 'blocked');
    moveTo('2031-04-01T00:00:01Z');
    const last = await spent('90');
    assert.deepEqual(last.body['inbox'], { pending: 1, inFlight: 0, done: 0, failed: 0 });
    const { body } = await bench.daemon.api('GET', 'P/agents/spender/usage');
    assert.deepEqual(
      ['day', 'month', 'total'].map((span) => String(body[span]?.['costUsd'])),
      ['30', '30', '90'],
    );
  });

  it('counts a turn that runs over midnight to both days', async () => {
    moveTo('2031-04-09T23:00:00Z');
    await bench.apply({ over: { model, spendCaps: { dailyUsd: '31' } } });
    const go = join(bench.daemon.dataDir, 'go');
    const waits = `!exec until [ -e ${go} ]; do sleep 0.05; done`;
    const session = await bench.start(
      'over',
      // The end of a text may be held back: it could be the beginning of a secret.
      `!model first\n!say one is paid, and it waits\n${waits}\n!model second\n!say both are paid`,
    );
    await bench.until(session, (view) => view.said.includes('one is paid'));
    moveTo('2031-04-10T00:00:01Z');
    await writeFile(go, '');
    const view = await bench.until(session, (seen) => idle(seen) && seen.said.includes('both are paid'));
    assert.equal(view.body['usage']?.['costUsd'], '60');
    // The same on one day is too much.
    const other = await bench.start('over', '!model third\n!sleep 60000');
    assert.match((await bench.until(other, isBlocked)).reason ?? '', /dailyUsd allows 31 USD/);
  });

  it('keeps what a setup step made for as long as ttl says, by the content of its files', async () => {
    moveTo('2031-05-01T08:00:00Z');
    const made = async (lock: string): Promise<string> => {
      const tools = {
        name: 'tools',
        commands: ['mkdir -p $HOME/tools && date +%s%N > $HOME/tools/made'],
        cache: { files: ['lock'], paths: ['/home/user/tools'] },
      };
      const setup = [{ name: 'lock', commands: [`echo ${lock} > lock`] }, tools];
      const environment = { name: 'kept', image: { kind: 'preset', name: 'base' }, setup, setupCache: { ttl: '1h' } };
      await bench.apply({ cached: { environment } });
      const session = await bench.start('cached', '!exec cat $HOME/tools/made lock');
      const { said } = await bench.until(session, (view) => idle(view) && view.said.includes('exit 0'));
      assert.ok(said.includes(`\n${lock}\n`), said);
      return said.split('\n')[0] ?? '';
    };
    const first = await made('one');
    assert.match(first, /^\d{15,}$/);
    assert.equal(await made('one'), first);
    const second = await made('two');
    assert.notEqual(second, first);
    assert.equal(await made('one'), first);
    moveTo('2031-05-01T08:55:00Z');
    assert.equal(await made('one'), first);
    moveTo('2031-05-01T09:05:00Z');
    const third = await made('one');
    assert.notEqual(third, first);
    assert.equal(await made('one'), third);
  });
});
