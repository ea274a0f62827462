import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { createHostBench, type HostBench } from '../../flows/session-host/host-testkit.ts';

const svc = { kind: 'local', implementation: 'svc' };
const ping = { kind: 'local', implementation: 'ping' };

describe('tools of sessions that run, with the scripted agent as their harness', () => {
  let bench: HostBench;
  before(async () => {
    bench = await createHostBench();
    await bench.daemon.api('PUT', 'P/secrets/going', { value: 'soon-gone' });
  });
  after(() => bench.stop());

  it('a launch goes without optional tools whose connection is missing and without disabled ones', async () => {
    await bench.apply({
      lean: {
        tools: {
          '..': ping,
          'a.b': ping,
          off: { ...ping, disabled: true },
          errors: { kind: 'connection', provider: 'errtrack', connection: 'errors', optional: true },
          talk: {
            kind: 'local',
            implementation: 'chat',
            auth: { kind: 'connection', provider: 'slack', connection: 'talk', optional: true },
          },
          remote: {
            kind: 'mcp_remote',
            url: 'https://tools.example/mcp',
            auth: { kind: 'mcp_oauth', connection: 'remote', optional: true },
          },
        },
      },
    });
    const session = await bench.start('lean', '!tools\n!call __ ping {}\n!call a_b ping {}');
    const pongs = (said: string): number => said.split('"pong":true').length - 1;
    const told = await bench.until(session, (view) => view.state === 'idle' && pongs(view.said) === 2);
    const [listed = ''] = told.said.split('{');
    assert.deepEqual(listed.split('\n').toSorted(), ['__: ping', 'a_b: ping']);
  });

  it('a launch fails for good, and at once, where a remote tool’s secret is missing; the reason names it', async () => {
    await bench.apply({
      poor: {
        tools: {
          remote: {
            kind: 'mcp_remote',
            url: 'https://tools.example/mcp',
            auth: { kind: 'bearer', token: { $secret: 'going' } },
          },
        },
      },
    });
    await bench.daemon.api('DELETE', 'P/secrets/going');
    const session = await bench.start('poor', '!say never');
    const told = await bench.until(session, (view) => view.state === 'failed');
    assert.match(told.reason ?? '', /^Secret not found: going$/);
  });

  it('a session stops itself: its harness has the answer before it is ended, and the reason is kept', async () => {
    await bench.apply({ boss: { tools: { svc } }, helper: { tools: { svc } } });
    const file = join(bench.daemon.dataDir, 'heard');
    // It gets half a second for its answer, in which a crowded machine may not let it run at all: then another one tries.
    for (let tries = 1; !existsSync(file); tries += 1) {
      assert.ok(tries <= 5, 'none of five had its answer');
      const session = await bench.start('boss', '!say ready');
      await bench.until(session, (view) => view.state === 'idle' && view.said.includes('ready'));
      const stop = `!call svc svc_sessions_stop {"sessionId":"${session}","reason":"all done"}`;
      // What comes after the call is done only by one that has its answer.
      await bench.send(session, `${stop}\n!write ${file} yes\n!sleep 60000`);
      const told = await bench.until(session, (view) => view.state === 'archived');
      assert.equal(told.reason, 'all done');
      const place = join(bench.daemon.dataDir, 'sandboxes', session);
      while (existsSync(place) && !existsSync(file)) await sleep(20);
    }
  });

  it('one session spawns another, which answers it and is named to it', async () => {
    await bench.apply({ boss: { tools: { svc } }, helper: { tools: { svc } } });
    const boss = await bench.start('boss', '!say ready');
    await bench.until(boss, (view) => view.state === 'idle' && view.said.includes('ready'));
    const answer = `!call svc svc_sessions_message {\\"sessionId\\":\\"${boss}\\",\\"text\\":\\"!say heard it\\"}`;
    await bench.send(boss, `!call svc svc_sessions_spawn {"agent":"helper","message":"${answer}"}`);
    const told = await bench.until(boss, (view) => view.state === 'idle' && view.said.includes('heard it'));
    assert.ok(told.messages.some((one) => one.role === 'user' && one.text === '!say heard it'));
    const heard = (await bench.heard(boss)).at(-1) ?? '';
    assert.match(heard, /^\[Message of session [0-9a-f-]{36}, agent helper\]\n\n!say heard it$/);
  });
});
