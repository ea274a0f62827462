// What the doctor says to do, done word by word: it ends what the doctor says.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { chatToken, ChatSimulator } from '../../internal/base/testkit/chat-simulator.ts';
import { startTestDaemon } from '../../internal/base/testkit/daemon.ts';
import { trackerKey, TrackerSimulator } from '../../internal/base/testkit/tracker-simulator.ts';
import { callSvc } from '../svc/testkit.ts';

test('a credential that its provider refuses is replaced as the doctor and the connection say, which ends it', async (t) => {
  const [chat, tracker] = [await new ChatSimulator().start(), await new TrackerSimulator().start()];
  const daemon = await startTestDaemon({ config: { allowPrivateNetwork: true } });
  t.after(async () => {
    await daemon.stop();
    await chat.stop();
    await tracker.stop();
  });
  const { api, url, token, dataDir } = daemon;
  const svc = (line: string, stdin = '') =>
    callSvc(dataDir, line.replace('FILE', '-').split(' ').slice(1), {
      env: { SVC_URL: url, SVC_TOKEN: token },
      stdin,
    });
  const hint = async (name: string): Promise<string | undefined> => {
    const checks = (await api('GET', 'P/doctor')).body['checks'] as unknown as { message: string; hint: string }[];
    return checks.find(({ message }) => message.startsWith(`connection ${name} `))?.hint;
  };
  const cases = [
    { provider: 'chat', apiUrl: chat.url, wrong: { signingSecret: 's', botToken: 'xoxb-another' }, right: chatToken },
    {
      provider: 'tracker',
      apiUrl: tracker.url,
      wrong: { webhookSecret: 's', apiKey: 'lin_another' },
      right: trackerKey,
    },
  ];
  for (const { provider, apiUrl, wrong, right } of cases) {
    const name = `our-${provider}`;
    const made = await api('POST', 'P/connections', { provider, name, config: { apiUrl }, credentials: wrong });
    assert.equal(made.status, 201, JSON.stringify(made.body));
    assert.equal((await svc(`svc connection check ${name}`)).code, 1);
    const flag = provider === 'chat' ? '--bot-token-file' : '--api-key-file';
    const [replace, check] = [
      `svc connection set-credentials ${name} ${flag} FILE`,
      `svc connection check ${name}`,
    ] as const;
    assert.equal(await hint(name), `${replace}, then: ${check}`);
    const { stdout } = await svc(`svc connection show ${name}`);
    assert.ok(stdout.includes(`${replace}, then: ${check}`), stdout);
    assert.equal((await svc(replace, right)).code, 0);
    assert.equal((await svc(check)).code, 0);
    assert.equal(await hint(name), undefined);
  }
  const gone = { provider: 'tracker', name: 'gone', config: { apiUrl: 'http://127.0.0.1:9' } };
  await api('POST', 'P/connections', { ...gone, credentials: { webhookSecret: 's', apiKey: 'lin_x' } });
  await svc('svc connection check gone');
  assert.equal(await hint('gone'), 'svc connection check gone', 'no other key reaches what is away');
});

test('an event whose routing failed is told of until it is replayed, as the doctor says', async (t) => {
  const daemon = await startTestDaemon();
  t.after(() => daemon.stop());
  const { api, url, token, dataDir } = daemon;
  const trigger = { event: 'webhook.received', endpoint: 'hook', auth: { kind: 'none' }, routing: { kind: 'spawn' } };
  const environment = { name: 'default', image: { kind: 'preset', name: 'base' } };
  const content = JSON.stringify({ name: 'a', harness: 'harness-a', environment, triggers: [trigger] });
  const applied = await api('POST', 'P/apply', { files: [{ path: '.svc/agents/a.json', content }] });
  const ingest = new URL(String(applied.body['webhooks']?.[0]?.['ingestUrl'])).pathname;
  const checks = async () =>
    ((await api('GET', 'P/doctor')).body['checks'] as unknown as { name: string; message: string; hint: string }[])
      .filter(({ name }) => name === 'events' || name === 'parked')
      .map(({ name, hint }) => [name, hint]);
  for (const reason of ['it broke', 'ended-the-process']) {
    const id = String((await api('POST', ingest, { reason }, { token: null })).body['eventRecordId']);
    const isRouted = async () => (await api('GET', `P/events/${id}`)).body['routerStatus'] === ('routed' as never);
    for (let tries = 0; tries < 2_400 && !(await isRouted()); tries += 1) await sleep(50);
    await daemon.database.db.query(
      `update svc.events set router_status = 'failed', reason = $2::text where id = $1::uuid`,
      [id, reason],
    );
    const replay = `svc event replay ${id}`;
    assert.deepEqual(await checks(), [
      ...(reason === 'ended-the-process' ? [['parked', replay]] : []),
      ['events', `svc event show ${id}; svc event replay ID`],
    ]);
    const env = { SVC_URL: url, SVC_TOKEN: token };
    assert.equal((await callSvc(dataDir, replay.split(' ').slice(1), { env })).code, 0);
    assert.deepEqual(await checks(), [], 'its replay stands for it');
    assert.equal((await api('GET', 'P/events?status=failed')).body['items']?.[0]?.['id'], id, 'what was is kept');
  }
});
