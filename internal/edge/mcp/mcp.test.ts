import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request } from 'node:http';
import { after, before, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { suspendLapsed } from '../../adapters/store/sessions/hosts.ts';
import { createToolBench, type Seat, type ToolBench } from './mcp-testkit.ts';

const initialize = {
  jsonrpc: '2.0',
  id: 1,
  method: 'initialize',
  params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'test', version: '1' } },
};
const list = { jsonrpc: '2.0', id: 2, method: 'tools/list' };

/** Headers that fetch does not let a caller set. */
async function raw(seat: Seat, headers: { readonly [name: string]: string }, method = 'POST'): Promise<number> {
  const sent = request(seat.urlOf('svc'), {
    method,
    headers: {
      authorization: `Bearer ${seat.token}`,
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      ...headers,
    },
  });
  sent.end(method === 'POST' ? JSON.stringify(list) : undefined);
  const [response] = (await once(sent, 'response')) as [{ statusCode: number; resume(): void }];
  response.resume();
  return response.statusCode;
}

describe('the door of a session’s tools', () => {
  let bench: ToolBench;
  let seat: Seat;
  let other: Seat;
  before(async () => {
    bench = await createToolBench();
    await bench.apply({
      worker: {
        tools: {
          svc: { kind: 'local', implementation: 'svc', description: 'How agents work together here.' },
          'with.dot-and_more': { kind: 'local', implementation: 'ping' },
          off: { kind: 'local', implementation: 'ping', disabled: true },
        },
      },
    });
    seat = await bench.start('worker');
    other = await bench.start('worker');
  });
  after(() => bench.stop());

  it('lets the session’s own token in, and no other: wrong, none, another session’s, another session’s id', async () => {
    assert.equal((await seat.post('svc', list)).status, 200);
    const refused = [
      await seat.post('svc', list, { authorization: `Bearer ${'x'.repeat(43)}` }),
      await seat.post('svc', list, { authorization: '' }),
      await seat.post('svc', list, { authorization: `Basic ${seat.token}` }),
      await seat.post('svc', list, { authorization: `Bearer ${other.token}` }),
      await seat.post('svc', list, { authorization: `Bearer ${bench.daemon.token}` }),
      await fetch(seat.urlOf('svc').replace(seat.session, '01890000-0000-7000-8000-000000000000'), {
        method: 'POST',
        headers: { authorization: `Bearer ${seat.token}` },
      }),
      await fetch(seat.urlOf('svc').replace(seat.session, 'not-an-id'), {
        method: 'POST',
        headers: { authorization: `Bearer ${seat.token}` },
      }),
    ];
    const answers = await Promise.all(refused.map(async (one) => `${one.status} ${await one.text()}`));
    assert.equal(new Set(answers).size, 1, JSON.stringify(answers));
    assert.match(answers[0] ?? '', /^401 .*opens no live session/);
    assert.equal(refused[0]?.headers.get('www-authenticate'), 'Bearer');
  });

  it('asks who it is before it reads a body: what strangers send fills no daemon', async () => {
    const begun = async (authorization: string): Promise<number> => {
      const headers = { authorization, 'content-type': 'application/json', 'content-length': '4000000' };
      const sent = request(seat.urlOf('svc'), { method: 'POST', headers });
      sent.once('error', () => undefined).write('{');
      const [response] = (await once(sent, 'response')) as [{ statusCode: number }];
      sent.destroy();
      return response.statusCode;
    };
    assert.equal(await begun(`Bearer ${'x'.repeat(43)}`), 401);
    // As many as a session may have under way, each with a body that never comes, and one more; they give their places back.
    const waiting = Array.from({ length: 64 }, () => {
      const headers = { authorization: `Bearer ${other.token}`, 'content-length': '4000000' };
      const sent = request(other.urlOf('svc'), { method: 'POST', headers }).once('error', () => undefined);
      sent.write('{');
      return sent;
    });
    const answer = () => other.post('svc', list).then(({ status }) => status);
    while ((await answer()) !== 429) await sleep(5);
    for (const sent of waiting) sent.destroy();
    while ((await answer()) !== 200) await sleep(5);
  });

  it('does not open the management API to the session’s token', async () => {
    const { status } = await bench.daemon.api('GET', 'P/secrets', undefined, { token: seat.token });
    assert.equal(status, 401);
  });

  it('closes with the session: archived, replaced, or taken from its host', async () => {
    const ended = await bench.start('worker');
    assert.equal((await ended.post('svc', list)).status, 200);
    await bench.daemon.api('POST', `P/sessions/${ended.session}/archive`);
    assert.equal((await ended.post('svc', list)).status, 401);

    const lost = await bench.start('worker');
    const { db, daemonId } = bench.daemon.ctx;
    await db.query(
      `update svc.sessions set state = 'idle', leased_by = $2::uuid, lease_until = now() - interval '1 second'
        where id = $1::uuid`,
      [lost.session, daemonId],
    );
    assert.equal((await lost.post('svc', list)).status, 200);
    await db.tx(suspendLapsed);
    assert.equal((await lost.post('svc', list)).status, 401, 'a suspended session has no tools');
  });

  it('is known under its own names only, and to pages of them', async () => {
    const { port } = new URL(bench.daemon.url);
    for (const host of [`127.0.0.1:${port}`, `localhost:${port}`]) assert.equal(await raw(seat, { host }), 200, host);
    for (const host of ['evil.example', `evil.example:${port}`, '127.0.0.1.evil.example', '169.254.169.254', '@']) {
      assert.notEqual(await raw(seat, { host }), 200, host);
    }
    assert.equal(await raw(seat, { host: 'evil.example' }), 403);
    assert.equal(await raw(seat, { origin: 'http://evil.example' }), 403);
    assert.equal(await raw(seat, { origin: 'null' }), 403);
    assert.equal(await raw(seat, { origin: `https://localhost:${port}` }), 403);
    assert.equal(await raw(seat, { origin: `http://localhost:${port}` }), 200);
  });

  it('takes POST of JSON, within its size', async () => {
    assert.equal(await raw(seat, {}, 'GET'), 405);
    assert.equal(await raw(seat, {}, 'DELETE'), 405);
    assert.equal((await seat.post('svc', '{"jsonrpc":')).status, 400);
    assert.equal((await seat.post('svc', list, { accept: 'text/html' })).status, 406);
    assert.equal(
      (
        await seat.post(
          'svc',
          Array.from({ length: 33 }, () => list),
        )
      ).status,
      400,
    );
    assert.equal((await seat.post('svc', { ...list, params: { pad: 'x'.repeat(4_200_000) } })).status, 413);
  });

  it('takes no message of very many values, whatever it is made of: the daemon would stand still', async () => {
    const keys = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, at) => [`k${at}`, 0]));
    const call = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'svc_session_get' } };
    const said = 'A body has at most 20000 values.';
    const many = [
      { ...list, params: { _meta: keys(20_000) } },
      { ...call, params: { ...call.params, arguments: keys(20_000) } },
      { ...call, params: { ...call.params, arguments: { list: Array.from({ length: 7_000 }, () => [[[]]]) } } },
      Array.from({ length: 32 }, () => ({ ...list, params: keys(700) })),
    ];
    for (const message of many) {
      const response = await seat.post('svc', message);
      assert.equal(response.status, 400);
      assert.match(await response.text(), new RegExp(said));
    }
    assert.equal((await seat.post('svc', { ...list, params: { _meta: keys(19_000) } })).status, 200);
  });

  it('has the aliases that the agent declares, with any characters, and not the disabled ones', async () => {
    assert.deepEqual((await seat.call('ping', {}, 'with.dot-and_more')).value['pong'], true);
    for (const alias of ['off', 'nothing', '__proto__', 'checks', '%00', 'svc/']) {
      assert.equal((await seat.post(alias, list)).status, 404, alias);
    }
  });

  it('says what an alias is for, and keeps no session of its own', async () => {
    const response = await seat.post('svc', initialize);
    assert.equal(response.headers.get('mcp-session-id'), null);
    const { result } = (await response.json()) as { result: { instructions: string; serverInfo: { name: string } } };
    assert.equal(result.instructions, 'How agents work together here.');
    assert.equal(result.serverInfo.name, 'svc/svc');
  });

  it('takes a call back by its id: the session’s own, on the same alias, in another request', async () => {
    const call = { jsonrpc: '2.0', id: 'c1', method: 'tools/call', params: { name: 'svc_session_get', arguments: {} } };
    const cancel = (requestId: unknown): object => ({
      jsonrpc: '2.0',
      method: 'notifications/cancelled',
      params: { requestId, reason: 'enough' },
    });
    await bench.daemon.ctx.db.tx(async (tx) => {
      await tx.query('lock table svc.bindings in access exclusive mode');
      let isOver = false;
      const calling = seat.post('svc', call).finally(() => (isOver = true));
      // Tables have the same numbers in all databases of the run.
      const waiting = `select from pg_locks l join pg_database d on d.oid = l.database
        where not l.granted and l.relation = 'svc.bindings'::regclass and d.datname = current_database()`;
      while ((await bench.daemon.ctx.db.query(waiting)).rowCount === 0) await sleep(10);
      for (const request of [
        other.post('svc', cancel('c1')),
        seat.post('with.dot-and_more', cancel('c1')),
        seat.post('svc', cancel('c2')),
      ]) {
        assert.equal((await request).status, 202);
      }
      await sleep(50);
      assert.equal(isOver, false);
      assert.equal((await seat.post('svc', cancel('c1'))).status, 202);
      const { result } = (await (await calling).json()) as { result: { isError: boolean; content: object } };
      assert.equal(result.isError, true);
      assert.match(JSON.stringify(result.content), /cancelled: The call was cancelled/);
    });
  });

  it('answers a call in its plain form as the protocol’s own server answers it, and what is not plain as that refuses it', async () => {
    const call = { jsonrpc: '2.0', id: 5, method: 'tools/call', params: { name: 'ping', arguments: {} } };
    const { params } = call;
    const calls: readonly (readonly [string, object, { readonly [name: string]: string }?])[] = [
      ['a call', call],
      ['an id of text', { ...call, id: 'five' }],
      ['no input', { ...call, params: { name: 'ping' } }],
      ['a note of the client', { ...call, params: { ...params, _meta: { progressToken: 'p', 'x/y': { z: 1 } } } }],
      ['a known version', call, { 'mcp-protocol-version': '2025-06-18' }],
      ['no tool', { ...call, params: { ...params, name: 'nothing' } }],
      ['an input that is none', { ...call, params: { ...params, arguments: { more: 1 } } }],
      ['a list for an input', { ...call, params: { ...params, arguments: [] } }],
      ['no name', { ...call, params: { arguments: {} } }],
      ['an id that is none', { ...call, id: 1.5 }],
      ['no id', { jsonrpc: '2.0', method: 'tools/call', params }],
      ['another protocol', { ...call, jsonrpc: '1.0' }],
      ['more than a request has', { ...call, more: true }],
      ['a task', { ...call, params: { ...params, task: { ttl: 1 } } }],
      ['an unknown version', call, { 'mcp-protocol-version': '1999-01-01' }],
      ['half of what has to be accepted', call, { accept: 'application/json' }],
    ];
    const told = async (body: object, headers: { readonly [name: string]: string }): Promise<unknown> => {
      const response = await seat.post('with.dot-and_more', body, headers);
      const text = await response.text();
      // What the tool says of its moment differs from call to call.
      const said = text.replace(/\d{4}-\d\d-\d\dT[0-9:.]+Z/g, 'now');
      return [response.status, response.headers.get('content-type'), said === '' ? said : JSON.parse(said)];
    };
    for (const [what, body, headers = {}] of calls) {
      const plain = await told(body, headers);
      // With a parameter on its type a request is not plain any more.
      assert.deepEqual(
        plain,
        await told(body, { ...headers, 'content-type': 'application/json; charset=utf-8' }),
        what,
      );
    }
  });

  it('turns a session away that has too much in flight, and nobody else', async () => {
    // A lock that the calls wait for keeps them in flight.
    const { db } = bench.daemon.ctx;
    const spawn = { jsonrpc: '2.0', id: 7, method: 'tools/call', params: { name: 'svc_session_get', arguments: {} } };
    let answers: Promise<Response>[] = [];
    await db.tx(async (tx) => {
      await tx.query('lock table svc.bindings in access exclusive mode');
      answers = Array.from({ length: 80 }, () => seat.post('svc', spawn));
      // All that are one too many have to be answered before the lock is let go: a call that comes to the
      // daemon behind that finds room.
      const refused: number[] = [];
      const enough = Promise.withResolvers<void>();
      for (const answer of answers) void answer.then(({ status }) => refused.push(status) === 16 && enough.resolve());
      await enough.promise;
      assert.deepEqual(new Set(refused), new Set([429]));
      assert.equal((await other.post('svc', list)).status, 200);
    });
    const statuses = (await Promise.all(answers)).map((one) => one.status);
    assert.equal(statuses.filter((status) => status === 200).length, 64);
    assert.equal(statuses.filter((status) => status === 429).length, 16);
    assert.equal((await seat.post('svc', list)).status, 200);
  });
});
