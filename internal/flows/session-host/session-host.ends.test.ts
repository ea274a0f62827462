// How sessions come to their end and who takes their place (docs/reference/sessions.md#slot and #archive): each end leaves no
// process and no files.

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { after, before, describe, it } from 'node:test';
import { lockRouting } from '../../adapters/store/routing/routing-lock.ts';
import { endSession } from '../sessions/sessions.ts';
import { createHostBench, type HostBench } from './host-testkit.ts';

const idle = (view: { readonly state: string }): boolean => view.state === 'idle';
const svc = { svc: { kind: 'local', implementation: 'svc' } };

/** The process of its scripted agent, as it tells it. */
function pidIn(said: string): number {
  const [, pid = ''] = /pid (\d+)\./.exec(said) ?? [];
  return Number(pid);
}
const runs = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};
const tellPid = '!exec echo "pid $PPID."';

describe('the end of a session', { concurrency: 3 }, () => {
  let bench: HostBench;
  before(async () => {
    bench = await createHostBench();
    await bench.apply({
      plain: {},
      brief: { session: { archiveAfterInactive: { seconds: 60 } } },
      selfish: { tools: svc },
      boss: { tools: svc, manages: ['plain'] },
      stranger: { tools: svc },
    });
  });
  after(() => bench.stop());

  const gone = async (session: string, pid: number): Promise<void> => {
    assert.ok(pid > 0);
    const files = join(bench.daemon.dataDir, 'sandboxes', session);
    for (let waited = 0; runs(pid) || existsSync(files); waited += 50) {
      assert.ok(waited < 120_000, `process ${runs(pid)}, files ${existsSync(files)}`);
      await sleep(50);
    }
  };
  const up = async (agent: string): Promise<{ session: string; pid: number }> => {
    const session = await bench.start(agent, tellPid);
    const view = await bench.until(session, (seen) => idle(seen) && pidIn(seen.said) > 0);
    const pid = pidIn(view.said);
    assert.ok(runs(pid) && existsSync(join(bench.daemon.dataDir, 'sandboxes', session)));
    return { session, pid };
  };

  it('by an operator: also in the middle of a turn', async () => {
    const { session, pid } = await up('plain');
    await bench.send(session, '!sleep 60000');
    await bench.until(session, (view) => view.state === 'running');
    assert.equal((await bench.daemon.api('POST', `P/sessions/${session}/archive`)).status, 200);
    assert.equal((await bench.view(session)).reason, 'archived by administrator');
    await gone(session, pid);
    assert.equal((await bench.turns(session)).at(-1)?.state, 'cancelled');
  });

  it('by itself', async () => {
    const { session, pid } = await up('selfish');
    await bench.send(session, `!call svc svc_sessions_stop {"sessionId":"${session}"}\n!sleep 60000`);
    await bench.until(session, (view) => view.state === 'archived');
    await gone(session, pid);
  });

  it('by an agent that manages it, and by no other', async () => {
    const { session, pid } = await up('plain');
    const stranger = await bench.start('stranger', `!call svc svc_sessions_stop {"sessionId":"${session}"}`);
    await bench.until(stranger, (seen) => idle(seen) && seen.messages.length > 1);
    assert.equal((await bench.view(session)).state, 'idle');
    await bench.start('boss', `!call svc svc_sessions_stop {"sessionId":"${session}"}`);
    await bench.until(session, (view) => view.state === 'archived');
    await gone(session, pid);
  });

  it('after it was inactive for as long as its agent says', async () => {
    const { session, pid } = await up('brief');
    await bench.daemon.ctx.db.query(
      `update svc.sessions set active_at = now() - interval '61 seconds' where id = $1::uuid`,
      [session],
    );
    const { reason } = await bench.until(session, (view) => view.state === 'archived');
    assert.equal(reason, 'nothing happened for 60 s');
    await gone(session, pid);
  });
});

describe('a slot with replace: auto', () => {
  let bench: HostBench;
  before(async () => {
    bench = await createHostBench();
  });
  after(() => bench.stop());
  const keeper = (more: object = {}): Promise<void> =>
    bench.apply({
      keeper: {
        concurrency: 1,
        replace: 'auto',
        onReplace: '!say took over',
        bindings: { 'codehost.pull_request': { continuity: 'agent', lifecycle: 'manual' } },
        tools: svc,
        ...more,
      },
    });
  const successorOf = async (session: string): Promise<string> => {
    for (let waited = 0; waited < 120_000; waited += 100) {
      const { rows } = await bench.daemon.ctx.db.query<{ id: string }>(
        `select id from svc.sessions where parent_id = $1::uuid and origin = 'replacement'`,
        [session],
      );
      if (rows[0] !== undefined) return rows[0].id;
      await sleep(100);
    }
    throw new Error('no successor');
  };

  it('a stale session is replaced between two turns, by one on the latest spec that gets its claims', async () => {
    await keeper();
    const target = '{"target":{"type":"codehost.pull_request","key":"o/r#1"}}';
    const session = await bench.start('keeper', `!call svc svc_bind ${target}`);
    const bound = await bench.until(session, (view) => idle(view) && view.messages.length > 1);
    assert.equal((bound.body['bindings'] as unknown as unknown[]).length, 1, bound.said);
    await bench.send(session, '!sleep 2000\n!say finished');
    await bench.until(session, (view) => view.state === 'running');
    await keeper({ systemPrompt: 'Anew.' });
    const after = await bench.until(session, (view) => view.state === 'replaced');
    assert.match(after.reason ?? '', /the agent is at revision 2 now/);
    assert.ok(after.said.includes('finished'), 'the turn was let finish');
    const successor = await successorOf(session);
    const view = await bench.until(successor, (seen) => idle(seen) && seen.said.includes('took over'));
    assert.equal(view.body['revision'], 2);
    assert.equal((view.body['bindings'] as unknown as unknown[]).length, 1);
    assert.deepEqual(view.body['claims'], [{ kind: 'slot' }]);
    await bench.daemon.api('POST', `P/sessions/${successor}/archive`);
  });

  it('one whose environment has changed is replaced as well, though its agent is at the same revision', async () => {
    const environment = (value: string) => ({
      environment: { name: 'kept', image: { kind: 'preset', name: 'base' }, env: { OF: value } },
      onReplace: '!env OF',
    });
    await keeper(environment('before'));
    const session = await bench.start('keeper', '!env OF');
    await bench.until(session, (view) => idle(view) && view.said.includes('OF=before'));
    await keeper(environment('after'));
    const { reason } = await bench.until(session, (view) => view.state === 'replaced');
    assert.equal(reason, 'the environment of the agent is another one now');
    const successor = await successorOf(session);
    const view = await bench.until(successor, (seen) => idle(seen) && seen.said.includes('OF=after'));
    assert.equal(view.body['revision'], (await bench.view(session)).body['revision']);
    await bench.daemon.api('POST', `P/sessions/${successor}/archive`);
  });

  it('a failed one gets a successor, later each time it fails again, and never in a hot loop', async () => {
    const { api, ctx } = bench.daemon;
    assert.ok((await api('PUT', 'P/secrets/wanted', { value: 'of a secret' })).status < 300);
    await keeper({ env: { KEY: { $secret: 'wanted' } } });
    assert.ok((await api('DELETE', 'P/secrets/wanted')).status < 300);
    const session = await bench.start('keeper', '!say hello');
    const { reason } = await bench.until(session, (view) => view.state === 'failed');
    assert.equal(reason, 'Secret not found: wanted');
    const second = await successorOf(session);
    assert.equal((await bench.until(second, (view) => view.state === 'failed')).reason, reason);
    await sleep(6_000);
    const early = await ctx.db.query(
      `select from svc.sessions n join svc.sessions p on p.id = n.parent_id
        where p.id = $1::uuid and n.created_at < p.ended_at + interval '20 seconds'`,
      [second],
    );
    assert.equal(early.rowCount, 0, 'the next one comes after 20 s');
    assert.ok((await api('PUT', 'P/secrets/wanted', { value: 'of a secret' })).status < 300);
    await ctx.db.query(`update svc.sessions set ended_at = ended_at - interval '1 minute' where id = $1::uuid`, [
      second,
    ]);
    await bench.until(await successorOf(second), (seen) => idle(seen) && seen.said.includes('took over'));
  });

  it('what a failed session had not heard to its end goes to its successor, in order and before what is new', async () => {
    const before = (await bench.daemon.api('GET', 'P/sessions?live=true')).body['items'] as unknown as { id: string }[];
    for (const { id } of before) await bench.daemon.api('POST', `P/sessions/${id}/archive`);
    await keeper({ bindings: {}, tools: {} });
    const session = await bench.start('keeper', '!say begun');
    await bench.until(session, (view) => idle(view) && view.said.includes('begun'));
    await bench.send(session, '!sleep 600000\n!say first of two');
    await bench.until(session, (view) => view.state === 'running');
    const { ctx } = bench.daemon;
    // One that waits for idle, and the end of the session before it has come to either.
    await ctx.db.query(
      `with said as (insert into svc.messages (session_id, role, kind, text, at)
           values ($1::uuid, 'user', 'prompt', '!say second of two', now()) returning seq)
       insert into svc.inbox (session_id, seq, mode, sender) select $1::uuid, seq, 'defer', 'event' from said`,
      [session],
    );
    const { rows } = await ctx.db.query<{ id: string }>(
      'select project_id as id from svc.sessions where id = $1::uuid',
      [session],
    );
    await ctx.db.tx(async (tx) =>
      endSession(ctx, await lockRouting(tx, rows[0]?.id ?? ''), session, 'failed', 'it came to harm'),
    );
    const successor = await successorOf(session);
    await bench.until(successor, (view) => view.state === 'running');
    await bench.daemon.api('POST', `P/sessions/${successor}/interrupt`);
    const { messages } = await bench.until(successor, (view) => idle(view) && view.said.includes('second of two'));
    const told = messages.filter((one) => one.kind === 'prompt').map((one) => one.text.split('\n').at(-1));
    assert.deepEqual(told, ['!say took over', '!say first of two', '!say second of two']);
    const [heard = ''] = await bench.heard(successor);
    assert.match(heard, /took over\n\n\[Delivered again: [^]*first of two$/, 'a part of it may be done');
  });
});
