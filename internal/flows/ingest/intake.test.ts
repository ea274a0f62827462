import assert from 'node:assert/strict';
import { createHmac, randomUUID } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import { startTestDaemon, type TestDaemon } from '../../base/testkit/daemon.ts';
import { addConnection, deliver } from './ingest-testkit.ts';

const secret = 'the secret of the connection';
const nowMs = Date.parse('2030-05-05T12:00:00Z');
const hmac = (text: string, key = secret): string => createHmac('sha256', key).update(text).digest('hex');

describe('intakes of providers', () => {
  let daemon: TestDaemon;
  const ids: Record<string, string> = {};
  before(async () => {
    daemon = await startTestDaemon({ runtime: { now: () => new Date(nowMs) } });
    const add = async (provider: string, config: object, credentials: object) => {
      ids[provider] = await addConnection(daemon, { provider, name: provider, config, credentials });
    };
    await add('codehost', { appId: 7, botLogin: 'svc-app' }, { webhookSecret: secret });
    await add('tracker', { botUserId: 'u-bot' }, { webhookSecret: secret });
    await add('chat', { botUserId: 'UBOT', workspaceId: 'T1' }, { signingSecret: secret });
  });
  after(() => daemon.stop());

  const to = (provider: string): string => `/api/v1/intake/${provider}/${ids[provider]}`;
  const shown = async (answer: { readonly body: { readonly [key: string]: unknown } }) => {
    const { body } = await daemon.api('GET', `P/events/${answer.body['eventRecordId']}`);
    return body as unknown as { key: string; payload: Record<string, Record<string, unknown>>; target: object | null };
  };

  function linear(body: object, headers: Record<string, string> = {}) {
    const text = JSON.stringify({ webhookTimestamp: nowMs - 1_000, ...body });
    return deliver(daemon, to('tracker'), text, {
      'linear-signature': hmac(text),
      'linear-delivery': randomUUID(),
      ...headers,
    });
  }
  const issue = (more: object = {}) => ({
    id: 'i-1',
    identifier: 'OPS-5',
    title: 'Disk full',
    description: 'see @triage',
    url: 'https://tracker.test/OPS-5',
    priority: 2,
    state: { id: 's-2', name: 'Doing', type: 'started' },
    team: { id: 't', key: 'OPS' },
    project: { id: 'p', name: 'Storage' },
    assignee: { id: 'u-1', name: 'Ann' },
    labels: [{ id: 'l-1', name: 'bug' }],
    labelIds: ['l-1'],
    ...more,
  });

  it('an issue of the tracker is told in the neutral words', async () => {
    const answer = await linear({ action: 'create', type: 'Issue', actor: { id: 'u-1', name: 'Ann' }, data: issue() });
    assert.equal(answer.status, 202);
    const event = await shown(answer);
    assert.equal(event.key, 'tracker.issue.created');
    assert.deepEqual(event.target, { type: 'tracker.issue', key: 'i-1' });
    assert.deepEqual(event.payload['tracker'], {
      action: 'created',
      issue: {
        id: 'i-1',
        identifier: 'OPS-5',
        title: 'Disk full',
        description: 'see @triage',
        url: 'https://tracker.test/OPS-5',
        state: 'Doing',
        stateType: 'started',
        priority: 2,
        labelNames: ['bug'],
        assignee: 'Ann',
        teamKey: 'OPS',
        projectName: 'Storage',
      },
      actor: { id: 'u-1', name: 'Ann' },
    });
    assert.equal(event.payload['svc']?.['authored'], false);
    assert.equal(event.payload['raw']?.['action'], 'create');
  });

  it('a change says what was before, by the names that were seen', async () => {
    await linear({
      action: 'update',
      type: 'Issue',
      data: issue({
        id: 'i-0',
        state: { id: 's-1', name: 'Todo', type: 'unstarted' },
        labels: [{ id: 'l-2', name: 'old' }],
      }),
    });
    const data = issue({
      labels: [
        { id: 'l-1', name: 'bug' },
        { id: 'l-3', name: 'agent' },
      ],
    });
    const updatedFrom = { stateId: 's-1', labelIds: ['l-1', 'l-2', 'l-9'], title: 'Disk' };
    const { payload } = await shown(
      await linear({ action: 'update', type: 'Issue', actor: { id: 'u-bot' }, data, updatedFrom }),
    );
    const tracker = payload['tracker'] as { updatedFrom: Record<string, unknown>; issue: Record<string, unknown> };
    assert.deepEqual(tracker.updatedFrom['labelNames'], { added: ['agent'], removed: ['old', 'l-9'] });
    assert.deepEqual(tracker.issue['previous'], { title: 'Disk', state: 'Todo', stateType: 'unstarted' });
    assert.equal(payload['svc']?.['authored'], true);
  });

  it('a comment of the tracker has the target of its issue', async () => {
    const data = {
      id: 'c-1',
      body: 'done',
      issueId: 'i-1',
      issue: { id: 'i-1', identifier: 'OPS-5', title: 'Disk full' },
      user: { id: 'u-1', name: 'Ann' },
    };
    const event = await shown(await linear({ action: 'create', type: 'Comment', data }));
    assert.equal(event.key, 'tracker.comment.created');
    assert.deepEqual(event.target, { type: 'tracker.issue', key: 'i-1' });
  });

  it('what stands beside the data of a delivery is told where the data leaves it out', async () => {
    const actor = { id: 'u-1', name: 'Ann', type: 'user' };
    const [page, place] = ['https://tracker.test/OPS-5', 'https://tracker.test/OPS-5#comment-1'];
    const data = { id: 'c-2', body: 'Indeed', issueId: 'i-1', userId: 'u-1' };
    const said = await shown(await linear({ action: 'create', type: 'Comment', actor, data, url: place }));
    const comment = { id: 'c-2', body: 'Indeed', url: place, author: 'Ann' };
    assert.deepEqual(said.payload['tracker'], { action: 'created', issue: { id: 'i-1' }, comment, actor });
    const made = await shown(
      await linear({ action: 'create', type: 'Issue', actor, data: { id: 'i-3', title: 't' }, url: page }),
    );
    assert.deepEqual(made.payload['tracker']?.['issue'], { id: 'i-3', title: 't', url: page });
    const by = { action: 'create', type: 'Comment', actor: { id: 'u-2', name: 'Bob' }, data };
    const other = await shown(await linear(by));
    assert.deepEqual(other.payload['tracker']?.['comment'], { id: 'c-2', body: 'Indeed' });
  });

  const stale = (offsetMs: number) =>
    linear({ action: 'create', type: 'Issue', data: issue(), webhookTimestamp: nowMs + offsetMs });
  const trackerCases: readonly (readonly [string, number, () => Promise<{ status: number }>])[] = [
    ['a minute old', 202, () => stale(-60_000)],
    ['over a minute old', 401, () => stale(-60_001)],
    ['over a minute ahead', 401, () => stale(60_001)],
    ['without a time', 401, () => linear({ action: 'create', type: 'Issue', data: issue(), webhookTimestamp: 'x' })],
    ['with a wrong signature', 401, () => linear({}, { 'linear-signature': '0'.repeat(64) })],
    ['with a prefixed signature', 401, () => linear({}, { 'linear-signature': `sha256=${'0'.repeat(64)}` })],
    [
      'without a delivery id',
      400,
      () => linear({ action: 'create', type: 'Issue', data: issue() }, { 'linear-delivery': '' }),
    ],
    ['of another type', 202, () => linear({ action: 'create', type: 'Cycle', data: {} })],
    ['without an issue', 400, () => linear({ action: 'create', type: 'Issue' })],
  ];
  for (const [what, status, send] of trackerCases) {
    it(`a delivery of the tracker ${what} is ${status}`, async () => assert.equal((await send()).status, status));
  }

  function slack(body: object, options: { readonly at?: number | string; readonly key?: string } = {}) {
    const text = JSON.stringify(body);
    const at = String(options.at ?? nowMs / 1_000);
    return deliver(daemon, to('chat'), text, {
      'x-slack-request-timestamp': at,
      'x-slack-signature': `v0=${hmac(`v0:${at}:${text}`, options.key)}`,
    });
  }
  const said = (event: object, id = `Ev${randomUUID()}`) => ({
    type: 'event_callback',
    team_id: 'T1',
    api_app_id: 'A1',
    event_id: id,
    event: { channel: 'C1', user: 'U1', ts: '100.000200', ...event },
  });

  it('answers the challenge of the chat provider when it is signed', async () => {
    const body = { type: 'url_verification', challenge: 'hello' };
    assert.deepEqual(await slack(body), { status: 200, body: { challenge: 'hello' } });
    assert.equal((await slack(body, { key: 'other' })).status, 401);
  });

  it('a mention is told in the neutral words, once', async () => {
    const files = [{ id: 'F1', name: 'a.png', mimetype: 'image/png', size: 3, url_private: 'https://files.test/a' }];
    const body = said({ type: 'app_mention', text: '<@UBOT> look', thread_ts: '90.000100', files });
    const answer = await slack(body);
    const event = await shown(answer);
    assert.equal(event.key, 'chat.message.mentioned');
    assert.deepEqual(event.target, { type: 'chat.thread', key: 'slack:T1:C1:90.000100' });
    const { raw, ...payload } = event.payload;
    assert.equal((raw as Record<string, unknown>)['event_id'], body.event_id);
    assert.deepEqual(payload, {
      chat: { provider: 'slack', workspaceId: 'T1', channelId: 'C1', threadId: '90.000100', messageId: '100.000200' },
      message: {
        id: '100.000200',
        text: '<@UBOT> look',
        author: { userId: 'U1', userName: 'U1', isBot: false, isMe: false },
        attachments: [{ id: 'F1', name: 'a.png', mimeType: 'image/png', size: 3, url: 'https://files.test/a' }],
      },
      svc: { authored: false },
    });
    const { status, body: repeated } = await slack(body);
    assert.equal(status, 200);
    // Routing goes on meanwhile.
    const { routerStatus } = repeated;
    assert.deepEqual(repeated, { ...answer.body, created: false, routerStatus });
  });

  const reply = { type: 'message', thread_ts: '90.000100', ts: '101.0', text: 'and this' };
  const chatCases: readonly (readonly [string, object, string | undefined])[] = [
    ['a reply in a thread', reply, 'chat.message.subscribed'],
    ['a direct message', { type: 'message', channel_type: 'im', text: 'hi' }, 'chat.message.direct'],
    ['a message that also arrives as a mention', { type: 'message', text: '<@UBOT> hi' }, undefined],
    ['one that says whom it mentions', { type: 'message', text: '<@UBOT|svc> hi' }, undefined],
    ['a message that mentions another', { type: 'message', text: '<@UBOT2> hi' }, 'chat.message.subscribed'],
    ['a message with a file', { type: 'message', subtype: 'file_share', text: 'x' }, 'chat.message.subscribed'],
    ['somebody who joined', { type: 'message', subtype: 'channel_join', text: 'x' }, undefined],
    [
      'an edit',
      {
        type: 'message',
        subtype: 'message_changed',
        message: { ts: '1.0', user: 'U1', text: 'b' },
        previous_message: { text: 'a' },
      },
      'chat.message.edited',
    ],
    [
      'a message that was taken away from above its thread',
      {
        type: 'message',
        subtype: 'message_changed',
        message: { ts: '1.0', user: 'USLACKBOT', subtype: 'tombstone', text: 'This message was deleted.' },
        previous_message: { text: 'a' },
      },
      undefined,
    ],
    [
      'a preview',
      {
        type: 'message',
        subtype: 'message_changed',
        message: { ts: '1.0', text: 'a' },
        previous_message: { text: 'a' },
      },
      undefined,
    ],
    [
      'a reaction',
      { type: 'reaction_added', reaction: '+1', item: { type: 'message', channel: 'C1', ts: '101.0' } },
      'chat.reaction.added',
    ],
    [
      'a reaction taken back',
      { type: 'reaction_removed', reaction: 'eyes', item: { type: 'message', channel: 'C1', ts: '5.0' } },
      'chat.reaction.removed',
    ],
    [
      'a reaction to a file',
      { type: 'reaction_added', reaction: 'eyes', item: { type: 'file', file: 'F1' } },
      undefined,
    ],
    ['a new channel', { type: 'channel_created' }, undefined],
  ];
  for (const [what, event, key] of chatCases) {
    it(`${what} is ${key ?? 'ignored'}`, async () => {
      const answer = await slack(said(event));
      assert.equal(answer.status, 202);
      assert.equal(answer.body['ignored'], key === undefined ? true : undefined);
      if (key !== undefined) assert.equal((await shown(answer)).key, key);
    });
  }

  it('a reaction to a reply belongs to the thread of the reply', async () => {
    const item = { type: 'message', channel: 'C1', ts: '101.0' };
    const event = await shown(await slack(said({ type: 'reaction_added', reaction: '+1::skin-tone-2', item })));
    assert.deepEqual(event.target, { type: 'chat.thread', key: 'slack:T1:C1:90.000100' });
    assert.deepEqual(event.payload['reaction'], {
      emoji: 'thumbsup',
      rawEmoji: '+1::skin-tone-2',
      added: true,
      user: { userId: 'U1', userName: 'U1', isMe: false },
    });
  });

  it('what the bot says itself is ours', async () => {
    const event = await shown(await slack(said({ ...reply, ts: '102.0', user: 'UBOT', bot_id: 'B1', text: 'done' })));
    assert.equal(event.payload['svc']?.['authored'], true);
    assert.deepEqual(event.payload['message']?.['author'], {
      userId: 'UBOT',
      userName: 'UBOT',
      isBot: true,
      isMe: true,
    });
  });

  const times: readonly (readonly [number | string, number])[] = [
    [nowMs / 1_000 - 300, 202],
    [nowMs / 1_000 - 301, 401],
    [nowMs / 1_000 + 301, 401],
    ['', 401],
    ['1e9', 401],
  ];
  for (const [at, status] of times) {
    it(`a time of ${at === '' ? 'nothing' : at} is ${status}`, async () => {
      assert.equal((await slack(said({ type: 'app_mention', text: 'x' }), { at })).status, status);
    });
  }

  it('a connection of another provider, or one that is off, is not there', async () => {
    const answer = await deliver(daemon, `/api/v1/intake/chat/${ids['tracker']}`, '{}');
    assert.equal(answer.status, 404);
  });

  const pullRequest = async (
    number: number,
    mergeable: boolean | null,
    { delivery = randomUUID() as string, action = 'synchronize' } = {},
  ): Promise<void> => {
    const state = action === 'closed' ? 'closed' : 'open';
    const pull = { number, state, mergeable, head: { sha: 'a' }, base: { sha: 'b' } };
    const body = JSON.stringify({ action, pull_request: pull, repository: { full_name: 'acme/app' }, sender: {} });
    const headers = {
      'x-github-event': 'pull_request',
      'x-github-delivery': delivery,
      'x-hub-signature-256': `sha256=${hmac(body)}`,
    };
    assert.ok((await deliver(daemon, to('codehost'), body, headers)).status <= 202);
  };
  const conflictsOf = async (number: number): Promise<number> => {
    const { body } = await daemon.api('GET', 'P/events?key=codehost.pull_request.merge_conflict');
    const items = body['items'] as unknown as { target: { key: string } }[];
    return items.filter(({ target }) => target.key === `acme/app#${number}`).length;
  };

  it('mergeability that turns false is an event of its own, once', async () => {
    const send = (mergeable: boolean | null, delivery: string = randomUUID()) =>
      pullRequest(4, mergeable, { delivery });
    const again = randomUUID();
    for (const mergeable of [true, null, false]) await send(mergeable);
    await send(false, again);
    await send(false, again);
    await Promise.all([send(true), send(true)]);
    await Promise.all([send(false), send(false), send(false)]);
    const { body } = await daemon.api('GET', 'P/events?key=codehost.pull_request.merge_conflict');
    const items = body['items'] as unknown as {
      target: object;
      payload: { codehost: { pullRequest: { previous: object } } };
    }[];
    assert.equal(items.length, 2);
    assert.deepEqual(items[0]?.target, { type: 'codehost.pull_request', key: 'acme/app#4' });
    assert.deepEqual(items[0]?.payload.codehost.pullRequest.previous, { mergeable: true });
  });

  it('a delivery that comes again later, when the pull request could be merged meanwhile, tells no conflict', async () => {
    const again = randomUUID();
    await pullRequest(5, false);
    await pullRequest(5, false, { delivery: again });
    await pullRequest(5, true);
    await pullRequest(5, false, { delivery: again });
    assert.equal(await conflictsOf(5), 1);
    await pullRequest(5, false);
    assert.equal(await conflictsOf(5), 2);
  });

  it('a conflict that came up while the pull request was closed is told once it is open again', async () => {
    await pullRequest(6, true);
    await pullRequest(6, false, { action: 'closed' });
    assert.equal(await conflictsOf(6), 0);
    await pullRequest(6, false, { action: 'reopened' });
    await pullRequest(6, false);
    assert.equal(await conflictsOf(6), 1);
  });

  it('a target that no binding can hold is none', async () => {
    for (const id of ['i'.repeat(1_001), 'i\0']) {
      const answer = await linear({ action: 'create', type: 'Issue', actor: {}, data: issue({ id }) });
      assert.equal(answer.status, 202);
      assert.equal((await shown(answer)).target, null);
    }
    const longest = await linear({
      action: 'create',
      type: 'Issue',
      actor: {},
      data: issue({ id: 'i'.repeat(1_000) }),
    });
    assert.notEqual((await shown(longest)).target, null);
  });

  it('an action of a check whose name no key can hold is refused as one without a name', async () => {
    const identifier = Array.from({ length: 80 }, (_, at) => hmac(String(at))).join('');
    const body = { action: 'requested_action', requested_action: { identifier }, check_run: { id: 1 } };
    const text = JSON.stringify({ ...body, repository: { full_name: 'acme/app' }, sender: { login: 'ann' } });
    const answer = await deliver(daemon, to('codehost'), text, {
      'x-hub-signature-256': `sha256=${hmac(text)}`,
      'x-github-event': 'check_run',
      'x-github-delivery': randomUUID(),
    });
    assert.deepEqual([answer.status, answer.body['code']], [400, 'invalid-body']);
  });
});
