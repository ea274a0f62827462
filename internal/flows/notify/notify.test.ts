// People are told where a session came from, and by receivers, each once, over real HTTP and with real sessions.

import assert from 'node:assert/strict';
import { createHmac, randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, describe, it } from 'node:test';
import { armFailpoint } from '../../base/failpoint.ts';
import { createLog } from '../../base/log/log.ts';
import { chatToken, ChatSimulator, type SimMessage } from '../../base/testkit/chat-simulator.ts';
import type { CodehostSimulator } from '../../base/testkit/codehost-simulator.ts';
import type { JsonBody } from '../../base/testkit/daemon.ts';
import { appKey, newSimulator } from '../plans/plans-testkit.ts';
import { eventually } from '../session-host/host-crash-testkit.ts';
import { createHostBench, type HostBench, type SessionView } from '../session-host/host-testkit.ts';
import { noteByClock } from './notify.ts';

const secret = 'the-secret-of-the-hooks';
const webhookKey = 'the-key-of-the-webhook';
const hmac = (key: string, text: string): string => createHmac('sha256', key).update(text).digest('hex');
const idle = ({ state, body }: SessionView): boolean =>
  state === 'idle' && Number(body['inbox']?.['pending']) + Number(body['inbox']?.['inFlight']) === 0;

interface Hook {
  readonly headers: IncomingMessage['headers'];
  readonly text: string;
  readonly body: JsonBody;
}

describe('people', () => {
  let bench: HostBench;
  let chat: ChatSimulator;
  let code: CodehostSimulator;
  let log = '';
  const ids: { [name: string]: string } = {};
  const hooks: Hook[] = [];
  const answers: number[] = [];
  const server = createServer((request, response) => {
    let text = '';
    request.on('data', (chunk: Buffer) => (text += chunk.toString('utf8')));
    request.on('end', () => {
      hooks.push({ headers: request.headers, text, body: JSON.parse(text) as JsonBody });
      response.writeHead(answers.shift() ?? 204, { 'retry-after': '1' }).end();
    });
  });
  const hookUrl = (): string => `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`;

  before(async () => {
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    chat = await new ChatSimulator().start();
    for (const id of ['C1', 'C2']) chat.channels.set(id, []);
    code = await newSimulator();
    await code.repository('acme/app', { 'README.md': '# app\n' });
    bench = await createHostBench({
      log: createLog('trace', { write: (line: string) => void (log += line) }),
      config: {
        allowPrivateNetwork: true,
        file: {
          providers: { chat: { apiUrl: chat.url }, codehost: { apiUrl: code.origin, writeSpacingMs: 0 } },
          notifications: {
            receivers: [{ kind: 'webhook', name: 'operators', url: hookUrl(), conditions: ['connection-lost'] }],
          },
        },
      },
    });
    for (const [provider, name, config, credentials] of [
      ['chat', 'team', { botUserId: 'U-BOT' }, { signingSecret: secret, botToken: chatToken }],
      [
        'codehost',
        'code',
        { appId: '1', installationId: '1', botLogin: 'svc-app[bot]' },
        { webhookSecret: secret, privateKey: appKey },
      ],
    ] as const) {
      const { status, body } = await api('POST', 'P/connections', { provider, name, config, credentials });
      assert.equal(status, 201, JSON.stringify(body));
      ids[name] = String(body['id']);
    }
    const prompted = {
      harness: 'harness-b',
      environment: { name: 'prompted', image: { kind: 'preset', name: 'base' }, approvals: 'prompt' },
    };
    const mentioned = { event: 'chat.message.mentioned', connection: 'team', routing: { kind: 'spawn' } };
    const heard = {
      event: 'chat.message.subscribed',
      connection: 'team',
      where: { '$.svc.authored': false, '$.svc.attributions': { exists: true } },
      routing: { kind: 'deliver', routeBy: { kind: 'attributedSessions' } },
      message: 'heard {{message.text}}',
    };
    const onText = (text: string) => ({ '$.message.text': `<@U-BOT> ${text}` });
    await api('PUT', 'P/secrets/absent', { value: 'a-value-for-now' });
    await bench.apply({
      asking: {
        ...prompted,
        triggers: [
          { ...mentioned, where: onText('!ask'), message: '!ask remove <!channel> the `file`\n!say done with it' },
          heard,
          {
            event: 'codehost.issue.opened',
            connection: 'code',
            routing: { kind: 'spawn' },
            message: '!ask close it\n!say closed it',
          },
        ],
      },
      broken: {
        env: { KEY: { $secret: 'absent' } },
        triggers: [{ ...mentioned, where: onText('!broken') }],
      },
    });
    await api('DELETE', 'P/secrets/absent');
    const set = await api('PATCH', 'P', { approvers: { chat: ['U-BOSS'], codehost: ['5'] } });
    assert.deepEqual(set.body['approvers'], { chat: ['U-BOSS'], codehost: ['5'] });
    assert.equal(set.body['notify'], true);
  });
  after(async () => {
    await bench?.stop();
    await Promise.all([chat?.stop(), code?.stop()]);
    server.closeAllConnections();
    server.close();
  });

  const api = (method: string, path: string, body?: unknown) => bench.daemon.api(method, path, body);
  const hear = async (of: { text: string; user?: string; thread?: string; mention?: boolean }): Promise<JsonBody> => {
    const { text, user = 'U-PERSON', thread, mention = false } = of;
    const ts = chat.say('C1', text, thread === undefined ? {} : { thread });
    const event = { type: mention ? 'app_mention' : 'message', channel: 'C1', user, text, ts, thread_ts: thread };
    const at = String(Math.floor(bench.daemon.ctx.runtime.now().getTime() / 1_000));
    const raw = JSON.stringify({ type: 'event_callback', team_id: 'T1', event_id: `Ev${randomUUID()}`, event });
    const answer = await fetch(`${bench.daemon.url}/api/v1/intake/chat/${ids['team']}`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'x-slack-request-timestamp': at,
        'x-slack-signature': `v0=${hmac(secret, `v0:${at}:${raw}`)}`,
      },
      body: raw,
    });
    assert.equal(answer.status, 202);
    return { ...((await answer.json()) as JsonBody), ts: ts as unknown as JsonBody };
  };
  const inThread = (thread: string): SimMessage[] =>
    (chat.channels.get('C1') ?? []).filter((one) => one.thread_ts === thread && one.user === 'U-BOT');
  const told = (condition: string) =>
    api('GET', 'P/notices').then(({ body }) =>
      (body['items'] as unknown as JsonBody[]).filter((one) => String(one['condition']) === condition),
    );
  const newest = async (agent: string): Promise<string> => {
    const { body } = await api('GET', `P/sessions?agent=${agent}&limit=1`);
    return String(body['items']?.[0]?.['id']);
  };
  const ask = async (): Promise<{ thread: string; session: string }> => {
    const { ts } = await hear({ text: '<@U-BOT> !ask', mention: true });
    const thread = String(ts);
    await eventually('the question is told', () => inThread(thread).length === 1);
    return { thread, session: await newest('asking') };
  };

  it('are asked in the thread, once, and answer there', async () => {
    // The provider loses its answer: it is looked for and not said again.
    chat.fail('chat.postMessage', 'lost');
    const { thread, session } = await ask();
    const [said] = inThread(thread);
    assert.match(
      said?.text ?? '',
      /^A session of `asking` asks for permission:\n\n`` remove <\u200b!channel> the `file` ``/,
    );
    assert.match(said?.text ?? '', /answer here with `allow` or `reject`/);
    assert.match(said?.text ?? '', /More: `svc session allow [0-9a-f-]{36}` or http.*\/default\/default\/sessions\//);
    await eventually(
      'it is settled',
      async () => (await told('session-asks'))[0]?.['tellings']?.[0]?.['status'] === ('done' as never),
    );
    const ignored = await hear({ text: 'allow', thread });
    assert.equal(ignored['routerStatus'], 'routed');
    // Another thread asks nothing: it is a message.
    assert.equal((await hear({ text: 'allow' }))['routerStatus'], 'pending');
    assert.equal((await bench.view(session)).state, 'waiting_permission');
    await hear({ text: '<@U-BOT>  ALLOW ', user: 'U-BOSS', thread, mention: true });
    const view = await bench.until(session, (seen) => idle(seen) && seen.said.includes('done with it'));
    assert.ok(!JSON.stringify(view.texts).includes('heard'), 'no answer is a message');
    const { body } = await api('GET', 'P/audit?limit=20');
    const entries = body['items'] as unknown as { action: string; principal: { name: string } }[];
    const actions = entries.filter((one) => /answer|decided/.test(one.action));
    assert.deepEqual(
      actions.map((one) => [one.action, one.principal.name]),
      [
        ['session.permission_decided', 'chat:U-BOSS'],
        ['session.answer_ignored', 'chat:U-PERSON'],
      ],
    );
    // Decided: the word is a message like others.
    assert.equal((await hear({ text: 'reject', user: 'U-BOSS', thread }))['routerStatus'], 'pending');
    assert.equal(inThread(thread).length, 1);
    const calls = await api('GET', 'P/calls');
    const call = (calls.body['items'] as unknown as { alias: string; session: null; status: string }[])[0];
    assert.deepEqual([call?.alias, call?.session, call?.status], ['question', null, 'done']);
  });

  it('are asked on the issue that a session came from, and one rejects', async () => {
    const [repo] = code.repositories;
    assert.ok(repo !== undefined);
    const number = repo.nextNumber();
    const user = { login: 'ann', id: 5, type: 'User' as const };
    repo.issues.set(number, {
      ...{ id: code.nextId(), number, user, created: code.time(), updated: code.time(), reactions: [] },
      ...{ subIssues: [], blockedBy: [], title: 'It', body: '', state: 'open', stateReason: null, labels: [] },
      ...{ assignees: [], milestone: null, type: null },
    });
    const issue = { id: 1, number, title: 'It', body: '', state: 'open', user, labels: [], assignees: [] };
    const deliver = async (event: string, more: object): Promise<void> => {
      const text = JSON.stringify({
        issue,
        repository: {
          id: repo.id,
          name: 'app',
          full_name: 'acme/app',
          owner: { login: 'acme' },
          default_branch: 'main',
        },
        installation: { id: 1 },
        sender: user,
        ...more,
      });
      const answer = await fetch(`${bench.daemon.url}/api/v1/intake/codehost/${ids['code']}`, {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          'x-github-event': event,
          'x-github-delivery': randomUUID(),
          'x-hub-signature-256': `sha256=${hmac(secret, text)}`,
        },
        body: text,
      });
      assert.equal(answer.status, 202);
    };
    await deliver('issues', { action: 'opened' });
    const comments = () => repo.comments.filter((one) => one.number === number);
    await eventually('the question is a comment', () => comments().length === 1);
    const [comment] = comments();
    assert.match(comment?.body ?? '', /^A session of `asking` asks for permission:\n\n`close it`[^]*<!-- svc:call=/);
    const session = await newest('asking');
    // What is said to somebody else is no answer.
    for (const body of ['@bob allow', '@svc-app[bot] Reject'])
      await deliver('issue_comment', { action: 'created', comment: { id: 9, body, user, html_url: 'https://x.test' } });
    const view = await bench.until(session, idle);
    assert.ok(!view.said.includes('closed it'));
    assert.deepEqual(code.schemaRefusals, []);
  });

  it('hear of a failed launch in the thread, unless the project says otherwise', async () => {
    const { ts } = await hear({ text: '<@U-BOT> !broken', mention: true });
    await eventually('it is told', () => inThread(String(ts)).length === 1);
    assert.match(
      inThread(String(ts))[0]?.text ?? '',
      /^A session of `broken` could not be started\.\n\n`Secret not found: absent/,
    );
    assert.equal((await api('PATCH', 'P', { notify: false })).body['notify'], false);
    const quiet = await hear({ text: '<@U-BOT> !broken', mention: true });
    const dropped = async () =>
      (await told('launch-failed')).some((one) => String(one['tellings']?.[0]?.['status']) === 'dropped');
    await eventually('the second is not', dropped);
    assert.equal(inThread(String(quiet['ts'])).length, 0);
    await api('PATCH', 'P', { notify: true });
  });

  it('are told by receivers of what happens, once per revision and condition', async () => {
    for (const body of [
      { name: 'hook', kind: 'webhook', url: hookUrl(), secret: webhookKey },
      { name: 'room', kind: 'chat', connection: 'team', channel: 'C2', conditions: ['sync-failed', 'secret-expiring'] },
    ]) {
      const made = await api('POST', 'P/receivers', body);
      assert.equal(made.status, 201, JSON.stringify(made.body));
      assert.ok(!JSON.stringify(made.body).includes(webhookKey));
    }
    assert.deepEqual((await api('POST', 'P/receivers/hook/test')).body, { name: 'hook', status: 'done' });
    const test = hooks.at(-1);
    assert.equal(test?.headers['x-signature'], `sha256=${hmac(webhookKey, test?.text ?? '')}`);
    assert.equal(String(test?.body['condition']), 'test');
    await sync('http://127.0.0.1:1/nothing.git');
    const failures = () => hooks.filter((one) => String(one.body['condition']) === 'sync-failed');
    await eventually('a failed sync is told', () => failures().length === 1);
    const { body } = failures()[0] as Hook;
    assert.deepEqual(
      [body['severity'], body['involvedObject'], body['organization'], body['project']].map((one) => one as unknown),
      ['error', { kind: 'Repository', name: 'site' }, 'default', 'default'],
    );
    assert.match(String(body['command']), /^svc reconcile show [0-9a-f-]{36}$/);
    assert.match(String(body['url']), /\/default\/default\/repositories\/site$/);
    await eventually('also in the channel', () => chat.channels.get('C2')?.length === 1);
    assert.match(
      chat.channels.get('C2')?.[0]?.text ?? '',
      /^❌ \*\*Sync of `site` has failed\*\* in `default\/default`/,
    );
    const again = await api('POST', 'P/repositories/site/sync');
    assert.equal(again.status, 202);
    await ended(String(again.body['reconcileId']));
    const soon = new Date(bench.daemon.ctx.runtime.now().getTime() + 3_600_000).toISOString();
    await api('PUT', 'P/secrets/old', { value: 'a-value-of-it', expiresAt: soon });
    for (let time = 0; time < 2; time += 1) await noteByClock(bench.daemon.ctx);
    await eventually('the channel hears of the secret', () => chat.channels.get('C2')?.length === 2);
    assert.match(chat.channels.get('C2')?.[1]?.text ?? '', /^⚠️ \*\*The secret `old` expires at 20/);
    await eventually('so does the webhook', () =>
      hooks.some((one) => String(one.body['condition']) === 'secret-expiring'),
    );
    assert.equal(failures().length, 1, 'the same revision and condition is told once');
  });

  it('are told by the installation’s receivers too, and by whom that is', async () => {
    answers.push(503);
    const before = hooks.length;
    await bench.daemon.ctx.db.query(
      `update svc.connections set status = 'suspended', reason = 'suspended' where name = 'code'`,
    );
    const lost = () => hooks.slice(before).filter((one) => String(one.body['condition']) === 'connection-lost');
    // One of the two is asked for patience, and told again: two and one more.
    await eventually('both are told', () => lost().length === 3);
    assert.deepEqual([...new Set(lost().map((one) => String(one.headers['x-signature'] !== undefined)))].sort(), [
      'false',
      'true',
    ]);
    await bench.daemon.ctx.db.query(`update svc.connections set status = 'active', reason = null where name = 'code'`);
    const { body } = await api('GET', 'P/receivers');
    const rows = body['items'] as unknown as { name: string; scope: string }[];
    assert.deepEqual(
      rows.map((one) => [one.name, one.scope]),
      [
        ['hook', 'project'],
        ['room', 'project'],
        ['operators', 'installation'],
      ],
    );
    assert.ok(!log.includes(webhookKey) && !log.includes(chatToken));
  });

  it('are told once also where the daemon breaks off between the sending and its note', async () => {
    let broken = 0;
    for (const point of ['notify.spread', 'notify.told']) {
      armFailpoint(point, () => {
        armFailpoint(undefined);
        broken += 1;
        throw new Error('it broke off');
      });
      const before = hooks.length;
      const soon = new Date(bench.daemon.ctx.runtime.now().getTime() + 7_200_000).toISOString();
      await api('PUT', `P/secrets/of-${point}`, { value: 'a-value-of-it', expiresAt: soon });
      await noteByClock(bench.daemon.ctx);
      const settled = async (): Promise<boolean> => {
        const [notice] = (await told('secret-expiring')).filter(
          (one) => String(one['subject']?.['secret']) === `of-${point}`,
        );
        const tellings = (notice?.['tellings'] ?? []) as unknown as { status: string }[];
        return tellings.length === 2 && tellings.every((one) => one.status === 'done');
      };
      await eventually(`${point}: both are told`, settled);
      const heard = hooks.slice(before).filter((one) => String(one.body['metadata']?.['secret']) === `of-${point}`);
      assert.equal(heard.length, 1, point);
      const said = (chat.channels.get('C2') ?? []).filter((one) => one.text.includes(`of-${point}`));
      assert.equal(said.length, 1, point);
    }
    assert.equal(broken, 2);
  });

  it('make receivers that fit, and no others', async () => {
    for (const body of [
      { name: 'x', kind: 'webhook' },
      { name: 'x', kind: 'webhook', url: 'ftp://x.example' },
      { name: 'x', kind: 'webhook', url: 'https://u:p@x.example' },
      { name: 'x', kind: 'chat', connection: 'team' },
      { name: 'x', kind: 'chat', connection: 'code', channel: 'C1' },
      { name: 'x', kind: 'webhook', url: hookUrl(), conditions: ['nothing'] },
    ]) {
      assert.equal((await api('POST', 'P/receivers', body)).status, 400, JSON.stringify(body));
    }
    assert.equal((await api('POST', 'P/receivers', { name: 'hook', kind: 'webhook', url: hookUrl() })).status, 409);
    answers.push(404);
    assert.deepEqual((await api('POST', 'P/receivers/hook/test')).body, {
      name: 'hook',
      status: 'refused',
      code: 'refused',
    });
    assert.equal((await api('PATCH', 'P/receivers/hook', { secret: null, suspended: true })).body['signed'], false);
    assert.equal((await api('DELETE', 'P/receivers/hook')).status, 204);
    assert.equal((await api('GET', 'P/receivers/hook')).status, 404);
    assert.equal((await api('PATCH', 'P', { approvers: { chat: ['U', 'U'] } })).status, 400);
    assert.equal((await api('PATCH', 'P', { approvers: { mail: [] } })).status, 400);
  });

  const ended = (run: string) =>
    eventually(
      'the run ends',
      async () => String((await api('GET', `P/reconciles/${run}`)).body['status']) !== 'running',
    );
  async function sync(url: string): Promise<void> {
    const made = await api('POST', 'P/repositories', { name: 'site', url, intervalSeconds: 3600 });
    assert.equal(made.status, 201, JSON.stringify(made.body));
  }
});
