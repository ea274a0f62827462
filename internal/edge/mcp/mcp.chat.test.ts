import assert from 'node:assert/strict';
import { randomBytes, randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { after, before, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { chatToken, type ChatSimulator } from '../../base/testkit/chat-simulator.ts';
import { type ChatBench, chatTool, startChatBench } from './chat-testkit.ts';
import type { Seat } from './mcp-testkit.ts';

describe('chat tools', () => {
  let bench: ChatBench;
  let sim: ChatSimulator;
  let seat: Seat;
  const both = {
    ...chatTool,
    auth: {
      kind: 'connections',
      connections: [
        { provider: 'chat', connection: 'team' },
        { provider: 'chat', connection: 'other' },
      ],
    },
  };
  before(async () => {
    bench = await startChatBench();
    sim = bench.sim;
    await bench.apply({
      talker: { tools: { chat: chatTool, both } },
      called: {
        tools: { chat: chatTool },
        triggers: [
          {
            event: 'chat.message.mentioned',
            connection: 'team',
            where: { '$.svc.attributions': { exists: false } },
            routing: { kind: 'spawn' },
          },
          {
            event: 'chat.message.subscribed',
            connection: 'team',
            where: { '$.svc.authored': false, '$.svc.attributions': { exists: true } },
            routing: { kind: 'deliver', routeBy: { kind: 'attributedSessions' } },
            message: 'they said {{message.text}}',
          },
        ],
      },
    });
    seat = await bench.start('talker');
  });
  after(() => bench.stopAll());

  const call = (tool: string, input: object, alias = 'chat') => seat.call(tool, input, alias);
  const posts = (): number => sim.heard.filter((one) => one.method === 'chat.postMessage').length;
  const newestCall = async () => {
    const { body } = await bench.daemon.api('GET', `P/sessions/${seat.session}/calls?limit=1`);
    return (body['items'] as unknown as { tool: string; status: string; code?: string }[])[0];
  };

  it('say something in a channel, with nothing that calls everybody', async () => {
    const text = 'hi @channel, mail a@here.org <!HERE|x> <!subteam^S1>';
    const { isError, text: said, value } = await call('chat_send', { channelId: 'C1', text });
    assert.equal(isError, false, said);
    const message = sim.channels.get('C1')?.at(-1);
    assert.equal(message?.text, 'hi @\u200bchannel, mail a@here.org <\u200b!HERE|x> <\u200b!subteam^S1>');
    assert.deepEqual(value, { provider: 'slack', channelId: 'C1', threadId: message?.ts, messageId: message?.ts });
    const heard = sim.heard.findLast((one) => one.method === 'chat.postMessage');
    assert.deepEqual(Object.keys(heard?.args ?? {}).sort(), ['channel', 'markdown_text', 'metadata']);
    const plain = { channelId: 'C1', threadId: message?.ts, text: '*b* @here', format: 'mrkdwn' };
    assert.equal((await call('chat_send', plain)).value['threadId'], message?.ts);
    assert.equal(sim.channels.get('C1')?.at(-1)?.text, '*b* @here');
    assert.deepEqual(await newestCall().then((row) => [row?.tool, row?.status]), ['chat_send', 'done']);
  });

  it('call nobody within the signs of emphasis either, and leave names that hold such a word as they are', async () => {
    for (const [text, said] of [
      ['_@here_ and __@everyone__, ~_@channel_~', '_@\u200bhere_ and __@\u200beveryone__, ~_@\u200bchannel_~'],
      ['**@Channel**_', '**@\u200bChannel**_'],
      ['my_@channel @channel_one @here2 a_@here_', 'my_@channel @channel_one @here2 a_@here_'],
    ] as const) {
      const { isError } = await call('chat_send', { channelId: 'C1', text });
      assert.deepEqual([isError, sim.channels.get('C1')?.at(-1)?.text], [false, said]);
    }
  });

  it('refuse what is too long, and what names no place or no connection, before anything is sent', async () => {
    const before = posts();
    for (const [code, input, alias] of [
      ['too-large', { channelId: 'C1', text: 'x'.repeat(12_001) }],
      ['too-large', { channelId: 'C1', text: 'x'.repeat(40_001), format: 'mrkdwn' }],
      ['invalid-input', { text: 'no place' }],
      ['invalid-input', { channelId: 'C1', text: 'which?' }, 'both'],
      ['invalid-input', { channelId: 'C1', text: 'x', target: { provider: 'slack', connection: 'third' } }, 'both'],
      ['invalid-input', { channelId: 'C1', text: 'x', link_names: true }],
    ] as const) {
      const answer = await call('chat_send', input, alias);
      assert.match(answer.text, new RegExp(`^${code}: `));
    }
    assert.equal(posts(), before);
    const target = { provider: 'slack', connection: 'team' };
    assert.equal((await call('chat_send', { channelId: 'C2', text: 'here', target }, 'both')).isError, false);
    assert.match((await call('chat_send', { channelId: 'C9', text: 'nowhere' })).text, /^not-found: /);
  });

  it('send once under a key, and tell a lost answer as what became of it', async () => {
    const before = posts();
    const input = { channelId: 'C1', text: 'once', idempotencyKey: 'k1' };
    const first = await call('chat_send', input);
    assert.equal((await call('chat_send', input)).text, first.text);
    assert.match((await call('chat_send', { ...input, text: 'other' })).text, /^idempotency-conflict: /);
    assert.equal(posts(), before + 1);
    for (const fault of ['lost', '500', 'fatal'] as const) {
      sim.fail('chat.postMessage', fault);
      const told = await call('chat_send', { channelId: 'C1', text: `after ${fault}` });
      assert.equal(told.value['messageId'], sim.channels.get('C1')?.at(-1)?.ts, told.text);
    }
    sim.fail('chat.postMessage', 'lost-before');
    const unknown = { channelId: 'C1', text: 'never', idempotencyKey: 'k2' };
    assert.match((await call('chat_send', unknown)).text, /^outcome-unknown: /);
    assert.match((await call('chat_send', unknown)).text, /^outcome-unknown: /);
    assert.equal((await newestCall())?.status, 'unknown');
    assert.equal(posts(), before + 5);
  });

  it('wait for a limit of a method, and say how long where that is too long', async () => {
    sim.fail('chat.postMessage', 'limited');
    assert.equal((await call('chat_send', { channelId: 'C1', text: 'in a second' })).isError, false);
    sim.retryAfter = 90;
    sim.fail('chat.postMessage', 'limited');
    assert.match(
      (await call('chat_send', { channelId: 'C1', text: 'later' })).text,
      /^rate-limited: .*retry after \d+ seconds$/,
    );
    assert.equal((await call('chat_history', { channelId: 'C1' })).isError, false);
    await bench.daemon.ctx.db.query('delete from svc.provider_limits');
    // A time of no use: longer than anybody waits, longer than there are dates, or over before it began.
    for (const [retryAfter, seconds] of [
      [1e9, 86_400],
      ['9'.repeat(300), 86_400],
      [-1e9, 60],
    ] as const) {
      sim.retryAfter = retryAfter;
      sim.fail('chat.postMessage', 'limited');
      const { text } = await call('chat_send', { channelId: 'C1', text: 'much later' });
      assert.match(
        text,
        new RegExp(`^rate-limited: .*retry after ${seconds} seconds$`),
        String(retryAfter).slice(0, 9),
      );
      await bench.daemon.ctx.db.query('delete from svc.provider_limits');
    }
    sim.retryAfter = 1;
  });

  it('look for a message that an answer names as none can be named', async (t) => {
    const ts = randomBytes(4_000).toString('base64url');
    let key: unknown;
    let name = ts;
    const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
      const form = new URLSearchParams(await text(request));
      const metadata = { event_payload: { key } };
      if (form.has('metadata')) key = JSON.parse(form.get('metadata') ?? '').event_payload.key;
      const messages = [{ ts: name, metadata }];
      response.end(JSON.stringify({ ok: true, team_id: ts, user_id: 'U', channel: ts, ts, messages }));
    };
    const rude = createServer((request, response) => void answer(request, response));
    await new Promise<void>((resolve) => rude.listen(0, '127.0.0.1', resolve));
    t.after(() => rude.close());
    const apiUrl = `http://127.0.0.1:${(rude.address() as AddressInfo).port}`;
    const credentials = { signingSecret: 'another', botToken: chatToken };
    const made = { provider: 'chat', name: 'rude', config: { apiUrl }, credentials };
    const { status, body } = await bench.daemon.api('POST', 'P/connections', made);
    assert.equal(status, 201, JSON.stringify(body));
    const auth = { kind: 'connection', provider: 'chat', connection: 'rude' };
    await bench.apply({ rude: { tools: { chat: { ...chatTool, auth } } } });
    const other = await bench.start('rude');
    const said = () => other.call('chat_send', { channelId: 'C1', text: 'hi' }, 'chat');
    assert.match((await said()).text, /^outcome-unknown: /);
    name = '1700000000.000001';
    const { value } = await said();
    assert.deepEqual(value, { provider: 'slack', channelId: 'C1', threadId: name, messageId: name });
    // As it is where a line was copied with its end.
    const worn = { credentials: { botToken: `${chatToken}\n` } };
    const set = await bench.daemon.api('PUT', 'P/connections/rude/credentials', worn);
    assert.equal(set.status, 200, JSON.stringify(set.body));
    assert.match((await said()).text, /^credential-refused: .*nothing was done$/);
  });

  it('read the files of a thread, which are put into the sandbox, from the provider’s hosts alone', async () => {
    const at = (name: string) => `http://${sim.host}/files/${name}`;
    sim.files.set('/files/plan.txt', { bytes: Buffer.from('the plan'), type: 'text/plain' });
    sim.files.set('/files/bare', { bytes: Buffer.from('bare'), type: 'constructor' });
    sim.files.set('/files/page.txt', { bytes: Buffer.from('<html>'), type: 'Text/HTML ; charset=utf-8' });
    const files = ['plan.txt', 'hidden.txt', 'bare', 'page.txt'].map((name, index) => ({
      id: `F${index}`,
      name,
      url_private: at(name),
    }));
    const elsewhere = { id: 'F9', name: 'x', url_private: 'https://elsewhere.example/x' };
    const root = sim.say('C2', 'see', { files: [...files, elsewhere] });
    const read = async () => {
      const { value } = await call('chat_history', { channelId: 'C2', threadId: root });
      return value['messages']?.[0]?.['attachments'] as unknown as { path?: string; code?: string }[];
    };
    const written = new Map<string, string>();
    const write = async (path: string, bytes: Uint8Array) => void written.set(path, Buffer.from(bytes).toString());
    bench.daemon.ctx.host?.places.set(seat.session, {
      cwd: '/home/user/work',
      write,
      exec: () => assert.fail(),
      restsForMs: () => 0,
    });
    const [plan, hidden, bare, page, other] = await read();
    assert.match(plan?.path ?? '', /^\/home\/user\/work\/\.svc-attachments\/[0-9a-f]{8}-plan\.txt$/);
    assert.match(bare?.path ?? '', /^\/home\/user\/work\/\.svc-attachments\/[0-9a-f]{8}-bare$/);
    assert.deepEqual(
      [...written],
      [
        [plan?.path, 'the plan'],
        [bare?.path, 'bare'],
      ],
    );
    assert.deepEqual([hidden?.path, hidden?.code], [undefined, 'permission-missing']);
    assert.deepEqual([page?.path, page?.code], [undefined, 'permission-missing']);
    assert.deepEqual([other?.path, other?.code], [undefined, undefined]);
    assert.equal((await read())[0]?.path, plan?.path);
    assert.equal(written.size, 2);
    bench.daemon.ctx.host?.places.delete(seat.session);
  });

  it('read a channel newest first in pages, and a thread from its first message', async () => {
    const files = [
      { id: 'F1', name: 'a.txt', mimetype: 'text/plain', size: 3, url_private: 'https://files.slack.com/a' },
    ];
    const root = sim.say('C2', 'the first', { files });
    sim.say('C2', 'an answer', { thread: root });
    sim.say('C2', 'the second');
    const page = (await call('chat_history', { channelId: 'C2', limit: 1 })).value;
    assert.deepEqual([page['messages']?.[0]?.['text'], page['more']], ['the second', true]);
    const rest = (await call('chat_history', { channelId: 'C2', limit: 1, before: page['next'] })).value;
    assert.deepEqual(rest['messages']?.[0], {
      messageId: root,
      threadId: root,
      author: { userId: 'U-PERSON', isBot: false, isMe: false },
      text: 'the first',
      at: new Date(Math.round(Number(root) * 1_000)).toISOString(),
      attachments: [{ id: 'F1', name: 'a.txt', mimeType: 'text/plain', size: 3, url: 'https://files.slack.com/a' }],
    });
    const thread = (await call('chat_history', { channelId: 'C2', threadId: root })).value['messages'] as unknown as {
      text: string;
    }[];
    assert.deepEqual(
      thread.map((one) => one.text),
      ['the first', 'an answer'],
    );
  });

  it('search the newest messages where the provider does not, and react once', async () => {
    const ts = sim.say('C2', 'A needle in the hay');
    const { value } = await call('chat_search', { query: 'hay NEEDLE' });
    assert.deepEqual([value['partial'], value['messages']?.[0]?.['messageId']], [true, ts]);
    assert.equal(value['messages']?.[0]?.['channelId'], 'C2');
    const react = { channelId: 'C2', messageId: ts, emoji: ':eyes:' };
    assert.deepEqual((await call('chat_react', react)).value, { added: true });
    assert.deepEqual((await call('chat_react', react)).value, { added: true });
    sim.fail('reactions.add', 'lost');
    assert.deepEqual((await call('chat_react', { ...react, emoji: 'tada' })).value, { added: true });
    assert.deepEqual(
      sim.channels
        .get('C2')
        ?.at(-1)
        ?.reactions.map((one) => one.name),
      ['eyes', 'tada'],
    );
  });

  it('answer in the thread that called, and what follows where a session spoke reaches it', async () => {
    const ts = sim.say('C1', '<@U-BOT> help');
    const event = {
      type: 'app_mention',
      channel: 'C1',
      user: 'U-PERSON',
      ts,
      text: '<@U-BOT> help',
      action_token: 'act',
    };
    await bench.hear(event);
    const called = await bench.sessionOf('called');
    const answer = (await called.call('chat_send', { text: 'on it' }, 'chat')).value;
    assert.deepEqual([answer['channelId'], answer['threadId']], ['C1', ts]);
    // A reaction does not say which thread its message is in, and the provider may not tell of what the service says itself.
    const item = { type: 'message', channel: 'C1', ts: answer['messageId'] };
    await bench.hear({ type: 'reaction_added', user: 'U-PERSON', reaction: 'eyes', item });
    const { body } = await bench.daemon.api('GET', 'P/events?key=chat.reaction.added');
    assert.deepEqual(body['items']?.[0]?.['target'], { type: 'chat.thread', key: `slack:T1:C1:${ts}` });
    sim.actionToken = 'act';
    const found = (await called.call('chat_search', { query: 'on it' }, 'chat')).value;
    assert.deepEqual([found['partial'], found['messages']?.[0]?.['messageId']], [false, answer['messageId']]);
    const own = (await called.call('chat_send', { channelId: 'C2', text: 'a new thread' }, 'chat')).value;
    const reply = {
      type: 'message',
      channel: 'C2',
      user: 'U-PERSON',
      ts: '1800000000.000001',
      thread_ts: own['threadId'],
    };
    await bench.hear({ ...reply, text: 'a follow-up' });
    // The inbox names the event; its text is rendered when it goes in.
    const delivered = async (): Promise<number> => {
      const text = `select from svc.inbox i join svc.events e on e.id = i.event_id
        where i.session_id = $1::uuid and e.key = 'chat.message.subscribed'`;
      return (await bench.daemon.ctx.db.query(text, [called.session])).rowCount;
    };
    for (let looks = 0; looks < 600 && (await delivered()) === 0; looks += 1) await sleep(50);
    assert.equal(await delivered(), 1);
  });

  it('a daemon that was killed after it sent leaves what another one finds and ties to the session', async () => {
    const id = randomUUID();
    const message = sim.say('C2', 'sent and forgotten');
    Object.assign(sim.channels.get('C2')?.at(-1) ?? {}, { metadata: { event_payload: { key: id } } });
    const probe = {
      kind: 'message',
      workspaceId: 'T1',
      channelId: 'C2',
      since: Math.floor(Number(message)) - 60,
      last: true,
    };
    await bench.daemon.ctx.db.query(
      `insert into svc.calls (id, project_id, session_id, provider, connection_id, alias, tool, write, status, created_at,
           probe, handed_at, daemon_id, lease_until)
         select $1::uuid, s.project_id, s.id, 'chat', $3::uuid, 'chat', 'chat_send', true, 'sending', now(), $4::jsonb,
           now(), $5::uuid, now() - interval '1 second' from svc.sessions s where s.id = $2::uuid`,
      [id, seat.session, bench.connections['team'], JSON.stringify(probe), randomUUID()],
    );
    const row = async () =>
      (await bench.daemon.ctx.db.query<{ status: string }>('select status from svc.calls where id = $1::uuid', [id]))
        .rows[0];
    while ((await row())?.status === 'sending') await sleep(50);
    assert.equal((await row())?.status, 'done');
    const ties = await bench.daemon.ctx.db.query(
      'select from svc.session_ties where session_id = $1::uuid and target_key = $2',
      [seat.session, `slack:T1:C2:${message}`],
    );
    assert.equal(ties.rowCount, 1);
  });

  it('leave no token in any log', () => {
    assert.ok(bench.log().includes('outbox.'));
    for (const secret of [chatToken, 'the-signing-secret']) assert.ok(!bench.log().includes(secret));
  });
});
