// What a session waits for: a person's answer, and money (docs/reference/sessions.md#states and #spending).

import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { after, before, describe, it } from 'node:test';
import { eventually, processesOf } from './host-crash-testkit.ts';
import { createHostBench, type HostBench, type SessionView } from './host-testkit.ts';
import { type ModelStub, startModelStub } from './model-testkit.ts';

/** At rest, with nothing left to hear: a session rests for a moment before its first turn too. */
const idle = ({ state, body }: Pick<SessionView, 'state' | 'body'>): boolean =>
  state === 'idle' && Number(body['inbox']?.['pending']) + Number(body['inbox']?.['inFlight']) === 0;

describe('what a harness asks a person', { concurrency: 4 }, () => {
  let bench: HostBench;
  before(async () => {
    bench = await createHostBench();
    await bench.apply({
      asking: {
        harness: 'harness-b',
        environment: { name: 'prompted', image: { kind: 'preset', name: 'base' }, approvals: 'prompt' },
      },
      brief: {
        harness: 'harness-b',
        environment: { name: 'prompted', image: { kind: 'preset', name: 'base' }, approvals: 'prompt' },
        session: { archiveAfterInactive: { seconds: 60 } },
      },
      trusting: {},
    });
  });
  after(() => bench.stop());

  const asked = async (agent = 'asking'): Promise<{ session: string; permission: string }> => {
    const session = await bench.start(agent, '!ask remove the file\n!say done with it');
    const view = await bench.until(session, (seen) => seen.state === 'waiting_permission');
    const [open] = view.body['permissions'] as unknown as { id: string; title: string }[];
    assert.equal(open?.title, 'remove the file');
    return { session, permission: open?.id ?? '' };
  };
  const decide = async (session: string, permission: string, decision: string): Promise<number> =>
    (await bench.daemon.api('POST', `P/sessions/${session}/permissions/${permission}`, { decision })).status;

  it('waits for the answer, and the turn goes on with it', async () => {
    for (const [decision, said] of [
      ['allow', 'permission once'],
      ['allow_always', 'permission always'],
    ] as const) {
      const { session, permission } = await asked();
      assert.ok((await decide(session, permission, decision)) < 300);
      const view = await bench.until(session, idle);
      assert.ok(view.said.includes(said) && view.said.includes('done with it'), view.said);
      assert.deepEqual(view.body['permissions'], []);
      assert.equal(await decide(session, permission, 'reject'), 409);
    }
  });

  it('a rejection ends what was asked for', async () => {
    const { session, permission } = await asked();
    assert.ok((await decide(session, permission, 'reject')) < 300);
    const view = await bench.until(session, idle);
    assert.ok(!view.said.includes('done with it'), view.said);
  });

  it('a message that interrupts takes the question back', async () => {
    const { session, permission } = await asked();
    await bench.send(session, '!say something else');
    const view = await bench.until(session, (seen) => idle(seen) && seen.said.includes('something else'));
    assert.ok(!view.said.includes('done with it'), view.said);
    assert.deepEqual(view.body['permissions'], []);
    assert.equal(await decide(session, permission, 'allow'), 409);
  });

  it('waits for as long as nobody answers, unless its agent is archived when nothing happens', async () => {
    const [patient, brief] = await Promise.all([asked(), asked('brief')]);
    // As of a day ago; the other one first, so that it was there to be archived too.
    for (const { session } of [patient, brief]) {
      const { db } = bench.daemon.ctx;
      await db.query(`update svc.sessions set active_at = active_at - interval '1 day' where id = $1::uuid`, [session]);
      await db.query(
        `update svc.permissions set created_at = created_at - interval '1 day' where session_id = $1::uuid`,
        [session],
      );
    }
    const ended = await bench.until(brief.session, (view) => view.state === 'archived');
    assert.equal(ended.reason, 'nothing happened for 60 s');
    assert.deepEqual(ended.body['permissions'], []);
    assert.equal(await decide(brief.session, brief.permission, 'allow'), 409);
    assert.deepEqual(
      (await bench.turns(brief.session)).map((turn) => turn.state),
      ['cancelled'],
    );
    await eventually('nothing of it runs', () => processesOf(brief.session).length === 0);
    assert.equal((await bench.view(patient.session)).state, 'waiting_permission');
    assert.ok((await decide(patient.session, patient.permission, 'allow')) < 300);
    await bench.until(patient.session, (view) => idle(view) && view.said.includes('done with it'));
  });

  it('asks anew when its harness is lost meanwhile', async () => {
    const { session, permission } = await asked();
    for (const pid of processesOf(session)) process.kill(pid, 'SIGKILL');
    const open = (view: SessionView): string =>
      (view.body['permissions'] as unknown as { id: string }[]).map((one) => one.id).join();
    const view = await bench.until(session, (seen) => seen.state === 'waiting_permission' && open(seen) !== permission);
    assert.equal(await decide(session, permission, 'allow'), 409);
    assert.ok((await decide(session, open(view), 'allow')) < 300);
    await bench.until(session, (seen) => idle(seen) && seen.said.includes('done with it'));
  });

  it('nobody is asked where approvals are bypassed', async () => {
    const session = await bench.start('trusting', '!ask remove the file\n!say done with it');
    const view = await bench.until(session, idle);
    assert.ok(view.said.includes('permission once') && view.said.includes('done with it'), view.said);
  });
});

/** Asks four times at once, and works until it is told to end when it is answered. */
const manyAsker = `
  const say = (message) => console.log(JSON.stringify({ jsonrpc: '2.0', ...message }));
  const agentCapabilities = { mcpCapabilities: { http: true } };
  const answers = { initialize: { protocolVersion: 1, agentCapabilities }, 'session/new': { sessionId: 's' } };
  const options = [{ optionId: 'yes', name: 'Yes', kind: 'allow_once' }];
  let prompt;
  require('readline').createInterface({ input: process.stdin }).on('line', (line) => {
    const { id, method } = JSON.parse(line);
    if (method === 'session/cancel') say({ id: prompt, result: { stopReason: 'cancelled' } });
    else if (method === 'session/prompt') {
      prompt = id;
      for (const title of ['a', 'b', 'c', 'd']) {
        const params = { sessionId: 's', toolCall: { toolCallId: title, title }, options };
        say({ id: title, method: 'session/request_permission', params });
      }
    } else if (method !== undefined && id !== undefined) say({ id, result: answers[method] ?? {} });
  });`;

describe('the time of a turn', () => {
  it('goes on when a person has answered, however many questions stood side by side', async () => {
    const harnessBCommand = [process.execPath, '-e', manyAsker];
    const bench = await createHostBench({ config: { harnessBCommand, file: { sessions: { turnSeconds: 2 } } } });
    try {
      const environment = { name: 'prompted', image: { kind: 'preset', name: 'base' }, approvals: 'prompt' };
      await bench.apply({ asking: { harness: 'harness-b', environment } });
      const session = await bench.start('asking', 'begin');
      const open = (view: SessionView): { id: string }[] => view.body['permissions'] as unknown as { id: string }[];
      const asked = await bench.until(session, (view) => open(view).length === 4);
      await sleep(5_000);
      assert.equal((await bench.view(session)).state, 'waiting_permission', 'that time does not count');
      for (const { id } of open(asked)) {
        await bench.daemon.api('POST', `P/sessions/${session}/permissions/${id}`, { decision: 'allow' });
      }
      const answered = performance.now();
      const { body } = await bench.until(session, idle);
      assert.equal(body['lastTurn']?.['stopReason'], 'turn-timeout');
      assert.ok(performance.now() - answered < 10_000, 'the five seconds count once');
    } finally {
      await bench.stop();
    }
  });
});

describe('a session and its money', () => {
  let bench: HostBench;
  let stub: ModelStub;
  before(async () => {
    stub = await startModelStub();
    bench = await createHostBench({
      config: {
        allowPrivateNetwork: true,
        file: { providers: { model: { 'provider-a': { baseUrl: stub.url } } } },
        secretEnv: () => 'a-key-of-the-provider',
      },
    });
  });
  after(async () => {
    await bench.stop();
    await stub.stop();
  });
  const model = { provider: 'provider-a', id: 'claude-opus-4-8' };
  const capped = (caps: object): Promise<void> => bench.apply({ spender: { model, spendCaps: caps } });
  const isBlocked = (view: SessionView): boolean => view.state === 'blocked';

  it('is stopped at a cap that its turn passes, keeps its message, and goes on when the cap is raised', async () => {
    await capped({ maxPerSessionUsd: '30' });
    const leaves = '!exec for n in 1 2 3 4 5 6; do echo $n > $SVC_ARTIFACTS/$n; done';
    const session = await bench.start('spender', `${leaves}\n!model first\n!sleep 30000`);
    const blocked = await bench.until(session, isBlocked);
    await eventually('nothing of it runs', () => processesOf(session).length === 0);
    const left = async (): Promise<number> =>
      ((await bench.daemon.api('GET', `P/sessions/${session}/files`)).body['items'] as unknown as unknown[]).length;
    await eventually(
      'what it left is kept, though it goes on when there is money',
      async () => (await left()) === 6,
      20_000,
    );
    assert.match(blocked.reason ?? '', /^Spend cap reached: maxPerSessionUsd allows 30 USD for the session/);
    assert.deepEqual(blocked.body['inbox'], { pending: 1, inFlight: 0, done: 0, failed: 0 });
    assert.equal(blocked.body['usage']?.['costUsd'], '30');
    const { body: doctor } = await bench.daemon.api('GET', 'P/doctor');
    const checks = doctor['checks'] as unknown as readonly { readonly name: string; readonly hint?: string }[];
    const hint = checks.find(({ name }) => name === 'blocked')?.hint;
    assert.equal(hint, `raise spendCaps of spender, or svc session archive ${session}`);
    await bench.send(session, '!say went on');
    assert.equal((await bench.view(session)).state, 'blocked');
    await capped({ maxPerSessionUsd: '100' });
    const again = await bench.until(session, (view) => view.state === 'running');
    assert.equal(again.reason, null);
    await bench.send(session, '!say the end');
    const view = await bench.until(session, (seen) => idle(seen) && seen.said.includes('the end'));
    assert.ok(view.texts.some((text) => text.endsWith('delivered again.')));
    const heard = await bench.heard(session);
    assert.match(heard[1] ?? '', /^\[Delivered again: [^]*!model first[^]*!say went on$/);
  });

  it('is blocked where a call is refused with 402, and stays queued where it would be launched without room', async () => {
    await bench.apply({ refused: { model, spendCaps: { dailyUsd: '30' } } });
    const session = await bench.start('refused', '!model first\n!model second\n!say never');
    const view = await bench.until(session, isBlocked);
    assert.match(
      view.reason ?? '',
      /^Spend cap reached: dailyUsd allows 30 USD for the day \(UTC\), 30 USD are spent; it resets at /,
    );
    assert.ok(!view.said.includes('never'));
    const next = await bench.start('refused', '!say hello');
    const waits = await bench.until(next, (seen) => seen.reason === 'cap');
    assert.equal(waits.state, 'queued');
    assert.match(String(waits.body['reasonText']), /^Spend cap reached: dailyUsd allows 30 USD/);
    assert.ok(!('position' in waits.body));
    assert.equal((await bench.turns(next)).length, 0);
    const { body: doctor } = await bench.daemon.api('GET', 'P/doctor');
    const checks = doctor['checks'] as unknown as readonly { readonly message: string }[];
    assert.ok(checks.some(({ message }) => message.startsWith(`session ${next} of refused waits for its spend cap: `)));
    await bench.apply({ refused: { model, spendCaps: { dailyUsd: '300' } } });
    await bench.until(next, (seen) => idle(seen) && seen.said.includes('hello'));
  });

  it('is not launched on a model of unknown price under a cap, and says what to do', async () => {
    await bench.apply({
      unknown: { model: { provider: 'provider-a', id: 'claude-unheard-of-9' }, spendCaps: { dailyUsd: '30' } },
    });
    const session = await bench.start('unknown', '!say hello');
    const { reason } = await bench.until(session, (view) => view.state === 'failed');
    assert.match(reason ?? '', /The price of claude-unheard-of-9 .* is not known, and a spend cap is set/);
  });

  it('asks its model with the effort, the prompt and the context that it was given', async () => {
    await bench.apply({
      told: { model, reasoningEffort: 'low', systemPrompt: 'Be brief.' },
      other: { harness: 'harness-b', model: { provider: 'provider-b', id: 'gpt-5.2' }, reasoningEffort: 'xhigh' },
    });
    const session = await bench.start('told', '!config\n!system\n!model hello');
    const view = await bench.until(session, idle);
    assert.ok(view.said.includes('"effort":"low"') && view.said.includes('Be brief.'), view.said);
    const call = stub.asked.find(({ body }) => JSON.stringify(body['messages']).includes('hello'));
    assert.equal(call?.body['model'], 'claude-opus-4-8');
    assert.deepEqual(call?.body['output_config'], { effort: 'low' });
    assert.equal(call?.body['system'], 'Be brief.');
    assert.equal(call?.headers['x-api-key'], 'a-key-of-the-provider');
    const other = await bench.start('other', '!config');
    const { said } = await bench.until(other, idle);
    assert.ok(said.includes('"model":"gpt-5.2"') && said.includes('"effort":"xhigh"'), said);
  });

  it('repeats neither the address of its model nor the token in it', async () => {
    await bench.apply({ leaky: { model } });
    const session = await bench.start(
      'leaky',
      '!env ANTHROPIC_BASE_URL\n!exec env; tr "\\0" "\\n" < /proc/$PPID/environ',
    );
    await bench.until(session, (seen) => idle(seen) && seen.said.includes('ANTHROPIC_BASE_URL='));
    const all = JSON.stringify((await bench.daemon.api('GET', `P/sessions/${session}/messages`)).body);
    assert.doesNotMatch(all, /\/s\/[A-Za-z0-9_-]{43}/);
  });
});
