import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { AgentSpec, Trigger } from '../../domain/spec.ts';
import { agent, applied, emptyState, environment, identity, options, tree } from './fixture.ts';
import { diffJson } from './stored.ts';
import { plan, specsNeeded } from './plan.ts';
import type { Current, Desired, DesiredResource, PlanOptions } from './types.ts';

const spawn = { kind: 'spawn' } as const;
const event = (key: string, more: object = {}): Trigger =>
  ({ kind: 'event', event: key, where: {}, fallback: false, routing: spawn, ...more }) as Trigger;
const heartbeat = (cron: string): Trigger => ({
  kind: 'heartbeat',
  cron,
  timezone: 'UTC',
  where: {},
  fallback: false,
  routing: spawn,
});

const triggers = fc.array(
  fc.oneof(
    fc.constantFrom('svc.a', 'svc.b').map((key) => event(key)),
    fc.constantFrom('e1', 'e2').map((name) => event('webhook.x', { endpoint: name, auth: { kind: 'none' } })),
    fc.constantFrom('1 * * * *', '2 * * * *').map(heartbeat),
    fc.constant(event('codehost.push', { optional: true })),
  ),
  { maxLength: 3 },
);
const agents = fc.dictionary(
  fc.constantFrom('a', 'b', 'c', 'd'),
  fc.record({
    prompt: fc.constantFrom('x', 'y'),
    environment: fc.constantFrom('n1', 'n2'),
    identity: fc.option(fc.constantFrom('i1', 'i2'), { nil: undefined }),
    triggers,
  }),
);
const steps = fc.array(
  fc.record({
    owner: fc.constantFrom('one', 'two', null),
    adopt: fc.boolean(),
    prune: fc.boolean(),
    content: fc.constantFrom('p', 'q'),
    agents,
  }),
  { minLength: 1, maxLength: 6 },
);
type Step = typeof steps extends fc.Arbitrary<readonly (infer S)[]> ? S : never;

function treeOf(step: Step): Desired {
  const all = Object.entries(step.agents);
  const environments = new Set(all.map(([, spec]) => spec.environment));
  const identities = new Set(all.flatMap(([, spec]) => spec.identity ?? []));
  return tree([
    ...all.map(([name, { prompt, environment: env, identity: id, triggers: list }]) => {
      const spec: Partial<AgentSpec> = { systemPrompt: prompt, environment: env, triggers: list };
      return agent(name, id === undefined ? spec : { ...spec, identity: id });
    }),
    ...[...environments].map((name) => environment(name, { steps: [step.content] })),
    ...[...identities].map((name) => identity(name, { description: step.content })),
  ]);
}

function assertShared(current: Current): void {
  const ids = new Set(current.agents.map((item) => item.id));
  for (const item of current.generated) {
    for (const user of item.users) assert.ok(ids.has(user), `${item.id} has only users that exist`);
  }
  for (const item of current.agents) {
    assert.ok(current.generated.some((env) => env.kind === 'Environment' && env.name === item.environment));
  }
}

/** The state without the specs that a plan does not ask for. */
function lean(desired: Desired, current: Current): Current {
  const { agents, generated } = specsNeeded(desired, current);
  const without = <T extends { readonly id: string }>(items: readonly T[], needed: readonly string[]): T[] =>
    items.map((item) => (needed.includes(item.id) ? item : { ...item, spec: undefined }));
  return { ...current, agents: without(current.agents, agents), generated: without(current.generated, generated) };
}

test('a plan that was applied leaves nothing to do, and never takes what another owns', () => {
  fc.assert(
    fc.property(steps, (list) => {
      let current = emptyState();
      for (const step of list) {
        const desired = treeOf(step);
        const { owner, adopt, prune } = step;
        const set = plan(desired, current, options({ owner, adopt, prune }));
        assert.deepEqual(plan(desired, current, options({ owner, adopt, prune })), set, 'a plan is deterministic');
        assert.deepEqual(
          plan(desired, lean(desired, current), options({ owner, adopt, prune })),
          set,
          'no other spec is needed',
        );
        if (!set.ok) continue;
        const before = current;
        current = applied(current, set, owner);
        for (const item of before.agents) {
          if (item.repositoryId === owner || item.name in step.agents) continue;
          assert.deepEqual(
            current.agents.find(({ id }) => id === item.id),
            item,
            'what another owns stays as it is',
          );
          const own = (state: Current) => state.triggers.filter((row) => row.agentId === item.id);
          assert.deepEqual(own(current), own(before));
        }
        assertShared(current);
        const again = plan(desired, current, options({ owner, adopt, prune, verify: true }));
        assert.equal(again.changed, false);
        const rows = Object.entries(again.writes).filter(([, list]) => list.length > 0);
        assert.deepEqual(rows, [], 'nothing is written a second time');
      }
    }),
    { numRuns: 400 },
  );
});

const withTriggers = tree([
  agent('a', { triggers: [event('svc.a'), heartbeat('1 * * * *')], identity: 'i' }),
  environment('base'),
  identity('i', { displayName: 'I' }),
]);
const settled = applied(emptyState(), plan(withTriggers, emptyState(), options()), 'one');

test('rows that were lost or changed behind the plan are put right, though no spec changed', () => {
  const [first, beat] = settled.triggers as [Current['triggers'][number], Current['triggers'][number]];
  const [schedule] = settled.schedules as [Current['schedules'][number]];
  const asked = withTriggers.resources[0]!.spec as AgentSpec;
  const spec = asked.triggers[0];
  const triggerRow = (over: object): Partial<Current> => ({ triggers: [{ ...first, ...over }, beat] });
  const rows: (readonly [drifted: Partial<Current>, path: string, from: unknown, to: unknown, verify?: true])[] = [
    [{ triggers: [beat] }, 'triggers[0].status', null, 'active'],
    [triggerRow({ status: 'skipped' }), 'triggers[0].status', 'skipped', 'active'],
    [{ triggers: [first, { ...beat, status: 'skipped' }] }, 'triggers[1].status', 'skipped', 'active'],
    [triggerRow({ event: 'svc.other' }), 'triggers[0]', null, spec],
    [triggerRow({ connectionId: 'c' }), 'triggers[0]', null, spec],
    [triggerRow({ endpointId: 'e' }), 'triggers[0]', null, spec],
    [triggerRow({ hash: 'drifted:1' }), 'triggers[0]', null, spec],
    [triggerRow({ hash: 'other' }), 'triggers[0]', null, spec, true],
    [{ triggers: [first, beat, { ...first, ordinal: 2 }] }, 'triggers[2].status', 'active', null],
    [{ triggers: [first, beat, { ...first, ordinal: 7 }] }, 'triggers[7].status', 'active', null],
    [{ schedules: [] }, 'triggers[1].schedule', null, '1 * * * *'],
    [{ schedules: [{ ...schedule, cron: '9 * * * *' }] }, 'triggers[1].schedule', '9 * * * *', '1 * * * *'],
    [{ schedules: [schedule, { ...schedule, id: 'x', ordinal: 7 }] }, 'triggers[7].schedule', '1 * * * *', null],
  ];
  const endpoints = [{ id: 'e', name: 'e', auth: null, status: 'ready' }] as const;
  for (const [over, path, from, to, verify = false] of rows) {
    const drifted = { ...settled, endpoints, ...over };
    const set = plan(withTriggers, drifted, options({ verify }));
    const action = set.actions.find((item) => item.kind === 'Agent');
    assert.equal(action?.op, 'update', path);
    assert.deepEqual(action.changes, [{ path, from, to }]);
    assert.deepEqual(set.writes.agents, [], 'no revision is made');
    const healed = applied(drifted, set, 'one');
    assert.equal(plan(withTriggers, healed, options({ verify: true })).changed, false, path);
  }
  const unseen = plan(withTriggers, { ...settled, ...triggerRow({ hash: 'other' }) }, options());
  assert.equal(unseen.changed, false, 'a row is compared in full only where drift is looked for');
  const beats = plan(withTriggers, { ...settled, ...rows[2]![0] }, options());
  assert.deepEqual(beats.consequences.triggers.activated, [{ agent: 'a', ordinal: 1, event: 'heartbeat' }]);
});

test('a shared resource that drifted is put right, though another owner generates it too', () => {
  const shared = tree([agent('a'), environment('base')]);
  const both = applied(
    settled,
    plan(tree([agent('b'), environment('base')]), settled, options({ owner: 'two' })),
    'two',
  );
  const drift = (agreedHash: string) => ({
    ...both,
    generated: both.generated.map((item) => (item.name === 'base' ? { ...item, hash: 'drifted', agreedHash } : item)),
  });
  const agreed = both.generated.find((item) => item.name === 'base')?.hash ?? '';
  const set = plan(shared, drift(agreed), options());
  assert.deepEqual(set.diagnostics, []);
  assert.equal(set.writes.generated[0]?.hash, agreed);
  assert.deepEqual(set.actions[1], { op: 'update', kind: 'Environment', name: 'base', changes: [] });
  assert.equal(plan(shared, drift('other'), options()).diagnostics[0]?.code, 'resource-conflict');
});

test('a trigger that waited for its connection is activated by the next apply, without a revision', () => {
  const desired = tree([agent('a', { triggers: [event('codehost.push', { optional: true })] }), environment('base')]);
  const current = applied(emptyState(), plan(desired, emptyState(), options()), 'one');
  const connections = [{ id: 'c', name: 'gh', provider: 'codehost', product: 'codehost', active: true }] as const;
  const set = plan(desired, { ...current, connections }, options());
  assert.deepEqual(set.consequences.triggers.activated, [{ agent: 'a', ordinal: 0, event: 'codehost.push' }]);
  assert.deepEqual(set.actions[0]?.changes, [{ path: 'triggers[0].status', from: 'skipped', to: 'active' }]);
  assert.equal(set.writes.triggers[0]?.connectionId, 'c');
  assert.deepEqual(set.writes.agents, []);
});

test('a document that moved is recorded and is no change', () => {
  const desired = tree([agent('a', {}, '.svc/agents/x.yaml'), environment('base')]);
  const current = applied(emptyState(), plan(desired, emptyState(), options()), 'one');
  const moved = tree([agent('a', {}, '.svc/agents/y.yaml'), environment('base')]);
  const set = plan(moved, current, options());
  assert.equal(set.changed, false);
  assert.deepEqual(set.writes.sources, [{ id: 'a', source: { file: '.svc/agents/y.yaml', document: 0 } }]);
  const source = { file: '.svc/agents/x.yaml', document: 1 };
  const within = {
    ...desired,
    resources: desired.resources.map((item) => (item.kind === 'Agent' ? { ...item, source } : item)),
  };
  assert.deepEqual(plan(within, current, options()).writes.sources, [{ id: 'a', source }]);
});

test('only the specs of what differs are asked for', () => {
  const before = tree([agent('a'), agent('b'), environment('base'), environment('same')]);
  const current = applied(emptyState(), plan(before, emptyState(), options()), 'one');
  const after = tree([
    agent('a', { systemPrompt: 'new' }),
    agent('b'),
    agent('c'),
    environment('base', { steps: ['x'] }),
    environment('same'),
    environment('fresh'),
  ]);
  assert.deepEqual(specsNeeded(after, current), { agents: ['a'], generated: ['Environment/base'] });
  const stays = tree([agent('a'), environment('base')]);
  const same = applied(emptyState(), plan(stays, emptyState(), options()), 'one');
  assert.equal(plan(stays, lean(stays, same), options()).changed, false, 'and of what is equal none');
});

test('an avatar whose bytes were lost is stored again', () => {
  const picture = (letter: string) => ({
    sha256: letter.repeat(64),
    path: `.svc/assets/${letter}.png`,
    mediaType: 'image/png',
  });
  const [one, two] = [picture('d'), picture('e')];
  const named = (name: string, { path, sha256 }: typeof one) => identity(name, { avatar: { asset: path, sha256 } });
  const all = [...['i', 'j', 'k'].map((name) => agent(name, { identity: name })), environment('base')];
  const desired = tree([...all, named('i', one), named('j', one), named('k', two)], [one, two]);
  const current = applied(emptyState(), plan(desired, emptyState(), options()), 'one');
  assert.equal(plan(desired, current, options()).changed, false);
  const set = plan(desired, { ...current, assets: new Set() }, options());
  assert.deepEqual(set.writes.assets, [one, two], 'once, though two identities name it');
  assert.equal(set.counts.update, 3);
  const [changed] = set.actions.filter((item) => item.name === 'i' && item.kind === 'Identity');
  assert.deepEqual(changed?.changes, [{ path: 'avatar.sha256', from: null, to: one.sha256 }]);
  // Of one that is changed to another picture, the spec says all.
  const other = plan(
    tree([...all, named('i', two), named('j', one), named('k', two)], [one, two]),
    { ...current, assets: new Set() },
    options(),
  );
  const paths = other.actions
    .find((item) => item.name === 'i' && item.kind === 'Identity')
    ?.changes.map(({ path }) => path);
  assert.deepEqual(paths, ['avatar.asset', 'avatar.sha256']);
});

test('paths of changes are JSON paths, in one order', () => {
  const rows: [from: unknown, to: unknown, paths: string[]][] = [
    [{ a: 1 }, { a: 1 }, []],
    [{ b: 1, a: [1, 2] }, { b: 2, a: [1, 3, 4] }, ['a[1]', 'a[2]', 'b']],
    [{ '$.x.y': { c: null } }, { '$.x.y': { c: 0 } }, ['["$.x.y"].c']],
    [{ a: {} }, { a: [] }, ['a']],
    [{ a: null }, { a: { b: 1 } }, ['a']],
    [undefined, null, ['']],
    [{ a: { 'b c': 1 } }, { a: {} }, ['a["b c"]']],
  ];
  for (const [from, to, paths] of rows) {
    assert.deepEqual(
      diffJson(from as never, to as never).map((change) => change.path),
      paths,
    );
  }
});

test('injected secrets are judged as a launch judges them, each mistake once', () => {
  const secret = (name: string) => ({ $secret: name });
  const injections = new Map([
    ['one', { hosts: ['in.test'], header: 'X-Key' }],
    ['two', { hosts: ['other.test', 'in.test'], header: 'x-key' }],
    ['far', { hosts: ['out.test'], header: 'x-far' }],
  ]);
  const current = (allow: readonly string[] | null): Current => ({
    ...emptyState({ secrets: ['none', ...injections.keys()] }),
    injections,
    allow,
  });
  const told = (
    env: object,
    own: object,
    more: { allow?: string[]; fenced?: string[]; fencedByList?: string[] } = {},
  ) => {
    // One of the agents is called like the environment.
    const resources = [
      environment('n', { env: env as never }),
      ...['a', 'n'].map((name) => agent(name, { environment: 'n', env: own as never })),
    ];
    const { fenced = [], fencedByList = [], allow = null } = more;
    const network = { fenced, fencedByList };
    return plan(tree(resources), current(allow), options({ network })).diagnostics.map(({ code, message }) => [
      code,
      message,
    ]);
  };
  const both = 'Injected secrets one and two both claim header x-key of host in.test';
  assert.deepEqual(told({ A: secret('one'), B: secret('two') }, {}), [['injection-conflict', both]]);
  assert.deepEqual(
    told({ A: secret('one') }, { B: secret('two') }).map(([, message]) => message),
    [both, both],
  );
  // The agent's variable stands in for the environment's.
  assert.deepEqual(told({ A: secret('one'), B: secret('two') }, { B: 'plain' }), []);
  assert.deepEqual(told({ A: secret('one'), B: secret('one') }, {}), []);
  assert.deepEqual(told({ A: secret('none'), B: 'plain' }, { C: secret('none') }, { fenced: ['base'] }), []);
  const host = 'Injected secret far: its host out.test is not among those that the session may reach (network.allow)';
  assert.deepEqual(told({ A: secret('far') }, {}), []);
  assert.deepEqual(told({ A: secret('far') }, {}, { fenced: ['base'] }), [['injection-host', host]]);
  assert.deepEqual(told({ A: secret('far') }, {}, { fenced: ['base'], allow: ['*.test'] }), []);
  assert.deepEqual(told({ A: secret('far') }, {}, { fencedByList: ['base'] }), []);
  assert.deepEqual(told({ A: secret('far') }, {}, { fencedByList: ['base'], allow: ['in.test'] }), [
    ['injection-host', host],
  ]);
  // Neither is known where an installation says nothing of its networks, or an environment is none of the tree's.
  const own = [agent('a', { environment: 'n', env: { A: secret('far') } as never })];
  const network = { fenced: ['base'], fencedByList: [] };
  const inOwn = [environment('n'), ...own];
  const of = (resources: readonly DesiredResource[], more: Partial<PlanOptions>) =>
    plan(tree(resources), current(null), options(more)).diagnostics.filter(({ code }) => code.startsWith('injection-'));
  assert.deepEqual([of(inOwn, {}), of(own, { network }), of(inOwn, { network }).length], [[], [], 1]);
  const env = { A: secret('one'), B: secret('two') } as never;
  const all = plan(
    tree([environment('n', { env }), agent('a', { environment: 'n' })]),
    current(['in.test']),
    options({ network }),
  );
  assert.deepEqual(
    all.diagnostics.map(({ severity, path, hint }) => [severity, path, hint]),
    [
      ['warning', 'env.B', 'Let one of them name another host or header: svc secret edit.'],
      ['warning', 'env.B', 'Add other.test to network.allow of the project and of the installation.'],
    ],
  );
});
