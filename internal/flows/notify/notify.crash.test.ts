// A daemon that is killed around the telling of a notice: each receiver hears it once at most, and none is silently lost.

import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { chatToken, ChatSimulator } from '../../base/testkit/chat-simulator.ts';
import type { Api, JsonBody } from '../../base/testkit/daemon.ts';
import { isLong } from '../../base/testkit/long.ts';
import { type CrashBench, createCrashBench, eventually } from '../session-host/host-crash-testkit.ts';

/** Where the daemon is killed, and what each receiver has heard in the end: how often, and what the notice says of it. */
const points: readonly (readonly [string, { readonly chat: string; readonly webhook: string }])[] = [
  // Notifications are rows, none is claimed.
  ['notify.spread', { chat: '1 done', webhook: '1 done' }],
  // One call is a row, and none was handed over.
  ['outbox.opened', { chat: '1 done', webhook: '1 done' }],
];
/** Of what the network may have had: a chat provider is asked, and nobody can ask a webhook. */
const looked = [
  'outbox.opened:2',
  'outbox.handed',
  'outbox.handed:2',
  'outbox.answered',
  'outbox.answered:2',
  'notify.told',
  'notify.told:2',
];

describe('a daemon that is killed while it tells people', () => {
  let chat: ChatSimulator;
  let bench: CrashBench;
  let dir: string;
  let env: { readonly [name: string]: string };
  const hooks: string[] = [];
  const server = createServer((request, response) => {
    let text = '';
    request.on('data', (chunk: Buffer) => (text += chunk.toString('utf8')));
    request.on('end', () => {
      hooks.push(text);
      response.writeHead(204).end();
    });
  });
  before(async () => {
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    chat = await new ChatSimulator().start();
    chat.channels.set('C1', []);
    bench = await createCrashBench('process');
    dir = await mkdtemp(join(tmpdir(), 'svc-crash-notify-'));
    const file = join(dir, 'svc.yaml');
    await writeFile(file, JSON.stringify({ providers: { chat: { apiUrl: chat.url } } }));
    env = { SVC_CONFIG: file, SVC_ALLOW_PRIVATE_NETWORK: 'true', SVC_ROLES: 'api,route,schedule' };
  });
  after(async () => {
    await bench.remove();
    await chat.stop();
    server.closeAllConnections();
    server.close();
    await rm(dir, { recursive: true, force: true });
  });

  const chatConnection = (name: string) => ({
    provider: 'chat',
    name,
    config: { botUserId: 'U-BOT' },
    credentials: { signingSecret: 'a-secret-of-the-hook', botToken: chatToken },
  });
  const tellings = async (api: Api, connection: string): Promise<{ receiver: string; status: string }[]> => {
    const items = (await api('GET', 'P/notices?limit=200')).body['items'] as unknown as JsonBody[];
    const of = items.filter((one) => String(one['subject']?.['connection']) === connection);
    assert.ok(of.length <= 1, 'one notice of one loss');
    return (of[0]?.['tellings'] ?? []) as unknown as { receiver: string; status: string }[];
  };
  /** Loses a connection of that name, with a daemon that is killed at the point; what was heard in the end. */
  const lose = async (name: string, point: string): Promise<{ chat: string; webhook: string }> => {
    const { daemon, api } = await bench.start('one', { ...env, SVC_FAILPOINT: point });
    assert.equal((await api('POST', 'P/connections', chatConnection(name))).status, 201);
    await bench.database.db.query(`update svc.connections set status = 'suspended' where name = $1::text`, [name]);
    assert.equal((await daemon.exited).signal, 'SIGKILL', point);
    const next = await bench.start('one', env);
    await eventually(`${point}: both have an end`, async () => {
      const rows = await tellings(next.api, name);
      return rows.length === 2 && rows.every((one) => one.status !== 'pending');
    });
    await eventually('no call is sending', async () =>
      ((await next.api('GET', 'P/calls?limit=200')).body['items'] as unknown as { status: string }[]).every(
        (one) => one.status !== 'sending',
      ),
    );
    const rows = await tellings(next.api, name);
    await next.daemon.kill('SIGTERM');
    const status = (receiver: string) => rows.find((one) => one.receiver === receiver)?.status ?? 'absent';
    const said = (chat.channels.get('C1') ?? []).filter((one) => one.text.includes(`\`${name}\``)).length;
    const heard = hooks.filter((one) => one.includes(`"${name}"`)).length;
    return { chat: `${said} ${status('receiver:room')}`, webhook: `${heard} ${status('receiver:hook')}` };
  };

  it('leaves nothing told twice, and nothing untold of which it is not said', async () => {
    const { daemon, api } = await bench.start('one', env);
    for (const receiver of [
      { name: 'room', kind: 'chat', connection: 'team', channel: 'C1', conditions: ['connection-lost'] },
      {
        name: 'hook',
        kind: 'webhook',
        url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`,
        conditions: ['connection-lost'],
      },
    ]) {
      if (receiver.kind === 'chat')
        assert.equal((await api('POST', 'P/connections', chatConnection('team'))).status, 201);
      assert.equal((await api('POST', 'P/receivers', receiver)).status, 201);
    }
    await daemon.kill('SIGTERM');
    let at = 0;
    for (const [point, ends] of isLong ? points : []) {
      assert.deepEqual(await lose(`lost-${(at += 1)}`, point), ends, point);
    }
    for (const point of isLong ? looked : ['outbox.answered']) {
      const { chat: said, webhook } = await lose(`lost-${(at += 1)}`, point);
      // Found there, or looked for in vain: then it is said that nobody knows.
      assert.match(said, /^(?:1 done|0 unknown)$/, point);
      // Heard, and whether it was is known or not; or nobody heard, and nobody says that somebody did.
      assert.match(webhook, /^(?:1 done|1 unknown|0 unknown)$/, point);
    }
    assert.equal((await bench.start('one', env)).daemon.process.exitCode, null);
  });
});
