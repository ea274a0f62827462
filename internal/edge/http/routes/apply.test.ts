import assert from 'node:assert/strict';
import { createHash, randomUUID } from 'node:crypto';
import { after, before, test } from 'node:test';
import { defaultCatalog } from '../../../base/config/default-catalog.ts';
import { recordEvents } from '../../../adapters/store/events/events.ts';
import { compileInline } from '../../../adapters/compiler/compiler.ts';
import { png } from '../../../core/compile/testkit.ts';
import type { SyncPorts } from '../../../flows/ports.ts';
import { startServer, type Server } from './testkit.ts';

let server: Server;
before(async () => {
  // Real compile, in this thread; templates are none.
  const catalog = { ...defaultCatalog, presetLimits: { node24: { cpuCount: 2, memoryMB: 4096 } } };
  const ports: Partial<SyncPorts> = {
    compile: async (input) => compileInline({ ...input, catalog }),
    resolveTemplates: async (specifiers) =>
      new Map(specifiers.map((specifier) => [specifier, { specifier, error: 'unknown-source', detail: 'no source' }])),
  };
  server = await startServer({ sync: ports as SyncPorts, catalog: { catalog, catalogHash: '' } });
});
after(() => server.stop());

const head = 'harness: harness-a\nenvironment: { name: node, image: { kind: preset, name: base } }\n';
const file = (path: string, content: string) => ({ path, content });
const agent = (name: string, more = '') => file(`.svc/agents/${name}.yaml`, `name: ${name}\n${head}${more}`);

interface ApplyAnswer {
  readonly applyId: string;
  readonly eventImpact?: unknown;
  readonly status: string;
  readonly actions: { op: string; kind: string; name: string; changes: unknown[] }[];
  readonly webhooks: { ingestUrl: string; endpoint: string }[];
  readonly diagnostics: {
    severity: string;
    code: string;
    message: string;
    file?: string;
    line?: number;
    column?: number;
    excerpt?: { line: number; lines: string[]; column: number; length: number };
  }[];
}
const apply = async (files: unknown[], more: object = {}): Promise<{ status: number; body: ApplyAnswer }> =>
  (await server.call('POST', 'apply', { files, ...more })) as { status: number; body: ApplyAnswer };
const ops = (answer: ApplyAnswer): string[] =>
  answer.actions.filter(({ op }) => op !== 'unchanged').map(({ op, kind, name }) => `${op} ${kind}/${name}`);

test('files are applied with the owner manual, and the run is among the reconciles', async () => {
  const hook =
    'triggers:\n  - event: webhook.received\n    endpoint: in\n    auth: { kind: none }\n    routing: { kind: spawn }\n';
  const { status, body } = await apply([agent('a', hook), agent('b')]);
  assert.equal(status, 200);
  assert.deepEqual(ops(body), ['create Agent/a', 'create Agent/b', 'create Environment/node']);
  assert.equal(body.status, 'applied');
  assert.equal(body.webhooks[0]?.endpoint, 'in');
  const stored = (await server.call('GET', 'agents/a')).body as { owner: unknown };
  assert.deepEqual(stored.owner, { kind: 'manual' });
  const { rows } = await server.bench.db.query(
    'select status, reason, repository_id, jsonb_array_length(actions) as actions from svc.reconciles where id = $1::uuid',
    [body.applyId],
  );
  assert.deepEqual(rows, [{ status: 'applied', reason: 'apply', repository_id: null, actions: 3 }]);
});

test('a dry run says what would change, field by field, and changes nothing', async () => {
  const before = await server.bench.dump();
  const { status, body } = await apply([agent('a', 'systemPrompt: new\n')], { dryRun: true });
  assert.equal(status, 200);
  assert.equal(body.status, 'planned');
  assert.deepEqual(ops(body), ['update Agent/a', 'delete Agent/b']);
  assert.deepEqual(body.actions[0]?.changes[0], { path: 'systemPrompt', from: null, to: 'new' });
  assert.equal(await server.bench.dump(), before);
  const { rows } = await server.bench.db.query<{ n: number }>('select count(*) as n from svc.reconciles');
  assert.equal(rows[0]?.n, 1);
});

test('prune is the default and can be left out; the same files again are unchanged', async () => {
  assert.deepEqual(ops((await apply([agent('c')], { prune: false })).body), ['create Agent/c']);
  assert.equal((await apply([agent('c')], { prune: false })).body.status, 'unchanged');
  assert.deepEqual(ops((await apply([agent('c')])).body), ['delete Agent/a', 'delete Agent/b']);
});

test('mistakes answer 422 with every diagnostic at its place, and nothing changes', async () => {
  const before = (await server.call('GET', 'agents')).body;
  const broken = await server.call('POST', 'apply', {
    files: [file('.svc/agents/x.yaml', 'name: x\nconcurrency: 2\n')],
  });
  assert.equal(broken.status, 422);
  const problem = broken.body as ApplyAnswer & { code: string };
  assert.equal(problem.code, 'apply-refused');
  assert.ok(problem.diagnostics.length >= 3);
  const needy = 'env:\n  TOKEN: { $secret: absent }\n';
  const late = await server.call('POST', 'apply', { files: [agent('x', needy)] });
  assert.equal(late.status, 422);
  const [diagnostic] = (late.body as ApplyAnswer).diagnostics;
  assert.deepEqual(
    [diagnostic?.code, diagnostic?.file, diagnostic?.line, diagnostic?.excerpt?.lines.at(-1)],
    ['secret-missing', '.svc/agents/x.yaml', 5, '  TOKEN: { $secret: absent }'],
  );
  assert.deepEqual((await server.call('GET', 'agents')).body, before);
  const { rows } = await server.bench.db.query(`select status from svc.reconciles order by seq desc limit 2`);
  assert.deepEqual(rows, [{ status: 'failed' }, { status: 'failed' }], 'both are among the reconciles');
  assert.equal((await server.call('POST', 'apply', { files: [agent('x', needy)], dryRun: true })).status, 422);
  for (const files of [[], [file('.svc', '')], [file('README.md', ''), file('.svc', 'name: x\n')]]) {
    const none = await apply(files);
    assert.equal(none.status, 422, 'there is no .svc/');
    assert.equal(none.body.diagnostics[0]?.code, 'no-svc-directory');
  }
  assert.deepEqual((await server.call('GET', 'agents')).body, before);
});

test('what imports name outside .svc/ comes from the files given, or is missing', async () => {
  const importing = agent('c', 'imports: ../../shared/base.yaml\n');
  const given = await apply([importing, file('shared/base.yaml', 'systemPrompt: "for {{ $team }}"\n')], {
    context: { team: 'ops' },
  });
  assert.equal(given.status, 200);
  assert.deepEqual(given.body.actions[0]?.changes, [{ path: 'systemPrompt', from: null, to: 'for ops' }]);
  const counted = await apply([importing, file('shared/base.yaml', 'systemPrompt: "for {{ $team }}"\n')], {
    context: { team: 1.1 },
  });
  assert.deepEqual(counted.body.actions[0]?.changes, [{ path: 'systemPrompt', from: 'for ops', to: 'for 1.1' }]);
  const odd = file('shared/base.yaml', 'systemPrompt: "{{ $constructor }} {{ $__proto__ }}"\n');
  const context: unknown = JSON.parse('{"constructor":"who built it","__proto__":"of what"}');
  const named = await apply([importing, odd], { context, dryRun: true });
  assert.equal(named.status, 200, JSON.stringify(named.body));
  assert.equal(Object(named.body.actions[0]?.changes[0]).to, 'who built it of what');
  const missing = await apply([importing]);
  assert.deepEqual([missing.status, missing.body.diagnostics[0]?.code], [422, 'import-missing']);
  const template = await apply([agent('c', 'imports: "@acme/none/base.yaml"\n')]);
  assert.deepEqual([template.status, template.body.diagnostics[0]?.code], [422, 'template-unresolved']);
});

test('what belongs to a repository is taken over only when asked to', async () => {
  const owner = await server.bench.addRepository('fleet');
  await server.bench.db.query('update svc.agents set repository_id = $1::uuid', [owner.repositoryId]);
  const refused = await apply([agent('c')]);
  assert.equal(refused.status, 422);
  assert.equal(refused.body.diagnostics[0]?.message, 'Agent c is owned by repository fleet');
  const taken = await apply([agent('c')], { adopt: true });
  assert.equal(taken.status, 200);
  assert.deepEqual(taken.body.actions[0]?.changes.at(-1), { path: 'owner', from: 'repository fleet', to: 'manual' });
});

test('bytes come as base64; paths and encodings that are none are refused', async () => {
  const encoded = { ...agent('c'), content: Buffer.from(agent('c').content).toString('base64'), encoding: 'base64' };
  assert.equal((await apply([encoded], { dryRun: true })).status, 200);
  const bad: unknown[][] = [
    [file('/etc/x', '')],
    [file('.svc/../x', '')],
    [file('a//b', '')],
    [agent('c'), agent('c')],
    [{ path: 'x', content: '?', encoding: 'base64' }],
    [{ path: 'x', content: '', encoding: 'hex' }],
    [{ path: 'x', content: '\ud800' }],
    [{ path: 'x' }],
  ];
  for (const files of bad) assert.equal((await apply(files)).status, 400, JSON.stringify(files));
  assert.equal((await apply([agent('c')], { context: { 'not a name': 'x' } })).status, 400);
  const variables = (count: number) => ({
    context: Object.fromEntries(Array.from({ length: count }, (_, at) => [`k${at}`, 0])),
    dryRun: true,
  });
  assert.equal((await apply([agent('c')], variables(1_000))).status, 200);
  const many = await apply([agent('c')], variables(1_001));
  assert.equal(many.status, 400);
  assert.match(JSON.stringify(many.body), /context: Expected at most 1000 variables/);
  assert.equal((await server.call('POST', 'apply', { files: [agent('c')] }, 'viewer')).status, 403);
});

test('an avatar is stored with the tree that carries it, and may be pinned by its hash afterwards', async () => {
  const picture = Buffer.from(png(512, 512));
  const sha256 = createHash('sha256').update(picture).digest('hex');
  const identity = (pin: string) => agent('face', `identity: { avatar: { asset: .svc/assets/f.png${pin} } }\n`);
  const carried = { path: '.svc/assets/f.png', content: picture.toString('base64'), encoding: 'base64' };
  const stored = await apply([identity(''), carried], { prune: false });
  assert.equal(stored.status, 200, JSON.stringify(stored.body.diagnostics));
  const { rows } = await server.bench.db.query('select sha256, media_type, bytes from svc.assets');
  assert.deepEqual(rows, [{ sha256, media_type: 'image/png', bytes: picture }]);
  assert.equal((await apply([identity(`, sha256: ${sha256}`)], { prune: false })).body.status, 'unchanged');
  const unknown = await apply([identity(`, sha256: ${'f'.repeat(64)}`)], { prune: false });
  assert.deepEqual([unknown.status, unknown.body.diagnostics[0]?.code], [422, 'asset-missing']);
  const { line, column } = unknown.body.diagnostics[0] ?? {};
  assert.deepEqual([line, column], [4, 57]);
});

test('a dry run says what the change would have done to stored events, an apply does not', async () => {
  const { bench } = server;
  const id = randomUUID();
  const received = { dedupHash: null, raw: Buffer.from('{}'), payload: null, receivedAt: bench.ctx.runtime.now() };
  const event = { id, projectId: bench.projectId, key: 'svc.connection.removed', ...received };
  await recordEvents(bench.db, [event], { routing: false });
  const files = [agent('hears', 'triggers:\n  - { event: svc.connection.removed, routing: { kind: spawn } }\n')];
  const { body } = await apply(files, { dryRun: true });
  assert.deepEqual(body.eventImpact, {
    since: '2026-11-14T12:00:00.000Z',
    events: 1,
    truncated: false,
    triggers: [
      {
        agent: 'hears',
        ordinal: 0,
        event: 'svc.connection.removed',
        newly: { count: 1, eventIds: [id] },
        stopped: { count: 0, eventIds: [] },
      },
    ],
  });
  assert.equal((await apply(files)).body.eventImpact, undefined);
  assert.equal((await server.call('DELETE', 'agents/hears')).status, 204);
});

const wants = (preset: string, resources: string) =>
  file(
    '.svc/agents/wants.yaml',
    `name: wants\nharness: harness-a\nenvironment:\n  name: big\n  image: { kind: preset, name: ${preset} }\n  resources: ${resources}\n`,
  );

test('an environment over the ceiling of its preset or of the project is refused where it asks', async () => {
  const refused = async (preset: string, resources: string) => {
    const { status, body } = await apply([wants(preset, resources)]);
    assert.equal(status, 422, JSON.stringify(body));
    return body.diagnostics.map(({ code, message, line, column }) => ({ code, message, line, column }));
  };
  assert.deepEqual(await refused('node24', '{ cpuCount: 3, memoryMB: 4096 }'), [
    { code: 'resources-over-limit', message: 'cpuCount 3 is over the limit of preset node24, 2', line: 6, column: 26 },
  ]);
  assert.equal((await server.call('PATCH', '../p', { limits: { memoryMB: 1024 } })).status, 200);
  assert.deepEqual(await refused('base', '{ cpuCount: 64, memoryMB: 1025 }'), [
    {
      code: 'resources-over-limit',
      message: 'memoryMB 1025 is over the limit of the project, 1024',
      line: 6,
      column: 40,
    },
  ]);
  const within = [wants('base', '{ cpuCount: 64, memoryMB: 1024 }')];
  assert.equal((await apply(within)).status, 200);
  // The same tree, known by now, meets a lower ceiling.
  assert.equal((await server.call('PATCH', '../p', { limits: { cpuCount: 1 } })).status, 200);
  assert.equal((await apply(within)).status, 422);
  assert.equal((await server.call('PATCH', '../p', { limits: null })).status, 200);
  assert.equal((await apply(within)).status, 200);
});

test('what a project reaches is a list of hosts', async () => {
  const allow = ['a.example', '*.b.example:8443', '@npm'];
  const changed = (await server.call('PATCH', '../p', { network: { allow } })) as { status: number; body: object };
  assert.deepEqual([changed.status, (changed.body as { network: unknown }).network], [200, { allow }]);
  for (const entry of ['https://a.example', '*', 'a.example:0', 'A.example']) {
    assert.equal((await server.call('PATCH', '../p', { network: { allow: [entry] } })).status, 400, entry);
  }
  assert.equal((await server.call('PATCH', '../p', { network: null })).status, 200);
});
