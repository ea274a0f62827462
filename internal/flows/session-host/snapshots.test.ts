// Work that survives its host: a daemon stops, and another one with a data directory of its own goes on with the session's
// files and conversation. What is kept is sealed, bounded, and gone with its session.

import assert from 'node:assert/strict';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { scriptedAgent } from '../../adapters/harness/harness-testkit.ts';
import { apiClient, startTestDaemon, type TestDaemon } from '../../base/testkit/daemon.ts';
import { createHostBench, type HostBench } from './host-testkit.ts';
import { upkeepTurn } from './session-host.ts';

const mark = 'of-the-first-host-'.repeat(20);
const file = { sandboxes: { snapshots: { maxMB: 2 } } };

describe('the work of a session', () => {
  let first: HostBench;
  let second: TestDaemon | undefined;
  let owner: TestDaemon;
  before(async () => {
    // Holds the database and the keys, and runs no sessions.
    owner = await startTestDaemon({ config: { roles: ['api', 'route', 'schedule'] } });
    const { database, token, ctx } = owner;
    const config = { masterKeyFile: ctx.config.masterKeyFile, file, roles: ['api', 'session'] } as const;
    first = await createHostBench({ database, token, config });
    await first.apply({ a: {} });
  });
  after(async () => {
    await second?.stop();
    await owner.stop();
  });
  const one = async <T>(sql: string): Promise<T | undefined> =>
    (await owner.ctx.db.query<{ one: T }>(sql)).rows[0]?.one;

  it('goes on with another daemon when its own stops', async () => {
    const script = `!exec echo ${mark} > $HOME/mine; mkdir -p work/deep; echo ${mark} > work/deep/file; ln -s /etc/passwd link; chmod 640 work/deep/file\n!say ready`;
    const session = await first.start('a', script);
    await first.until(session, ({ state, said }) => state === 'idle' && said.includes('ready'));
    const large = await first.start('a', '!exec head -c 4000000 /dev/urandom > big\n!say ready');
    await first.until(large, ({ state, said }) => state === 'idle' && said.includes('ready'));
    await first.stop();
    assert.deepEqual(await one<string[]>('select array_agg(session_id::text) as one from svc.session_snapshots'), [
      session,
    ]);
    const pieces = await one<Buffer>("select string_agg(piece, ''::bytea) as one from svc.session_snapshot_pieces");
    assert.ok(pieces !== undefined && pieces.length > 200);
    for (const plain of ['of-the-first-host', 'ustar', 'deep']) assert.ok(!pieces.includes(plain), plain);

    const dataDir = join(owner.dataDir, 'second');
    await mkdir(dataDir);
    const { database, token, ctx } = owner;
    const config = {
      ...{
        masterKeyFile: ctx.config.masterKeyFile,
        harnessACommand: scriptedAgent,
        sandbox: 'process' as const,
        // What the first one kept stands, whatever is said here.
        file: { sandboxes: { snapshots: { maxMB: 0 } } },
      },
      roles: ['api', 'session'],
    } as const;
    second = await startTestDaemon({ database, token, dataDir, config });

    const api = apiClient(second.url, token);
    const said = async () => {
      const { body } = await api('GET', `P/sessions/${session}/messages?limit=200`);
      const items = body['items'] as unknown as { kind: string; text: string }[];
      return items.flatMap(({ kind, text }) => (kind === 'text' || kind === 'notice' ? [text] : [])).join(' ');
    };

    await api('POST', `P/sessions/${session}/messages`, {
      text: '!exec cat $HOME/mine work/deep/file | wc -c; stat -c %a work/deep/file; readlink link\n!say .again.',
    });
    const state = async () => (await api('GET', `P/sessions/${session}`)).body['state'] as unknown as string;
    // What it says shows before its turn has ended.
    const isDone = async () => (await said()).includes('.again.') && (await state()) === 'idle';
    for (let tries = 0; !(await isDone()) && tries < 1_200; tries += 1)
      await new Promise((resolve) => setTimeout(resolve, 100));
    assert.match(await said(), new RegExp(`${2 * (mark.length + 1)}\\s+640\\s+/etc/passwd`));
    assert.doesNotMatch(await said(), /lost its own memory/);
    assert.equal(await state(), 'idle');
  });

  it('is told what was said since, where it was kept before that', async () => {
    const { database, token, ctx } = owner;
    const session = String(await one<string>('select session_id::text as one from svc.session_snapshots'));
    await second?.stop();
    const config = { masterKeyFile: ctx.config.masterKeyFile, file, roles: ['api', 'session'] } as const;
    const third = await createHostBench({ database, token, config });
    try {
      await third.send(session, '!say third');
      await third.until(session, ({ state, said }) => state === 'idle' && said.includes('third'));
      const heard = await third.heard(session);
      const last = heard.at(-1) ?? '';
      assert.match(last, /older than what was said last[^]*!say \.again\.[^]*assistant: [^]*\.again\./);
      assert.doesNotMatch(last, /ready/, 'what it knows');
      await third.send(session, '!say fourth');
      await third.until(session, ({ state, said }) => state === 'idle' && said.includes('fourth'));
      assert.equal((await third.heard(session)).at(-1), '!say fourth');
    } finally {
      await third.stop();
    }
  });

  it('is gone with its session', async () => {
    const session = await one<string>('select session_id::text as one from svc.session_snapshots');
    const api = apiClient(owner.url, owner.token);
    await api('POST', `P/sessions/${session}/archive`, {});
    await upkeepTurn(owner.ctx);
    assert.equal(await one<number>('select count(*)::int as one from svc.session_snapshots'), 0);
    assert.equal(await one<number>('select count(*)::int as one from svc.session_snapshot_pieces'), 0);
  });
});
