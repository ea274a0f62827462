import assert from 'node:assert/strict';
import { Agent, request } from 'node:http';
import { after, before, it } from 'node:test';
import { startTestDaemon, type TestDaemon } from '../../base/testkit/daemon.ts';
import { howMany } from '../../base/testkit/long.ts';
import { agentWithEndpoint, type Delivered } from './ingest-testkit.ts';

const keys = howMany(20, 1_000);
const each = 50;
const agent = new Agent({ keepAlive: true });

let one: TestDaemon;
let other: TestDaemon;
let path = '';
before(async () => {
  one = await startTestDaemon();
  other = await startTestDaemon({
    database: one.database,
    token: one.token,
    config: { masterKeyFile: one.ctx.config.masterKeyFile },
  });
  path = await agentWithEndpoint(one, 'open', { kind: 'none' });
});
after(async () => {
  agent.destroy();
  await other.stop();
  await one.stop();
});

function post(daemon: TestDaemon, body: string): Promise<Delivered> {
  return new Promise((resolve, reject) => {
    const sending = request(`${daemon.url}${path}`, { method: 'POST', agent }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (part: string) => (text += part));
      response.on('end', () =>
        resolve({ status: response.statusCode ?? 0, body: JSON.parse(text) as Delivered['body'] }),
      );
    });
    sending.on('error', reject);
    sending.end(body);
  });
}

it(`${each} deliveries of one dedupKey at once to two daemons, ${keys} times: each is created once`, async () => {
  for (let n = 0; n < keys; n += 1) {
    const answers = await Promise.all(
      Array.from({ length: each }, (_, at) =>
        post(at % 2 === 0 ? one : other, JSON.stringify({ dedupKey: `k${n}`, at })),
      ),
    );
    const created = answers.filter(({ body }) => body['created'] === true);
    assert.deepEqual(
      [created.length, created[0]?.status, answers.filter(({ status }) => status === 200).length],
      [1, 202, each - 1],
    );
    assert.equal(new Set(answers.map(({ body }) => body['eventRecordId'])).size, 1);
  }
  const { rows } = await one.ctx.db.query<{ n: number; keys: number }>(
    `select count(*)::int as n, count(distinct dedup_hash)::int as keys from svc.events where key = 'webhook.received'`,
  );
  assert.deepEqual(rows, [{ n: keys, keys }]);
});
