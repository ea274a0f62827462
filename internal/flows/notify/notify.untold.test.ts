// Questions that nobody could be told of where their session came from: an answer there is one all the same.

import assert from 'node:assert/strict';
import { createHmac, randomUUID } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import type { JsonBody } from '../../base/testkit/daemon.ts';
import { eventually } from '../session-host/host-crash-testkit.ts';
import { createHostBench, type HostBench, type SessionView } from '../session-host/host-testkit.ts';

const secret = 'the-secret-of-the-hooks';
const idle = ({ state, body }: SessionView): boolean =>
  state === 'idle' && Number(body['inbox']?.['pending']) + Number(body['inbox']?.['inFlight']) === 0;

describe('a question that is told to nobody', () => {
  let bench: HostBench;
  let intake = '';

  before(async () => {
    bench = await createHostBench();
    // Without a token of the bot, which a connection need not have: it hears, and says nothing.
    const made = await api('POST', 'P/connections', {
      provider: 'chat',
      name: 'team',
      config: { workspaceId: 'T1', botUserId: 'U-BOT' },
      credentials: { signingSecret: secret },
    });
    assert.equal(made.status, 201, JSON.stringify(made.body));
    intake = new URL(String(made.body['intakeUrl'])).pathname;
    await bench.apply({
      asking: {
        harness: 'harness-b',
        environment: { name: 'prompted', image: { kind: 'preset', name: 'base' }, approvals: 'prompt' },
        triggers: [
          { event: 'chat.message.mentioned', routing: { kind: 'spawn' }, message: '!ask go on\n!say went on' },
          {
            event: 'chat.message.subscribed',
            where: { '$.svc.authored': false },
            routing: { kind: 'deliver', routeBy: { kind: 'attributedSessions' } },
            message: 'heard {{message.text}}',
          },
        ],
      },
    });
    const set = await api('PATCH', 'P', { approvers: { chat: ['U-BOSS'] } });
    assert.equal(set.status, 200, JSON.stringify(set.body));
  });
  after(() => bench?.stop());

  const api = (method: string, path: string, body?: unknown) => bench.daemon.api(method, path, body);
  const hear = async (thread: string, text: string, user = 'U-PERSON', type = 'message'): Promise<JsonBody> => {
    const event = { type, channel: 'C1', user, text, ts: `${thread}.${type.length}`, thread_ts: thread };
    const raw = JSON.stringify({ type: 'event_callback', team_id: 'T1', event_id: `Ev${randomUUID()}`, event });
    const at = String(Math.floor(bench.daemon.ctx.runtime.now().getTime() / 1_000));
    const proof = createHmac('sha256', secret).update(`v0:${at}:${raw}`).digest('hex');
    const answer = await fetch(`${bench.daemon.url}${intake}`, {
      method: 'POST',
      headers: { 'x-slack-request-timestamp': at, 'x-slack-signature': `v0=${proof}` },
      body: raw,
    });
    assert.equal(answer.status, 202);
    return (await answer.json()) as JsonBody;
  };
  /** A session that asks, once it is known how its telling ended. */
  const ask = async (thread: string, ended: string): Promise<string> => {
    const { eventRecordId } = await hear(thread, '<@U-BOT> please', 'U-PERSON', 'app_mention');
    let session = '';
    await eventually('the question is not told', async () => {
      const event = await api('GET', `P/events/${String(eventRecordId)}`);
      session = String(event.body['routes']?.[0]?.['sessionId']);
      const { body } = await api('GET', 'P/notices');
      const own = (body['items'] as unknown as JsonBody[]).filter((one) => JSON.stringify(one).includes(session));
      return own.some((one) => String(one['tellings']?.[0]?.['status']) === ended);
    });
    return session;
  };

  it('for want of a token is answered in the thread by an approver, and by nobody else', async () => {
    const session = await ask('100', 'refused');
    const ignored = await hear('100', 'allow');
    assert.equal(ignored['routerStatus'], 'routed', 'who is no approver is ignored');
    assert.equal((await bench.view(session)).state, 'waiting_permission');
    await hear('100', ' ALLOW ', 'U-BOSS');
    const { said, texts } = await bench.until(session, (seen) => idle(seen) && seen.said.includes('went on'));
    assert.match(said, /permission once/);
    assert.ok(!JSON.stringify(texts).includes('heard'), 'no answer is a message');
    await hear('100', 'allow', 'U-BOSS');
    await bench.until(session, (seen) => JSON.stringify(seen.texts).includes('heard allow'));
  });

  it('since the project keeps quiet is answered too', async () => {
    await api('PATCH', 'P', { notify: false });
    const session = await ask('200', 'dropped');
    await hear('200', 'reject', 'U-BOSS');
    const { said, texts } = await bench.until(session, idle);
    assert.ok(!said.includes('went on'));
    assert.ok(!JSON.stringify(texts).includes('heard'));
  });
});
