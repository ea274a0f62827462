// A database that does what it is told and is gone before it says so: what is told again is the same.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { createHostBench, type HostBench } from './host-testkit.ts';

describe('what a host writes and hears no answer to', () => {
  let bench: HostBench;
  before(async () => {
    bench = await createHostBench();
    const environment = { name: 'prompted', image: { kind: 'preset', name: 'base' }, approvals: 'prompt' };
    await bench.apply({ plain: {}, asking: { harness: 'harness-b', environment } });
  });
  after(() => bench.stop());

  /** The answer to the next statement of these words is lost. */
  const loseAnswer = (words: RegExp): { readonly isLost: () => boolean } => {
    const { db } = bench.daemon.ctx;
    const query = db.query.bind(db);
    let isLost = false;
    db.query = async (...of) => {
      const answer = await query(...of);
      if (isLost || !words.test(of[0])) return answer as never;
      isLost = true;
      db.query = query;
      throw Object.assign(new Error('the connection is gone'), { code: 'ECONNRESET' });
    };
    return { isLost: () => isLost };
  };

  it('is the end of a turn: the session goes on in its process', async () => {
    const session = await bench.start('plain', '!say ready');
    await bench.until(session, ({ state, said }) => state === 'idle' && said.includes('ready'));
    const answer = loseAnswer(/update svc\.turns set state = case when/);
    await bench.send(session, '!say first');
    await bench.until(session, ({ state, said }) => state === 'idle' && said.includes('first'));
    await bench.send(session, '!say second');
    const view = await bench.until(session, ({ state, said }) => state === 'idle' && said.includes('second'));
    assert.ok(answer.isLost());
    assert.deepEqual(
      view.texts.filter((text) => text.startsWith('The session goes on')),
      [],
    );
    const turns = await bench.turns(session);
    assert.deepEqual(
      turns.map(({ state }) => state),
      ['done', 'done', 'done'],
    );
  });

  it('is a question to a person: it is asked once, and its answer is heard', async () => {
    const answer = loseAnswer(/insert into svc\.permissions/);
    const session = await bench.start('asking', '!ask remove the file\n!say done with it');
    const asked = await bench.until(session, ({ state, texts }) => state === 'waiting_permission' && texts.length > 1);
    assert.ok(answer.isLost());
    const open = asked.body['permissions'] as unknown as { id: string }[];
    assert.equal(open.length, 1);
    await bench.daemon.api('POST', `P/sessions/${session}/permissions/${open[0]?.id}`, { decision: 'allow' });
    const view = await bench.until(session, ({ state, said }) => state === 'idle' && said.includes('done with it'));
    assert.ok(view.said.includes('permission once'), view.said);
    assert.deepEqual(
      view.texts.filter((text) => /again|goes on|failed/i.test(text)),
      [],
    );
    assert.deepEqual(
      (await bench.turns(session)).map(({ state }) => state),
      ['done'],
    );
  });
});
