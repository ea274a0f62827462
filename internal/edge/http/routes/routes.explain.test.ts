import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, before, test } from 'node:test';
import { readPayload } from '../../../core/match/match.ts';
import { agentsTree, hook, onEvent } from '../../../flows/sync/apply-testkit.ts';
import { startServer, type Server } from './testkit.ts';

let server: Server;
before(async () => {
  server = await startServer();
  const { bench } = server;
  const auth = { kind: 'none' };
  const on = (endpoint: string, more: object) => hook(endpoint, { auth, ...more });
  const deliver = (onUnmatched: string) => ({ kind: 'deliver', onUnmatched });
  await bench.apply(
    agentsTree({
      capped: {
        concurrency: 1,
        triggers: [
          onEvent('svc.project.onboarded', {}),
          onEvent('svc.project.onboarded', { routing: deliver('spawn') }),
          onEvent('svc.project.onboarded', { routing: deliver('warn') }),
        ],
      },
      triage: {
        triggers: [
          on('in', { where: { severity: 'high', '$.labels': { contains: 'x' } } }),
          on('in', { where: { '$.id': '9007199254740993' } }),
          on('in', { fallback: true, where: { '$.constructor': { exists: false } } }),
          on('other', {}),
          onEvent('codehost.push', { connection: 'gh', optional: true }),
          onEvent('svc.session.binding.bound', {
            routing: { kind: 'bind', target: 'svc.session', onUnmatched: 'error', release: false },
          }),
        ],
      },
    }),
  );
});
after(() => server.stop());

interface Told {
  readonly agent: string;
  readonly ordinal: number;
  readonly matched: boolean;
  readonly clauses: unknown;
  readonly fallback: boolean;
  readonly decision: string | null;
  readonly standsBackFor?: unknown;
}
async function explain(body: object): Promise<readonly Told[]> {
  const answer = await server.call('POST', 'triggers/explain', body, 'viewer');
  assert.equal(answer.status, 200, JSON.stringify(answer.body));
  return (answer.body as { triggers: readonly Told[] }).triggers;
}
const event = 'webhook.received';

test('a key applies however long it is, and one that an endpoint takes is explained', async () => {
  const { bench } = server;
  // Nothing of it that could be packed.
  const long = `svc.${randomBytes(4_000).toString('base64url')}`;
  const longest = `webhook.${String.fromCodePoint(...Array.from({ length: 512 }, (_, at) => 0x20000 + at * 41))}`;
  const auth = { kind: 'none' };
  const own = agentsTree({ wordy: { triggers: [onEvent(long, {}), onEvent(longest, { endpoint: 'wordy', auth })] } });
  const { status, diagnostics } = await bench.apply(own, { prune: false });
  assert.equal(status, 'applied', JSON.stringify(diagnostics));
  const { body } = await server.call('GET', 'triggers?agent=wordy', undefined, 'viewer');
  const { items } = body as { items: readonly { event: string }[] };
  assert.deepEqual(
    items.map((one) => one.event),
    [long, longest],
  );
  const told = await explain({ event: longest, endpoint: 'wordy', payload: {} });
  assert.deepEqual(
    told.map(({ agent, decision }) => [agent, decision]),
    [['wordy', 'spawn']],
  );
});

test('each trigger of the key and endpoint says what every clause read and what would follow', async () => {
  const clause = { path: '$.constructor', clause: { exists: false }, matched: true };
  assert.deepEqual(await explain({ event, endpoint: 'in', payload: { severity: 'low', labels: ['x'] } }), [
    {
      agent: 'triage',
      ordinal: 0,
      matched: false,
      clauses: [
        { path: '$.labels', clause: { contains: 'x' }, value: ['x'], matched: true },
        { path: 'severity', clause: 'high', value: 'low', matched: false },
      ],
      fallback: false,
      decision: null,
    },
    {
      agent: 'triage',
      ordinal: 1,
      matched: false,
      clauses: [{ path: '$.id', clause: '9007199254740993', instead: ['severity', 'labels'], matched: false }],
      fallback: false,
      decision: null,
    },
    { agent: 'triage', ordinal: 2, matched: true, clauses: [clause], fallback: true, decision: 'spawn' },
  ]);
});

test('a fallback stands back where another trigger of its endpoint matched, and a prototype is no payload', async () => {
  const told = await explain({ event, payload: { severity: 'high', labels: ['x'] } });
  assert.deepEqual(
    told.map((one) => [one.ordinal, one.matched, one.decision, one.standsBackFor]),
    [
      [0, true, 'spawn', undefined],
      [1, false, null, undefined],
      [2, false, null, [{ agent: 'triage', ordinal: 0 }]],
      [3, true, 'spawn', undefined],
    ],
  );
});

test('a number that no double holds is explained by its digits', async () => {
  const told = await explain({ event, endpoint: 'in', payload: readPayload('{"id":9007199254740993}') });
  assert.deepEqual(
    told.map((one) => one.matched),
    [false, true, false],
  );
  const rounded = await explain({ event, endpoint: 'in', payload: { id: 9007199254740992 } });
  assert.equal(rounded[1]?.matched, false);
});

test('decisions are those of a world without sessions, with the claims that one event makes by itself', async () => {
  const told = await explain({ event: 'svc.project.onboarded', payload: {} });
  assert.deepEqual(
    told.map((one) => one.decision),
    ['spawn', 'converted', 'unmatched-warn'],
  );
  const [bound] = await explain({ event: 'svc.session.binding.bound', payload: {} });
  assert.equal(bound?.decision, 'unmatched-error');
});

test('a skipped trigger and a key that nobody listens to are explained by silence', async () => {
  assert.deepEqual(await explain({ event: 'codehost.push', payload: {} }), []);
  assert.deepEqual(await explain({ event: 'webhook.nothing', payload: {} }), []);
});

test('a large value is quoted by its first 4 KiB', async () => {
  const long = 'z'.repeat(100_000);
  const [one] = await explain({ event, endpoint: 'in', payload: { severity: long, labels: [long] } });
  assert.deepEqual(one?.clauses, [
    {
      path: '$.labels',
      clause: { contains: 'x' },
      value: `["${'z'.repeat(4_094)}`,
      truncated: true,
      matched: false,
    },
    { path: 'severity', clause: 'high', value: 'z'.repeat(4_096), truncated: true, matched: false },
  ]);
});

test('explaining changes nothing', async () => {
  const count = async () => (await server.bench.db.query('select count(*)::int as n from svc.events')).rows;
  const earlier = await count();
  const dump = await server.bench.dump();
  await explain({ event, payload: { severity: 'high', labels: ['x'] } });
  assert.deepEqual(await count(), earlier);
  assert.equal(await server.bench.dump(), dump);
});

test('a payload is an object, and every key is known', async () => {
  for (const body of [
    { event, payload: [1] },
    { event, payload: null },
    { event },
    { payload: {} },
    { event: '', payload: {} },
    { event, payload: {}, more: 1 },
  ]) {
    const { status } = await server.call('POST', 'triggers/explain', body);
    assert.equal(status, 400, JSON.stringify(body));
  }
});

test('a key is explained through the connection that is named, and one that is unknown is refused', async () => {
  const { bench } = server;
  await bench.db.query(
    `insert into svc.connections (project_id, provider, product, name, config, key_version, sealed_credentials)
     select p.id, 'codehost', 'codehost', u.name, '{}', 1, '\\x00'
       from svc.projects p, unnest(array['one', 'two']) as u (name) where p.id = $1::uuid`,
    [bench.projectId],
  );
  const on = (connection: string) => onEvent('codehost.push', { connection });
  const { status, diagnostics } = await bench.apply(agentsTree({ pushed: { triggers: [on('one'), on('two')] } }), {
    prune: false,
  });
  assert.equal(status, 'applied', JSON.stringify(diagnostics));
  const told = async (more: object) =>
    (await explain({ event: 'codehost.push', payload: {}, ...more }))
      .filter(({ agent }) => agent === 'pushed')
      .map(({ ordinal, matched }) => [ordinal, matched]);
  assert.deepEqual(await told({ connection: 'two' }), [[1, true]]);
  assert.deepEqual(await told({}), [
    [0, true],
    [1, true],
  ]);
  const asked = { event: 'codehost.push', payload: {}, connection: 'three' };
  const unknown = await server.call('POST', 'triggers/explain', asked, 'viewer');
  assert.deepEqual([unknown.status, (unknown.body as { code?: string }).code], [404, 'connection-not-found']);
});
