// Each condition in the words that people read, told by what makes it so: real sessions, a real model's meter, real syncs.
// The installation's channel hears all of them; questions and failed launches are told on the tracker's issue too.

import assert from 'node:assert/strict';
import { createHmac, randomUUID } from 'node:crypto';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { createLog } from '../../base/log/log.ts';
import { chatToken, ChatSimulator } from '../../base/testkit/chat-simulator.ts';
import type { JsonBody } from '../../base/testkit/daemon.ts';
import { trackerKey, TrackerSimulator } from '../../base/testkit/tracker-simulator.ts';
import { eventually } from '../session-host/host-crash-testkit.ts';
import { createHostBench, type HostBench, type SessionView } from '../session-host/host-testkit.ts';
import { type ModelStub, startModelStub } from '../session-host/model-testkit.ts';
import { noteByClock } from './notify.ts';

const secret = 'the-secret-of-the-hooks';
const idle = ({ state, body }: SessionView): boolean =>
  state === 'idle' && Number(body['inbox']?.['pending']) + Number(body['inbox']?.['inFlight']) === 0;
const agentFile = (name: string): string =>
  `name: ${name}\nharness: harness-a\nenvironment: { name: base, image: { kind: preset, name: base } }\n`;

describe('what people are told', () => {
  let bench: HostBench;
  let chat: ChatSimulator;
  let tracker: TrackerSimulator;
  let stub: ModelStub;
  let folder: string;
  let intake = '';
  let log = '';
  const model = { provider: 'provider-a', id: 'claude-opus-4-8' };

  before(async () => {
    [chat, tracker, stub] = await Promise.all([
      new ChatSimulator().start(),
      new TrackerSimulator().start(),
      startModelStub(),
    ]);
    chat.channels.set('C-OPS', []);
    folder = await mkdtemp(join(tmpdir(), 'svc-told-'));
    bench = await createHostBench({
      log: createLog('trace', { write: (line: string) => void (log += line) }),
      config: {
        allowPrivateNetwork: true,
        file: {
          providers: {
            chat: { apiUrl: chat.url },
            tracker: { apiUrl: tracker.url },
            model: { 'provider-a': { baseUrl: stub.url } },
          },
          notifications: {
            receivers: [
              { kind: 'chat', name: 'ops', project: 'default/default', connection: 'team', channel: 'C-OPS' },
            ],
          },
        },
        secretEnv: () => 'a-key-of-the-provider',
      },
    });
    for (const [provider, name, config, credentials] of [
      ['chat', 'team', { botUserId: 'U-BOT' }, { signingSecret: secret, botToken: chatToken }],
      ['tracker', 'issues', { botUserId: 'u2' }, { webhookSecret: secret, apiKey: trackerKey }],
    ] as const) {
      const { status, body } = await api('POST', 'P/connections', { provider, name, config, credentials });
      assert.equal(status, 201, JSON.stringify(body));
      if (provider === 'tracker') intake = new URL(String(body['intakeUrl'])).pathname;
    }
    const opened = { event: 'tracker.issue.created', connection: 'issues', routing: { kind: 'spawn' } };
    const about = (text: string) => ({ where: { '$.tracker.issue.title': text } });
    await api('PUT', 'P/secrets/absent', { value: 'a-value-for-now' });
    await bench.apply({
      asking: {
        harness: 'harness-b',
        environment: { name: 'prompted', image: { kind: 'preset', name: 'base' }, approvals: 'prompt' },
        triggers: [{ ...opened, ...about('Ask'), message: '!ask close it\n!say closed it' }],
      },
      broken: { env: { KEY: { $secret: 'absent' } }, triggers: [{ ...opened, ...about('Break') }] },
      spender: { model, spendCaps: { maxPerSessionUsd: '30' } },
      saver: { model, spendCaps: { dailyUsd: '0' } },
    });
    await api('DELETE', 'P/secrets/absent');
    await api('PATCH', 'P', { approvers: { tracker: ['u1'] } });
  });
  after(async () => {
    await bench?.stop();
    await Promise.all([chat?.stop(), tracker?.stop(), stub?.stop()]);
    await rm(folder, { recursive: true, force: true });
  });

  const api = (method: string, path: string, body?: unknown) => bench.daemon.api(method, path, body);
  const said = (): string[] => (chat.channels.get('C-OPS') ?? []).map((one) => one.text);
  /** The only message that the channel has heard with these words; it waits for it. */
  const heard = async (words: RegExp): Promise<string> => {
    await eventually(`${words} is told`, () => said().some((text) => words.test(text)));
    const [text, ...others] = said().filter((one) => words.test(one));
    assert.equal(others.length, 0, 'once');
    return text ?? '';
  };
  const deliver = async (body: object): Promise<JsonBody> => {
    const now = bench.daemon.ctx.runtime.now().getTime();
    const text = JSON.stringify({ webhookTimestamp: now, actor: { id: 'u1', name: 'Ada' }, ...body });
    const answer = await fetch(`${bench.daemon.url}${intake}`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'linear-signature': createHmac('sha256', secret).update(text).digest('hex'),
        'linear-delivery': randomUUID(),
      },
      body: text,
    });
    assert.equal(answer.status, 202);
    return (await answer.json()) as JsonBody;
  };
  const issueOf = (n: number) => tracker.issues[n] ?? assert.fail();
  const opens = (n: number, title: string) =>
    deliver({
      action: 'create',
      type: 'Issue',
      data: { id: issueOf(n).id, identifier: issueOf(n).identifier, title, team: { id: 'team-1', key: 'ABC' } },
    });
  const comments = (n: number, body: string, by = 'u1') =>
    deliver({
      action: 'create',
      type: 'Comment',
      actor: { id: by, name: by },
      data: { id: randomUUID(), body, issueId: issueOf(n).id, user: { id: by, name: by } },
    });
  const on = (n: number) => tracker.comments.filter((one) => one.issueId === issueOf(n).id);

  it('of a question: on the issue that a session came from, where an approver answers', async () => {
    tracker.faults.push('lost');
    await opens(0, 'Ask');
    await eventually('the question is a comment', () => on(0).length === 1);
    assert.match(
      on(0)[0]?.body ?? '',
      /^A session of `asking` asks for permission:\n\n`close it`\n\nApprovers answer here with `allow` or `reject`\.\n\nMore: `svc session allow [0-9a-f-]{36}` or http/,
    );
    const { body } = await api('GET', 'P/sessions?agent=asking&limit=1');
    const session = String(body['items']?.[0]?.['id']);
    await heard(
      /^⚠️ \*\*A session of `asking` asks for permission\*\* in `default\/default`\n`close it`\nMore: `svc session allow /,
    );
    await comments(0, 'allow', 'u2-stranger');
    assert.equal((await bench.view(session)).state, 'waiting_permission');
    await comments(0, ' Allow ');
    await bench.until(session, (view) => idle(view) && view.said.includes('closed it'));
    assert.equal(on(0).length, 1, 'the lost answer was looked for, and nothing said twice');
    const told = async (): Promise<string[]> =>
      ((await api('GET', 'P/calls')).body['items'] as unknown as { tool: string; alias: string; status: string }[])
        .filter((one) => one.tool === 'issue_comment')
        .map(({ alias, status }) => `${alias} ${status}`);
    await eventually('its call has an end', async () => !(await told()).join().includes('sending'));
    assert.deepEqual(await told(), ['question done']);
  });

  it('of a launch that failed: on the issue, and as a failed session in the channel', async () => {
    await opens(1, 'Break');
    await eventually('it is a comment', () => on(1).length === 1);
    assert.match(
      on(1)[0]?.body ?? '',
      /^A session of `broken` could not be started\.\n\n`Secret not found: absent[^]*\n\nMore: `svc session show [0-9a-f-]{36}` or http/,
    );
    const text = await heard(/A session of `broken` has failed/);
    assert.match(text, /^❌ \*\*A session of `broken` has failed\*\* in `default\/default`\n`Secret not found: absent/);
  });

  it('of money: a session that is blocked, and a cap that is reached', async () => {
    const session = await bench.start('spender', '!model first\n!sleep 30000');
    await bench.until(session, ({ state }) => state === 'blocked');
    const blocked = await heard(/A session of `spender` is blocked/);
    assert.match(
      blocked,
      /\n`Spend cap reached: maxPerSessionUsd allows 30 USD for the session[^`]*`\nMore: `svc session show [0-9a-f-]{36}` or http\S*\/default\/default\/sessions\/[0-9a-f-]{36}$/,
    );
    const cap = await heard(/A spend cap of `spender` is reached/);
    assert.match(cap, /\n`Spend cap reached: maxPerSessionUsd allows 30 USD/);
    // Two sessions that wait for the same cap of their agent: one notice.
    for (let n = 0; n < 2; n += 1) {
      const waiting = await bench.start('saver', '!say hello');
      await bench.until(waiting, (view) => view.reason === 'cap');
    }
    assert.match(await heard(/A spend cap of `saver` is reached/), /\n`Spend cap reached: dailyUsd allows 0 USD/);
    assert.ok(!said().some((text) => /A session of `saver` is blocked/.test(text)), 'it waits, and is not blocked');
  });

  it('of a sync: failed, held and what lets it pass, and that it has recovered', async () => {
    const agents = join(folder, '.svc', 'agents');
    await mkdir(agents, { recursive: true });
    await writeFile(join(agents, 'one.yaml'), agentFile('one'));
    await writeFile(join(agents, 'two.yaml'), agentFile('two'));
    const made = await api('POST', 'P/repositories', { name: 'site', path: folder, guard: { deleteMax: 0 } });
    assert.equal(made.status, 201, JSON.stringify(made.body));
    const latest = async (): Promise<JsonBody | undefined> =>
      ((await api('GET', 'P/reconciles?repository=site&limit=1')).body['items'] as unknown as JsonBody[])[0];
    const becomes = async (status: string): Promise<string> => {
      await eventually(`a run is ${status}`, async () => String((await latest())?.['status']) === status);
      return String((await latest())?.['id']);
    };
    await becomes('applied');
    await writeFile(join(agents, 'one.yaml'), 'name: one\nharness: nothing\n');
    await api('POST', 'P/repositories/site/sync');
    await becomes('failed');
    assert.match(
      await heard(/Sync of `site` has failed/),
      /^❌ \*\*Sync of `site` has failed at \S+\*\* in `default\/default`\n`[^]+`\nMore: `svc reconcile show [0-9a-f-]{36}` or http\S*\/default\/default\/repositories\/site$/,
    );
    await rm(join(agents, 'one.yaml'));
    await api('POST', 'P/repositories/site/sync');
    const held = await becomes('held');
    const words = await heard(/Sync of `site` is held/);
    assert.ok(words.startsWith('⚠️ **Sync of `site` is held at '), words);
    assert.ok(
      words.includes(`\nApprove it with \`svc repo approve site ${held}\`.\nMore: \`svc reconcile show ${held}\``),
      words,
    );
    assert.equal((await api('POST', `P/repositories/site/approve`, { reconcileId: held })).status, 202);
    await becomes('applied');
    assert.match(
      await heard(/Sync of `site` has recovered/),
      /^✅ \*\*Sync of `site` has recovered at \S+\*\* in `default\/default`\n`it was: held`\nMore: /,
    );
  });

  it('of a connection that is lost, and of a secret that is about to expire', async () => {
    const { status } = await api('PUT', 'P/connections/issues/credentials', {
      credentials: { webhookSecret: secret, apiKey: trackerKey },
    });
    assert.equal(status, 200);
    await bench.daemon.ctx.db.query(
      `update svc.connections set status = 'removed', reason = 'removed' where name = 'issues'`,
    );
    assert.match(
      await heard(/The connection `issues` is lost/),
      /^❌ \*\*The connection `issues` is lost\*\* in `default\/default`\n`removed: removed`\nMore: `svc connection show issues` or http\S*\/default\/default\/connections$/,
    );
    const soon = new Date(bench.daemon.ctx.runtime.now().getTime() + 86_400_000).toISOString();
    const late = new Date(bench.daemon.ctx.runtime.now().getTime() + 8 * 86_400_000).toISOString();
    await api('PUT', 'P/secrets/soon', { value: 'a-value-of-it', expiresAt: soon });
    await api('PUT', 'P/secrets/late', { value: 'a-value-of-it', expiresAt: late });
    for (let times = 0; times < 2; times += 1) await noteByClock(bench.daemon.ctx);
    assert.match(
      await heard(/The secret `soon` expires at/),
      new RegExp(
        `^⚠️ \\*\\*The secret \`soon\` expires at ${soon.slice(0, 19)}Z\\*\\* in [^]*\\nMore: \`svc secret show soon\` or http`,
      ),
    );
    assert.ok(!said().some((text) => text.includes('`late`')), 'seven days before, and no earlier');
    assert.ok(!said().join().includes('a-value-of-it') && !log.includes('a-value-of-it'));
    assert.ok(!log.includes(chatToken) && !log.includes(trackerKey));
    assert.deepEqual(chat.refusals, []);
  });
});
