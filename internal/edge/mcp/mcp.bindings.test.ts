import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import {
  bindingsOf,
  chatDoor,
  codehostDoor,
  emittedBy,
  sessionsOf,
  settled,
} from '../../flows/routing/routing-testkit.ts';
import { createToolBench, type Seat, type ToolBench } from './mcp-testkit.ts';

const pull = { type: 'codehost.pull_request', key: 'o/r#1' };

describe('what a session binds, follows and observes, through real routing', () => {
  let bench: ToolBench;
  let say: (event: object) => Promise<string>;
  let arrive: (event: string, body: object) => Promise<string>;
  before(async () => {
    bench = await createToolBench();
    say = await chatDoor(bench.daemon);
    arrive = await codehostDoor(bench.daemon);
  });
  after(() => bench.stop());
  const db = () => bench.daemon.ctx.db;
  const heard = async (seat: Seat, agent: string): Promise<string[]> => {
    await settled(db());
    const found = (await sessionsOf(db(), agent)).find((one) => one.id === seat.session);
    return found?.messages.map((one) => one.text) ?? [];
  };
  const spawn = async (seat: Seat, agent: string): Promise<Seat> => {
    const { value, text } = await seat.call('svc_sessions_spawn', { agent, message: 'go' });
    assert.equal(value['created'], true, text);
    return bench.sit(String(value['sessionId']));
  };
  const opened = (action: string): object => ({
    action,
    repository: { id: 1, full_name: 'o/r', name: 'r', owner: { login: 'o' } },
    sender: { login: 'ann', id: 1, type: 'User' },
    pull_request: {
      number: 1,
      title: 'A change',
      body: '',
      state: 'open',
      head: { ref: 'topic', sha: 'a' },
      base: { ref: 'main', sha: 'b' },
      user: { login: 'ann', id: 1, type: 'User' },
      labels: [],
    },
  });
  const observer = {
    triggers: [
      {
        events: ['svc.session.binding.bound', 'svc.session.binding.updated', 'svc.session.binding.unbound'],
        message: '{{ binding.agent }} {{ binding.target.key }} {{ binding.eventContext.phase }}',
        routing: { kind: 'bind', target: 'svc.session' },
      },
    ],
  };

  it('a session hears what those that it spawned bind and leave, unless its agent does not observe', async () => {
    await bench.apply({
      watcher: observer,
      blind: { ...observer, session: { observeSpawnedSessions: false } },
      child: {},
    });
    const watcher = await bench.start('watcher');
    const blind = await bench.start('blind');
    const [seen, unseen] = [await spawn(watcher, 'child'), await spawn(blind, 'child')];
    assert.deepEqual(
      (await bindingsOf(db(), 'watcher')).map(({ target, session, state }) => [target, session, state]),
      [[`svc.session:${seen.session}`, watcher.session, 'active']],
    );
    assert.deepEqual(await bindingsOf(db(), 'blind'), []);
    const bound = await seen.call('svc_bind', { target: pull, eventContext: { bound: { phase: 'on' } } });
    assert.equal(bound.isError, false, bound.text);
    assert.match((await unseen.call('svc_bind', { target: pull })).text, /^target-bound: Session /);
    await unseen.call('svc_bind', { target: { type: 'tracker.issue', key: 'i' } });
    await seen.call('svc_bind', {
      target: pull,
      context: { more: 1 },
      eventContext: { updated: { phase: 'changed' } },
    });
    await seen.call('svc_unbind', { target: pull, context: { phase: 'off' } });
    assert.deepEqual(await heard(watcher, 'watcher'), [
      'hello',
      'child o/r#1 on',
      'child o/r#1 changed',
      'child o/r#1 off',
    ]);
    assert.deepEqual(await heard(blind, 'blind'), ['hello']);
    // The end of a child releases what it holds, and that is heard too.
    await seen.call('svc_bind', { target: pull });
    await seen.call('svc_sessions_stop', { sessionId: seen.session });
    assert.deepEqual((await heard(watcher, 'watcher')).slice(4), ['child o/r#1 ', 'child o/r#1 ']);
  });

  it('a binding has the agent’s policy, with what the call says merged key by key; its target’s events come', async () => {
    await bench.apply({
      author: {
        bindings: {
          'codehost.pull_request': {
            continuity: 'agent',
            context: { from: 'policy', keep: true },
            eventContext: { bound: { a: 1, b: 1 }, unbound: { gone: true } },
          },
        },
        triggers: [
          {
            event: 'codehost.pull_request.closed',
            message: 'closed {{ codehost.pullRequest.number }}',
            routing: { kind: 'bind', target: 'codehost.pull_request' },
          },
        ],
      },
    });
    const author = await bench.start('author');
    const made = await author.call('svc_bind', {
      target: pull,
      context: { from: 'call' },
      eventContext: { bound: { b: 2 }, updated: { c: 3 } },
    });
    assert.deepEqual(
      [made.value['lifecycle'], made.value['continuity'], made.value['context']],
      ['manual', 'agent', { from: 'call', keep: true }],
    );
    const again = await author.call('svc_bind', {
      target: pull,
      context: { from: 'call' },
      eventContext: { bound: { b: 2 }, updated: { c: 3 } },
    });
    assert.equal(again.value['bindingId'], made.value['bindingId']);
    await arrive('pull_request', opened('closed'));
    assert.deepEqual(await heard(author, 'author'), ['hello', 'closed 1']);
    const listed = (await author.call('svc_bindings_list', { sessionId: author.session })).value;
    assert.equal((listed['bindings'] as unknown as unknown[]).length, 1);
    await author.call('svc_unbind', { target: pull });
    const told = (await emittedBy(db(), 'author')).map(({ key, binding }) => [key.slice(20), binding.eventContext]);
    assert.deepEqual(told, [
      ['bound', { a: 1, b: 2 }],
      ['unbound', { gone: true }],
    ]);
    assert.deepEqual((await author.call('svc_unbind', { target: pull })).value, { released: false });
    const { body } = await bench.daemon.api('GET', 'P/audit?limit=200');
    const items = body['items'] as unknown as { action: string; principal: { id: string } }[];
    assert.deepEqual(
      items.filter((one) => one.principal.id === author.session).map((one) => one.action),
      ['binding.released', 'binding.made', 'binding.made'],
    );
  });

  it('a claim without a session passes with what it was made with to the session that binds or follows its target', async () => {
    const thread = { type: 'chat.thread', key: 'slack:T1:C1:800' };
    const continuity = 'agent';
    await bench.apply({
      keeper: { bindings: { 'codehost.pull_request': { continuity }, 'chat.thread': { continuity } } },
    });
    const notes = { context: { phase: 'review', by: 'first' }, eventContext: { updated: { kept: true } } };
    const first = await bench.start('keeper');
    for (const target of [pull, thread]) await first.call('svc_bind', { target, ...notes });
    await first.call('svc_sessions_stop', { sessionId: first.session });
    const second = await bench.start('keeper');
    const bound = await second.call('svc_bind', { target: pull, context: { by: 'second' } });
    assert.deepEqual(bound.value['context'], { phase: 'review', by: 'second' });
    await second.call('svc_chat_subscribe', { key: thread.key });
    const held = (await bindingsOf(db(), 'keeper')).map(({ session, context }) => [session, context]);
    assert.deepEqual(held, [
      [second.session, { phase: 'review', by: 'second' }],
      [second.session, notes.context],
    ]);
    const told = (await emittedBy(db(), 'keeper')).filter(({ key }) => key.endsWith('updated'));
    assert.deepEqual(
      told.map(({ binding }) => binding.eventContext),
      [{ kept: true }, { kept: true }],
    );
    // What a session says of its own binding replaces what it said before.
    const again = await second.call('svc_bind', { target: pull, context: { by: 'third' } });
    assert.deepEqual(again.value['context'], { by: 'third' });
  });

  it('a held binding is not given back, and shows as such', async () => {
    await bench.apply({
      holder: {
        triggers: [
          {
            event: 'codehost.pull_request.closed',
            routing: { kind: 'bind', target: 'codehost.pull_request', release: true, lifecycle: 'held' },
          },
        ],
      },
    });
    const holder = await bench.start('holder');
    assert.equal((await holder.call('svc_bind', { target: pull })).value['lifecycle'], 'held');
    assert.match((await holder.call('svc_unbind', { target: pull })).text, /^binding-held: /);
    const { types, current } = (await holder.call('svc_bindings_targets')).value;
    assert.equal(current, null);
    assert.deepEqual(types?.[0], { type: 'codehost.pull_request', lifecycle: 'held', continuity: 'session' });
  });

  it('refuses targets that nothing can be bound to', async () => {
    const worker = await bench.start('child');
    for (const target of [
      { type: 'agent.singleton', key: 'x' },
      { type: 'codehost.push', key: 'x' },
      { type: 'chat.thread', key: '' },
      { type: 'chat.thread', key: 'k'.repeat(1_001) },
      { type: 'chat.thread', key: 'a\0b' },
      { type: 'chat.thread', key: 'k', more: 1 },
      { type: 'chat.thread', key: 'slack:T1:C1' },
      { type: 'svc.session', key: 'not-a-session' },
      { type: 'codehost.pull_request', key: '../../x' },
      { type: 'codehost.pull_request', key: 'acme/..#1' },
      { type: 'codehost.issue', key: 'acme/app#0' },
      { type: 'tracker.issue', key: 'a b' },
    ]) {
      assert.match((await worker.call('svc_bind', { target })).text, /^invalid-input: target/, JSON.stringify(target));
    }
    for (const key of ['slack:T1:C1', '#dev', 'C1', 'https://example.com/C1/p700'])
      assert.match((await worker.call('svc_chat_subscribe', { key })).text, /^invalid-input: key/, key);
    const deep = JSON.parse(`${'{"a":'.repeat(80)}1${'}'.repeat(80)}`) as object;
    assert.match((await worker.call('svc_bind', { target: pull, context: deep })).text, /levels of nesting/);
    const wide = { text: 'x'.repeat(70_000) };
    assert.match((await worker.call('svc_bind', { target: pull, context: wide })).text, /bytes of JSON/);
  });

  it('keeps notes whose names and values no database can hold with U+FFFD in place of what it cannot', async () => {
    const worker = await bench.start('child');
    const target = { type: 'tracker.issue', key: 'odd' };
    for (const odd of ['\ud800', '\0', 'plain']) {
      const context = { list: [{ [odd]: odd }] };
      for (const more of [{ context }, { context, eventContext: { updated: context } }]) {
        const { value, text } = await worker.call('svc_bind', { target, ...more });
        assert.equal(value['lifecycle'], 'manual', text);
      }
      const kept = (await bindingsOf(db(), 'child')).find(
        (one) => one.target === 'tracker.issue:odd' && one.state === 'active',
      );
      const told = odd === 'plain' ? odd : '\ufffd';
      assert.deepEqual(kept?.context, { list: [{ [told]: told }] });
      assert.match((await worker.call('svc_unbind', { target, context })).text, /"released":true/);
    }
    const secret = { name: 'odd', generate: '[a-z]{20}', description: 'a\0' };
    assert.match((await worker.call('svc_secrets_create', secret)).text, /^invalid-input: description: Expected text/);
  });

  it('keeps notes that are called like parts of the language', async () => {
    const worker = await bench.start('child');
    const context = { constructor: 'who built it', prototype: 2, plain: true };
    const { value, text } = await worker.call('svc_bind', { target: { type: 'tracker.issue', key: 'named' }, context });
    assert.deepEqual(value['context'], context, text);
  });

  it('a thread that is followed is heard by attributedSessions and bind routes, until it is left', async () => {
    const reply = (text: string): object => ({ type: 'message', text, ts: '700.2', thread_ts: '700' });
    const where = { '$.svc.authored': false };
    await bench.apply({
      follower: {
        triggers: [
          {
            event: 'chat.message.subscribed',
            where,
            message: 'tie {{ message.text }}',
            routing: { kind: 'deliver', routeBy: { kind: 'attributedSessions' } },
          },
          {
            event: 'chat.message.subscribed',
            where,
            message: 'bind {{ message.text }}',
            routing: { kind: 'bind', target: 'chat.thread' },
          },
        ],
      },
    });
    const first = await bench.start('follower');
    const second = await bench.start('follower');
    assert.match((await first.call('svc_chat_subscribe')).text, /^no-thread: /);
    const key = 'slack:T1:C1:700';
    assert.deepEqual((await first.call('svc_chat_subscribe', { key })).value, { subscribed: key, bound: true });
    assert.deepEqual((await second.call('svc_chat_subscribe', { key })).value, { subscribed: key, bound: false });
    assert.deepEqual((await first.call('svc_chat_subscribe', { key })).value, { subscribed: key, bound: true });
    await say(reply('one'));
    const words = async (seat: Seat): Promise<string[]> =>
      (await heard(seat, 'follower')).map((text) => text.split('\n')[0] ?? '');
    assert.deepEqual(await words(first), ['hello', 'tie one', 'bind one']);
    assert.deepEqual(await words(second), ['hello', 'tie one']);
    const target = { type: 'chat.thread', key };
    assert.deepEqual((await first.call('svc_unbind', { target })).value, { released: true });
    assert.deepEqual((await second.call('svc_unbind', { target })).value, { released: true });
    await say(reply('two'));
    assert.equal((await words(first)).length, 3);
    assert.equal((await words(second)).length, 2);
  });

  it('a session from a thread follows it without naming it', async () => {
    await bench.apply({
      called: { triggers: [{ event: 'chat.message.mentioned', message: 'Called', routing: { kind: 'spawn' } }] },
    });
    await say({ type: 'app_mention', text: '<@UBOT> hi', ts: '900.1', thread_ts: '900' });
    const [session] = await sessionsOf(db(), 'called');
    const called = await bench.sit(session?.id ?? '');
    const { current } = (await called.call('svc_bindings_targets')).value;
    assert.deepEqual(current, { type: 'chat.thread', key: 'slack:T1:C1:900' });
    assert.equal((await called.call('svc_chat_subscribe')).value['bound'], true);
  });

  it('a session that a pull request spawned with checks begins and concludes them', async () => {
    await bench.apply({
      checker: {
        tools: { svc: { kind: 'local', implementation: 'svc' } },
        triggers: [
          {
            event: 'codehost.pull_request.opened',
            routing: { kind: 'spawn' },
            checks: [
              { name: 'lint', displayName: 'Lint', description: 'Looks at style', instructions: 'Be kind.' },
              { name: 'unit', displayName: 'Unit', description: 'Runs tests' },
            ],
          },
        ],
      },
    });
    await arrive('pull_request', opened('opened'));
    const [session] = await sessionsOf(db(), 'checker');
    const checker = await bench.sit(session?.id ?? '');
    const call = (tool: string, input: object = {}) => checker.call(tool, input, 'checks');
    const { tools } = await (await checker.client('checks')).listTools();
    assert.deepEqual(
      tools.map((tool) => tool.name),
      ['checks_list', 'checks_begin', 'checks_success', 'checks_failure'],
    );
    const { checks } = (await call('checks_list')).value;
    assert.deepEqual(
      [checks?.[0]?.['name'], checks?.[0]?.['state'], checks?.[0]?.['instructions'], checks?.[0]?.['pullRequest']],
      ['lint', 'queued', 'Be kind.', 'o/r#1'],
    );
    const end = { name: 'lint', title: 'Fine', summary: 'All good' };
    assert.equal((await call('checks_success', end)).isError, true, 'not before it has begun');
    assert.equal((await call('checks_begin', { name: 'lint' })).value['state'], 'in_progress');
    const done = (await call('checks_success', end)).value;
    assert.deepEqual([done['state'], done['conclusion'], done['title']], ['concluded', 'success', 'Fine']);
    await call('checks_begin', { name: 'unit' });
    assert.equal((await call('checks_failure', { ...end, name: 'unit' })).value['conclusion'], 'failure');
    assert.equal((await call('checks_begin', { name: 'nothing' })).isError, true);
    const manual = await bench.start('checker');
    assert.equal((await manual.post('checks', { jsonrpc: '2.0', id: 1, method: 'ping' })).status, 404);
  });

  it('a repository is the one that its events name, in whatever case a session writes it', async () => {
    const on = (action: string, routing: object): object => ({
      ...{ event: `codehost.pull_request.${action}`, message: '{{ codehost.action }}', routing },
    });
    const triggers = [on('opened', { kind: 'spawn' }), on('edited', { kind: 'bind', target: pull.type })];
    await bench.apply({
      speller: { triggers },
      other: { triggers: [on('edited', { kind: 'bind', target: pull.type })] },
    });
    await arrive('pull_request', opened('opened'));
    await settled(db());
    const seat = await bench.sit((await sessionsOf(db(), 'speller'))[0]?.id ?? '');
    const made = await seat.call('svc_bind', { target: { ...pull, key: 'O/R#1' } });
    assert.deepEqual(made.value['target'], pull, made.text);
    await arrive('pull_request', opened('edited'));
    assert.deepEqual(await heard(seat, 'speller'), ['opened', 'edited']);
    // What is another number of it, and what nothing is known of.
    const next = await seat.call('svc_bind', { target: { ...pull, key: 'O/r#2' } });
    assert.deepEqual(next.value['target'], { ...pull, key: 'o/r#2' });
    const unknown = await seat.call('svc_bind', { target: { ...pull, key: 'X/Y#2' } });
    assert.deepEqual(unknown.value['target'], { ...pull, key: 'X/Y#2' });
    const elsewhere = { id: 2, full_name: 'x/y', name: 'y', owner: { login: 'x' } };
    await arrive('pull_request', { ...opened('closed'), repository: elsewhere });
    assert.equal((await seat.call('svc_unbind', { target: { ...pull, key: 'X/Y#2' } })).value['released'], true);
    // One that was not started by it knows it by what has come.
    const other = await bench.start('other');
    assert.deepEqual((await other.call('svc_bind', { target: { ...pull, key: 'O/R#1' } })).value['target'], pull);
    assert.equal((await seat.call('svc_unbind', { target: { ...pull, key: 'O/R#1' } })).value['released'], true);
    await arrive('pull_request', opened('edited'));
    assert.deepEqual(await heard(seat, 'speller'), ['opened', 'edited']);
    assert.deepEqual((await heard(other, 'other')).slice(1), ['edited']);
  });
});
