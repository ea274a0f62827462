// How messages reach a session that runs (docs/reference/sessions.md#inbox), with the scripted agent, through the API and the
// public doors.

import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { codehostDoor, post, settled } from '../routing/routing-testkit.ts';
import { createHostBench, type HostBench } from './host-testkit.ts';

const idle = (view: { readonly state: string }): boolean => view.state === 'idle';
const repository = { id: 1, full_name: 'o/r', name: 'r', owner: { login: 'o' } };
const sender = { login: 'ann', id: 1, type: 'User' };
const checkRun = (id: number) => ({
  action: 'completed',
  repository,
  sender,
  check_run: {
    id,
    name: 'ci',
    status: 'completed',
    conclusion: 'failure',
    head_sha: 'abc',
    check_suite: { id: 1, head_sha: 'abc' },
    pull_requests: [],
  },
});

describe('messages to a session that runs', { concurrency: 4 }, () => {
  let bench: HostBench;
  let arrive: (event: string, body: object) => Promise<string>;
  let hook: string;
  let watch: string;
  before(async () => {
    bench = await createHostBench();
    arrive = await codehostDoor(bench.daemon);
    const wake = (message: string, more: object = {}): object => ({
      event: 'webhook.received',
      endpoint: 'wake',
      auth: { kind: 'none' },
      routing: { kind: 'deliver' },
      message,
      ...more,
    });
    const waits = `while ! test -e ${join(bench.daemon.dataDir, 'go-setup')}; do sleep 0.05; done`;
    const slow = { image: { kind: 'preset', name: 'base' }, setup: [{ name: 'wait', commands: [waits] }] };
    await bench.apply({
      plain: {},
      watcher: {
        concurrency: 1,
        environment: { name: 'slow', ...slow },
        triggers: [
          {
            event: 'codehost.check_run.completed',
            connection: 'hub',
            where: { '$.codehost.checkRun.name': 'first' },
            routing: { kind: 'spawn' },
            message: 'the start',
          },
          wake('what comes next', { endpoint: 'watch' }),
        ],
      },
      merged: { concurrency: 1, triggers: ['one', 'two', 'three'].map((text) => wake(text)) },
      deferred: {
        concurrency: 1,
        triggers: [
          {
            event: 'codehost.check_run.completed',
            connection: 'hub',
            where: { '$.codehost.checkRun.name': 'ci' },
            routing: { kind: 'deliver' },
            message: 'a check',
          },
          {
            event: 'codehost.workflow_run.completed',
            connection: 'hub',
            routing: { kind: 'deliver' },
            message: 'a flow',
          },
        ],
      },
    });
    const pathOf = async (endpoint: string): Promise<string> => {
      const { body } = await bench.daemon.api('GET', `P/endpoints/${endpoint}`);
      return new URL(String(body['ingestUrl'])).pathname;
    };
    [hook, watch] = [await pathOf('wake'), await pathOf('watch')];
  });
  after(() => bench.stop());

  it('an interrupting event cancels the turn, and all of it goes in as one prompt', async () => {
    const session = await bench.start('merged', '!stream 2000 20');
    await bench.until(session, (view) => view.state === 'running' && view.texts.length > 1);
    await post(bench.daemon.url, hook, {});
    await settled(bench.daemon.ctx.db);
    await bench.until(session, (view) => idle(view) && view.said.includes('echo: '));
    assert.deepEqual((await bench.heard(session)).slice(1), ['one\n\ntwo\n\nthree']);
    assert.deepEqual(
      (await bench.turns(session)).map(({ state, stopReason }) => `${state} ${stopReason}`),
      ['cancelled cancelled', 'done finished'],
    );
    const inbox = (await bench.view(session)).body['inbox'];
    assert.deepEqual(inbox, { pending: 0, inFlight: 0, done: 4, failed: 0 });
  });

  it('a storm of messages goes in whole, once and in order, one prompt at a time', async () => {
    const session = await bench.start('plain', '!stream 100 20');
    const texts = Array.from({ length: 30 }, (_, index) => `message-${index}.`);
    for (const text of texts) await bench.send(session, text);
    await bench.until(session, (view) => idle(view) && view.body['inbox']?.['done'] === (31 as never));
    const heard = (await bench.heard(session)).join('\n');
    assert.deepEqual(heard.match(/message-\d+\./g), texts);
    // The agent refuses a prompt while another is in flight: that turn would have failed.
    for (const turn of await bench.turns(session)) assert.match(turn.state, /^(done|cancelled)$/, turn.error ?? '');
  });

  it('messages that do not fit into one prompt go in turn after turn, and end none', async () => {
    const go = join(bench.daemon.dataDir, 'go-on');
    const wait = `!exec while ! test -e ${go}; do sleep 0.05; done\n!say waited`;
    const session = await bench.start('plain', wait);
    await bench.until(session, (view) => view.state === 'running');
    // Written in one go, as routing does it: all of them wait at the same look.
    const { rows } = await bench.daemon.ctx.db.query<{ seq: number }>(
      `with said as (
         insert into svc.messages (session_id, seq, role, kind, text, at)
           select $1::uuid, nextval('svc.messages_seq'), 'user', 'prompt', '!say part-' || n || E'.\n' || repeat('x', 400000), now()
             from generate_series(1, 7) n returning session_id, seq
       )
       insert into svc.inbox (session_id, seq, mode, sender) select session_id, seq, 'interrupt', 'operator' from said
       returning seq`,
      [session],
    );
    assert.equal(rows.length, 7);
    await bench.daemon.ctx.db.query(`select pg_notify('svc_hosts', '')`);
    const view = await bench.until(session, (one) => idle(one) && one.body['inbox']?.['done'] === (8 as never));
    await writeFile(go, '');
    const heard = (await bench.heard(session)).slice(1);
    assert.deepEqual(
      heard.map((text) => text.match(/part-\d/g)?.length),
      [2, 2, 2, 1],
    );
    assert.deepEqual(heard.join('').match(/part-\d/g), [
      'part-1',
      'part-2',
      'part-3',
      'part-4',
      'part-5',
      'part-6',
      'part-7',
    ]);
    assert.deepEqual(
      (await bench.turns(session)).map((turn) => turn.state),
      ['cancelled', 'done', 'done', 'done', 'done'],
    );
    assert.deepEqual(view.body['inbox'], { pending: 0, inFlight: 0, done: 8, failed: 0 });
  });

  it('completed checks and workflows wait for idle, and go in one to a turn', async () => {
    const go = join(bench.daemon.dataDir, 'go');
    const session = await bench.start('deferred', `!exec while ! test -e ${go}; do sleep 0.05; done\n!say slept`);
    await bench.until(session, (view) => view.state === 'running');
    await arrive('check_run', checkRun(1));
    await arrive('workflow_run', {
      action: 'completed',
      repository,
      sender,
      workflow_run: {
        id: 2,
        name: 'w',
        status: 'completed',
        conclusion: 'success',
        head_sha: 'abc',
        pull_requests: [],
      },
    });
    await arrive('check_run', checkRun(3));
    assert.equal((await bench.view(session)).state, 'running');
    await writeFile(go, '');
    await bench.until(session, (view) => idle(view) && view.body['inbox']?.['done'] === (4 as never));
    const heard = await bench.heard(session);
    assert.deepEqual(
      heard.slice(1).map((text) => text.slice(0, 7)),
      ['a check', 'a flow', 'a check'],
    );
    const turns = await bench.turns(session);
    assert.deepEqual(
      turns.map((turn) => turn.state),
      ['done', 'done', 'done', 'done'],
    );
    assert.ok((await bench.view(session)).said.includes('slept'));
  });

  it('a session begins with what it was started with, also where the event that started it waits for idle elsewhere', async () => {
    const go = join(bench.daemon.dataDir, 'go-setup');
    const first = checkRun(4);
    await arrive('check_run', { ...first, check_run: { ...first.check_run, name: 'first' } });
    const { body } = await bench.daemon.api('GET', 'P/sessions?agent=watcher');
    const session = String(body['items']?.[0]?.['id']);
    await post(bench.daemon.url, watch, {});
    await settled(bench.daemon.ctx.db);
    assert.notEqual((await bench.view(session)).state, 'running');
    await writeFile(go, '');
    await bench.until(session, (view) => idle(view) && view.body['inbox']?.['done'] === (2 as never));
    assert.deepEqual(await bench.heard(session), ['the start\n\nwhat comes next']);
  });

  it('what interrupts goes in before what waits for idle', async () => {
    const session = await bench.start('plain', '!sleep 60000');
    await bench.until(session, (view) => view.state === 'running');
    // As routing would, in one transaction: a deferring one first.
    await bench.daemon.ctx.db.tx(async (tx) => {
      for (const [text, mode] of [
        ['deferred', 'defer'],
        ['at once', 'interrupt'],
      ]) {
        await tx.query(
          `with said as (insert into svc.messages (session_id, role, kind, text, at)
               values ($1::uuid, 'user', 'prompt', $2::text, now()) returning seq)
           insert into svc.inbox (session_id, seq, mode, sender) select $1::uuid, seq, $3::text, 'event' from said`,
          [session, text, mode],
        );
      }
    });
    await bench.until(session, (view) => idle(view) && view.body['inbox']?.['done'] === (3 as never));
    assert.deepEqual((await bench.heard(session)).slice(1), ['at once', 'deferred']);
  });

  it('a turn that is refused or cut at a limit is over, and the transcript says so', async () => {
    const session = await bench.start('plain', '!fail refusal');
    await bench.until(session, (view) => idle(view) && view.texts.includes('The model refused to go on.'));
    await bench.send(session, '!fail max_tokens');
    await bench.until(
      session,
      (view) => idle(view) && view.texts.includes('The turn was cut at its limit: max_tokens.'),
    );
  });

  it('a failed turn is never taken for a good one: what cannot succeed ends the session with its reason', async () => {
    for (const [kind, reason] of [
      ['invalid_request', /scripted failure invalid_request/],
      ['auth', /Authentication required/],
    ] as const) {
      const session = await bench.start('plain', `!fail ${kind}`);
      const { reason: told, body } = await bench.until(session, (view) => view.state === 'failed');
      assert.match(told ?? '', reason);
      assert.equal(body['inbox']?.['failed'], 1);
      assert.equal((await bench.turns(session))[0]?.state, 'failed');
    }
  });

  it('what may pass is tried again, labelled, a bounded number of times; then its message has failed and the session goes on', async () => {
    const kinds = ['rate_limit', 'end_turn', 'silent'];
    await Promise.all(
      kinds.map(async (kind) => {
        const session = await bench.start('plain', `!fail ${kind}`);
        const { reason, body, texts } = await bench.until(
          session,
          (view) => idle(view) && view.body['inbox']?.['failed'] === (1 as never),
        );
        assert.match(reason ?? '', /given up after 3 attempts: /, kind);
        assert.ok(texts.includes(reason ?? ''), 'the transcript says so');
        assert.equal(body['inbox']?.['done'], 0);
        const turns = await bench.turns(session);
        assert.deepEqual(
          turns.map((turn) => turn.state),
          ['failed', 'failed', 'failed'],
          kind,
        );
        await bench.send(session, '!say on it goes');
        const after = await bench.until(
          session,
          (view) => idle(view) && view.said.includes('on it goes') && view.reason == null,
        );
        assert.equal(after.body['inbox']?.['done'], 1);
      }),
    );
  });
});

describe('a message that comes while another one is tried again', () => {
  it('goes in beside it, and is not given up with it', async () => {
    const bench = await createHostBench();
    try {
      await bench.apply({ plain: {} });
      const session = await bench.start('plain', '!fail rate_limit');
      await bench.until(session, ({ texts }) => texts.filter((text) => /rate_limit/.test(text)).length === 3);
      await bench.send(session, '!say heard');
      const { body, messages } = await bench.until(
        session,
        (view) => idle(view) && view.body['inbox']?.['pending'] === (0 as never) && view.said.includes('heard'),
      );
      assert.deepEqual(body['inbox'], { pending: 0, inFlight: 0, done: 1, failed: 1 });
      assert.ok(messages.some(({ text }) => text.startsWith('given up after 3 attempts: ')));
      const heard = (await bench.heard(session)).map((text) => text.split('\n').filter((line) => line.startsWith('!')));
      assert.deepEqual(heard.slice(2), [['!fail rate_limit', '!say heard'], ['!say heard']]);
    } finally {
      await bench.stop();
    }
  });
});

describe('messages that were cut off', { concurrency: 4 }, () => {
  let bench: HostBench;
  before(async () => {
    bench = await createHostBench();
    await bench.apply({ plain: {} });
  });
  after(() => bench.stop());
  const label = '[Delivered again: ';

  it('are delivered again under their label when the harness was killed, to the same conversation', async () => {
    const script = '!exec test -e killed || { touch killed; kill -9 $PPID; }\n!say survived';
    const session = await bench.start('plain', script);
    const view = await bench.until(session, (seen) => idle(seen) && seen.said.includes('survived'));
    const heard = await bench.heard(session);
    assert.equal(heard.length, 2);
    assert.equal(heard[0], script);
    assert.ok(heard[1]?.startsWith(label) && heard[1].endsWith(script), heard[1]);
    assert.ok(view.texts.includes('The message of the turn that was cut off is delivered again.'));
    assert.ok(view.texts.includes('The session goes on.'));
    assert.deepEqual(
      (await bench.turns(session)).map((turn) => turn.state),
      ['lost', 'done'],
    );
  });

  it('are delivered in a new process where the harness knows its session no more, as after the end of the program behind it', async () => {
    const session = await bench.start('plain', '!forget\n!say first');
    await bench.until(session, (seen) => idle(seen) && seen.said.includes('first'));
    await bench.send(session, '!say second');
    const view = await bench.until(session, (seen) => seen.state === 'failed' || seen.said.includes('second'));
    assert.equal(view.reason, null);
    const heard = await bench.heard(session);
    assert.deepEqual([heard[0], heard.at(-1)?.split('\n').at(-1)], ['!forget\n!say first', '!say second']);
    assert.ok(view.texts.includes('The session goes on.'), 'with its history');
  });

  it('are let go of with the pause and the count of their launch, in one commit: whoever takes them finds both', async () => {
    const { db } = bench.daemon.database;
    await db.query(`create table public.let_go (id uuid, retry_at timestamptz, failures int)`);
    // As each commit leaves it.
    await db.query(`create function public.note_let_go() returns trigger language plpgsql as $$ begin
      insert into public.let_go select id, retry_at, failures from svc.sessions where id = new.id; return null; end $$`);
    await db.query(`create constraint trigger note_let_go after update on svc.sessions deferrable initially deferred
      for each row when (old.leased_by is not null and new.leased_by is null) execute function public.note_let_go()`);
    const session = await bench.start('plain', '!exec test -e gone || { touch gone; kill -9 $PPID; }\n!say back');
    await bench.until(session, (seen) => idle(seen) && seen.said.includes('back'));
    await db.query('drop trigger note_let_go on svc.sessions');
    const { rows } = await db.query<{ paused: boolean; failures: number }>(
      'select retry_at is not null as paused, failures from public.let_go where id = $1::uuid',
      [session],
    );
    assert.deepEqual(rows, [{ paused: true, failures: 1 }]);
  });

  it('are given up when they end the harness each time, and nothing runs any more', async () => {
    const session = await bench.start('plain', '!crash');
    const { reason } = await bench.until(session, (view) => view.state === 'failed');
    assert.match(reason ?? '', /given up after 3 attempts: the harness ended by SIGKILL/);
    assert.equal((await bench.turns(session)).length, 3);
  });

  it('reach a harness that hears nothing, in a new process', async () => {
    const session = await bench.start(
      'plain',
      '!say before it hangs\n!exec test -e hung || { touch hung; kill -STOP $PPID; }',
    );
    // The end of a text may be held back: it could be the beginning of a secret.
    await bench.until(session, (view) => view.state === 'running' && view.said.includes('before'));
    await bench.send(session, '!say heard');
    const view = await bench.until(session, (seen) => idle(seen) && seen.said.includes('heard'));
    assert.ok(view.texts.includes('The session goes on.'));
    const last = (await bench.heard(session)).at(-1) ?? '';
    assert.ok(last.includes('!say heard'), last);
    assert.ok(!last.endsWith(`${label}\n\n!say heard`), 'only what went in before is labelled');
  });
});
