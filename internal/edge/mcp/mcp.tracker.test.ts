import assert from 'node:assert/strict';
import { createHmac, randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { after, before, describe, it } from 'node:test';
import { createLog } from '../../base/log/log.ts';
import { trackerKey, TrackerSimulator } from '../../base/testkit/tracker-simulator.ts';
import { createToolBench, type Seat, type ToolBench } from './mcp-testkit.ts';

describe('tools of a tracker', () => {
  let bench: ToolBench;
  let sim: TrackerSimulator;
  let seat: Seat;
  let log = '';
  before(async () => {
    sim = await new TrackerSimulator().start();
    bench = await createToolBench({
      log: createLog('trace', { write: (line: string) => void (log += line) }),
      config: { allowPrivateNetwork: true },
    });
    const { status } = await bench.daemon.api('POST', 'P/connections', {
      provider: 'tracker',
      name: 'issues',
      config: { apiUrl: sim.url },
      credentials: { webhookSecret: 'a-secret-of-the-hook', apiKey: trackerKey },
    });
    assert.equal(status, 201);
    await bench.apply({
      worker: { tools: { issues: { kind: 'connection', provider: 'tracker', connection: 'issues' } } },
    });
    seat = await bench.start('worker');
  });
  after(async () => {
    await bench.stop();
    await sim.stop();
  });
  const call = (tool: string, input: object) => seat.call(tool, input, 'issues');

  it('read an issue and search', async () => {
    const { value, text } = await call('issue_get', { issue: 'ABC-1' });
    assert.equal(value['identifier'], 'ABC-1', text);
    assert.deepEqual([value['state'], value['teamKey'], value['assignee']], ['Todo', 'ABC', null]);
    const found = (await call('issue_search', { query: 'issue', limit: 1 })).value;
    assert.deepEqual([found['items']?.[0]?.['identifier'], found['more']], ['ABC-1', true]);
    assert.match((await call('issue_get', { issue: 'ABC-9' })).text, /^not-found: /);
  });

  it('comment once, also where the answer was lost', async () => {
    const input = { issue: 'ABC-1', body: 'done', idempotencyKey: 'k' };
    const first = await call('issue_comment', input);
    assert.equal(first.value['id'], sim.comments[0]?.id, first.text);
    assert.equal((await call('issue_comment', input)).text, first.text);
    for (const fault of ['lost', '500'] as const) {
      sim.faults.push(fault);
      assert.equal((await call('issue_comment', { issue: 'ABC-1', body: fault })).value['id'], sim.comments.at(-1)?.id);
    }
    sim.faults.push('lost-before');
    assert.match((await call('issue_comment', { issue: 'ABC-1', body: 'never' })).text, /^outcome-unknown: /);
    assert.equal(sim.comments.length, 3);
    const ties = await bench.daemon.ctx.db.query(
      `select from svc.session_ties where session_id = $1::uuid and target_type = 'tracker.issue' and relation = 'posted'`,
      [seat.session],
    );
    assert.equal(ties.rowCount, 1);
  });

  it('write comments that are known as the service’s own when they are delivered, whoever its key is there', async () => {
    const { value } = await call('issue_comment', { issue: 'ABC-1', body: 'mine' });
    const { body: connection } = await bench.daemon.api('GET', 'P/connections/issues');
    const authored = async (id: unknown): Promise<unknown> => {
      const raw = JSON.stringify({
        action: 'create',
        type: 'Comment',
        data: { id, body: 'mine', issueId: 'the-issue', userId: 'u-1', issue: { id: 'the-issue' } },
        actor: { id: 'u-1', name: 'Ada' },
        webhookTimestamp: bench.daemon.ctx.runtime.now().getTime(),
      });
      const signature = createHmac('sha256', 'a-secret-of-the-hook').update(raw).digest('hex');
      const headers = { 'linear-signature': signature, 'linear-delivery': randomUUID() };
      const url = `${bench.daemon.url}/api/v1/intake/tracker/${String(connection['id'])}`;
      const answer = await fetch(url, { method: 'POST', headers, body: raw });
      const { eventRecordId } = (await answer.json()) as { readonly eventRecordId: string };
      const { body } = await bench.daemon.api('GET', `P/events/${eventRecordId}`);
      return body['payload']?.['svc']?.['authored'];
    };
    assert.deepEqual([await authored(value['id']), await authored(randomUUID())], [true, false]);
  });

  it('change an issue by names of its team; one that several have is refused, and nothing is sent', async () => {
    const input = { issue: 'ABC-2', state: 'done', addLabels: ['bug', 'UI'], assignee: 'u1@acme.example', priority: 2 };
    const { value, text } = await call('issue_update', input);
    assert.deepEqual(
      [value['state'], value['labelNames'], value['assignee']?.['name']],
      ['Done', ['Bug', 'UI'], 'Ada'],
      text,
    );
    sim.faults.push('lost');
    const back = (await call('issue_update', { issue: 'ABC-2', removeLabels: ['Bug'], assignee: null })).value;
    assert.deepEqual([back['labelNames'], back['assignee']], [['UI'], null]);
    const before = sim.writes;
    assert.match((await call('issue_update', { issue: 'ABC-2', state: 'TWIN' })).text, /^refused: state: /);
    assert.match((await call('issue_update', { issue: 'ABC-2', addLabels: ['none'] })).text, /^not-found: addLabels: /);
    assert.match((await call('issue_update', { issue: 'ABC-2' })).text, /^invalid-input: /);
    assert.equal(sim.writes, before);
    assert.equal((await call('issue_update', { issue: 'ABC-2', state: 's-twin-2' })).value['state'], 'twin');
  });

  it('know every name of a large team, so that one that several have is never taken for one', async () => {
    const many = <T>(count: number, one: (n: number) => T): T[] => Array.from({ length: count }, (_, n) => one(n));
    sim.labels.push(...many(300, (n) => ({ id: `l-${n}`, name: `label ${n}` })), { id: 'l-twin', name: 'bug' });
    sim.members.push(
      ...many(300, (n) => ({ id: `m${n}`, name: `M ${n}`, displayName: `m${n}`, email: `m${n}@acme.example` })),
    );
    const late = await call('issue_update', { issue: 'ABC-1', addLabels: ['Label 299'], assignee: 'm299' });
    assert.deepEqual([late.value['labelNames'], late.value['assignee']?.['name']], [['label 299'], 'M 299'], late.text);
    const before = sim.writes;
    assert.match((await call('issue_update', { issue: 'ABC-1', addLabels: ['BUG'] })).text, /^refused: addLabels: /);
    assert.match((await call('issue_update', { issue: 'ABC-1', assignee: 'nobody' })).text, /^not-found: assignee: /);
    assert.equal(sim.writes, before);
  });

  it('take a row without a name for none, so that one among others ends no change', async (t) => {
    const page = { hasNextPage: false };
    const members = { nodes: [{ id: 'm', name: null }, null, 7, { id: 'a', name: 'Ada' }], pageInfo: page };
    const issue = { id: 'i', team: { id: 'team', members } };
    const data = { issue, issueUpdate: { success: true, issue } };
    const rude = createServer((_, response) => void response.end(JSON.stringify({ data })));
    await new Promise<void>((resolve) => rude.listen(0, '127.0.0.1', resolve));
    t.after(() => rude.close());
    const apiUrl = `http://127.0.0.1:${(rude.address() as AddressInfo).port}`;
    const made = {
      provider: 'tracker',
      name: 'rude',
      config: { apiUrl },
      credentials: { webhookSecret: 'another', apiKey: trackerKey },
    };
    const { status, body } = await bench.daemon.api('POST', 'P/connections', made);
    assert.equal(status, 201, JSON.stringify(body));
    const tool = { kind: 'connection', provider: 'tracker', connection: 'rude' };
    await bench.apply({ other: { tools: { issues: tool } } });
    const other = await bench.start('other');
    const asked = (assignee: string) => other.call('issue_update', { issue: 'i', assignee }, 'issues');
    assert.match((await asked('nobody')).text, /^not-found: assignee: /);
    assert.equal((await asked('ada')).isError, false);
    const worn = { credentials: { apiKey: `${trackerKey}\n` } };
    const set = await bench.daemon.api('PUT', 'P/connections/rude/credentials', worn);
    assert.equal(set.status, 200, JSON.stringify(set.body));
    assert.match((await asked('ada')).text, /^credential-refused: .*nothing was done$/);
  });

  it('take no answer for one that names nothing, and none for done that says it is not', async (t) => {
    const heard: string[] = [];
    let data: { readonly [field: string]: unknown } = {};
    const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
      heard.push(await text(request));
      response.end(JSON.stringify({ data }));
    };
    const odd = createServer((request, response) => void answer(request, response));
    await new Promise<void>((resolve) => odd.listen(0, '127.0.0.1', resolve));
    t.after(() => odd.close());
    const apiUrl = `http://127.0.0.1:${(odd.address() as AddressInfo).port}`;
    const credentials = { webhookSecret: 'another', apiKey: trackerKey };
    await bench.daemon.api('POST', 'P/connections', {
      provider: 'tracker',
      name: 'odd',
      config: { apiUrl },
      credentials,
    });
    await bench.apply({ odd: { tools: { issues: { kind: 'connection', provider: 'tracker', connection: 'odd' } } } });
    const other = await bench.start('odd');
    const issue = { id: 'i', team: { id: 'team' } };
    const comment = { id: 'c', url: 'https://tracker.example/c' };
    const writes = (): number => heard.filter((one) => one.includes('mutation')).length;
    for (const [answered, comments, changes] of [
      [{ issue, commentCreate: { success: false }, issueUpdate: { success: false } }, /^refused: /, /^refused: /],
      [
        { issue, commentCreate: { success: true }, issueUpdate: null, comment: null },
        /^outcome-unknown: /,
        /^outcome-unknown: /,
      ],
      [{ issue, commentCreate: null, comment }, /^\{"id":"c"/, /^outcome-unknown: /],
      [{ issue: null }, /^not-found: /, /^not-found: /],
    ] as const) {
      data = answered;
      const before = writes();
      assert.match((await other.call('issue_comment', { issue: 'i', body: 'x' }, 'issues')).text, comments);
      assert.match((await other.call('issue_update', { issue: 'i', priority: 1 }, 'issues')).text, changes);
      assert.equal(writes() - before, answered.issue === null ? 0 : 2);
    }
    assert.match((await other.call('issue_get', { issue: 'i' }, 'issues')).text, /^not-found: /);
  });

  it('wait for a limit, and leave no key in any log', async () => {
    sim.faults.push('limited');
    assert.equal((await call('issue_update', { issue: 'ABC-1', priority: 1 })).value['priority'], 1);
    assert.ok(log.includes('outbox.rate_limited') && !log.includes(trackerKey));
  });
});
