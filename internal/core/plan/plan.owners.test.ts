// Plans that meet what others own, what leaves, and bounds: each row is a state, a tree and the part of the plan that follows.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { AgentSpec, EndpointAuth, EnvironmentSpec, Trigger } from '../../domain/spec.ts';
import { agent, applied, emptyState, environment, identity, options, tree } from './fixture.ts';
import { plan } from './plan.ts';
import { heartbeatKey, scheduleId } from './rows.ts';
import type { Current, Desired, PlanOptions } from './types.ts';

const webhook = (endpoint: string, auth?: EndpointAuth): Trigger => ({
  kind: 'event',
  event: 'webhook.x',
  where: {},
  fallback: false,
  routing: { kind: 'spawn' },
  endpoint,
  ...(auth === undefined ? {} : { auth }),
});
const none: EndpointAuth = { kind: 'none' };
const bearer: EndpointAuth = { kind: 'bearer_token', secretRef: 'hook' };
const waiting = (where: object = {}): Trigger =>
  ({
    kind: 'event',
    event: 'codehost.push',
    where,
    fallback: false,
    routing: { kind: 'spawn' },
    optional: true,
  }) as Trigger;

/** Names with `=` and an environment: `a=base`. */
const agentsOf = (text: string, spec: Partial<AgentSpec> = {}) =>
  text
    .split(' ')
    .filter(Boolean)
    .map((one) => {
      const [name = '', env = 'base'] = one.split('=');
      return agent(name, { ...spec, environment: env });
    });
const environmentsOf = (...names: string[]) => names.map((name) => environment(name));
const after = (current: Current, owner: string | null, desired: Desired, over: Partial<PlanOptions> = {}): Current => {
  const set = plan(desired, current, options({ owner, ...over }));
  assert.deepEqual(set.diagnostics, []);
  return applied(current, set, owner);
};

test('keys of rows are as the reference has them', () => {
  assert.equal(heartbeatKey('id', 2), 'heartbeat.id.2');
  assert.equal(scheduleId('id', 2), 'heartbeat-id-2');
});

test('agents are written, deleted and shown in the order of their names, actions by kind and name', () => {
  const current = after(emptyState(), 'one', tree([...agentsOf('z y x'), ...environmentsOf('base')]));
  const desired = tree([
    identity('j', {}),
    identity('i', {}),
    ...environmentsOf('n', 'base', 'm'),
    ...['c', 'a', 'b'].map((name) =>
      agent(name, {
        environment: name === 'a' ? 'n' : name === 'b' ? 'm' : 'base',
        identity: name === 'a' ? 'i' : 'j',
      }),
    ),
  ]);
  const set = plan(desired, current, options());
  assert.deepEqual(
    set.writes.agents.map(({ name, newRevision, revision }) => [name, newRevision, revision]),
    [
      ['a', true, 1],
      ['b', true, 1],
      ['c', true, 1],
    ],
  );
  assert.deepEqual(set.writes.agentDeletes, ['x', 'y', 'z']);
  assert.deepEqual(
    set.actions.map(({ op, kind, name }) => `${op} ${kind} ${name}`),
    [
      ...['create Agent a', 'create Agent b', 'create Agent c', 'delete Agent x', 'delete Agent y', 'delete Agent z'],
      ...['unchanged Environment base', 'create Environment m', 'create Environment n'],
      ...['create Identity i', 'create Identity j'],
    ],
  );
});

test('an agent whose hash alone differs, as that of a row which drifted, is written again', () => {
  const desired = tree([...agentsOf('a'), ...environmentsOf('base')]);
  const current = after(emptyState(), 'one', desired);
  const drifted = { ...current, agents: current.agents.map((item) => ({ ...item, hash: 'drifted' })) };
  const set = plan(desired, drifted, options());
  assert.deepEqual(set.actions[0], { op: 'update', kind: 'Agent', name: 'a', changes: [] });
  assert.deepEqual(
    set.writes.agents.map(({ id, revision, newRevision }) => [id, revision, newRevision]),
    [['a', 2, true]],
  );
});

test('a sync is held by its guard, and only by it', () => {
  const owned = after(emptyState(), 'one', tree([...agentsOf('a b c d e f g'), ...environmentsOf('base')]));
  const bare: Desired = { ...tree([]), hasSvc: false };
  const rows: (readonly [state: Current, desired: Desired, guard: PlanOptions['guard'], reason: string | undefined])[] =
    [
      [owned, tree([]), {}, 'too-many-deletes'],
      [owned, tree([]), 'off', undefined],
      [owned, tree([]), { deleteMax: 7 }, undefined],
      [owned, bare, { deleteMax: 7 }, 'no-svc-directory'],
      [owned, bare, 'off', undefined],
      [emptyState(), bare, {}, undefined],
    ];
  for (const [state, desired, guard, reason] of rows) {
    const set = plan(desired, state, options({ guard }));
    assert.equal(set.held?.reason, reason);
    assert.equal(Object.hasOwn(set, 'held'), reason !== undefined);
  }
});

test('content that others generate under the same name is theirs too, unless this apply settles them', () => {
  const theirs = tree([...agentsOf('d b'), ...environmentsOf('base')]);
  const also = tree([...agentsOf('c'), ...environmentsOf('base')]);
  const shared = after(
    after(
      {
        ...emptyState(),
        repositories: new Map([
          ['one', 'first'],
          ['two', 'second'],
        ]),
      },
      'two',
      theirs,
    ),
    null,
    also,
  );
  const changed = [environment('base', { steps: ['x'] })];
  const conflict = plan(tree([...agentsOf('a'), ...changed]), shared, options());
  assert.deepEqual(
    conflict.diagnostics.map(({ message }) => message),
    [
      'Conflicting generated resource: Environment base has different content in manual and repository second (agent b, c, d)',
    ],
  );
  const rows: (readonly [owner: string | null, tree: Desired, over: Partial<PlanOptions>, code: string | undefined])[] =
    [
      // One's own agents that stay without being in the tree have no say.
      ['two', tree([...agentsOf('e'), ...changed]), { prune: false }, undefined],
      ['two', tree([...agentsOf('e'), ...changed]), { prune: true }, undefined],
      ['one', tree([...agentsOf('b d'), ...changed]), { adopt: true }, undefined],
      ['one', tree([...agentsOf('b'), ...changed]), { adopt: true }, 'resource-conflict'],
    ];
  const two = after(emptyState(), 'two', theirs);
  for (const [owner, desired, over, code] of rows) {
    assert.deepEqual(
      plan(desired, two, options({ owner, ...over })).diagnostics.map((item) => item.code),
      code === undefined ? [] : [code],
    );
  }
});

test('what an agent no longer generates goes with the last agent that refers to it', () => {
  const own = tree([...agentsOf('a=own b'), ...environmentsOf('own', 'base')]);
  const stored = after(emptyState(), 'one', own);
  const named = after(stored, 'two', tree(agentsOf('x=own')));
  const rows: (readonly [state: Current, desired: Desired, prune: boolean, deletes: string[], users: string[]])[] = [
    [stored, tree([...agentsOf('b'), ...environmentsOf('base')]), true, ['Environment/own'], []],
    [stored, tree([...agentsOf('b'), ...environmentsOf('base')]), false, [], []],
    [stored, tree([...agentsOf('a b'), ...environmentsOf('base')]), true, ['Environment/own'], ['Environment/own a']],
    [stored, tree([...agentsOf('a b'), ...environmentsOf('base')]), false, [], ['Environment/own a']],
    // Another's agent says its name without generating it.
    [named, tree([...agentsOf('a b'), ...environmentsOf('base')]), true, [], ['Environment/own a']],
    // A name of the tree keeps what it names, generated or not.
    [stored, tree([...agentsOf('a=own b'), ...environmentsOf('base')]), true, [], ['Environment/own a']],
    // Nobody's name is no name.
    [
      {
        ...stored,
        generated: [...stored.generated, { id: 'u', kind: 'Identity', name: 'undefined', hash: '', users: ['gone'] }],
      },
      own,
      true,
      ['u'],
      [],
    ],
  ];
  for (const [state, desired, prune, deletes, users] of rows) {
    const { writes } = plan(desired, state, options({ prune }));
    assert.deepEqual(writes.generatedDeletes, deletes);
    assert.deepEqual(
      writes.userDeletes.map(({ resourceId, agentId }) => `${resourceId} ${agentId}`),
      users,
    );
  }
  const lonely = plan(tree([environment('lonely')]), emptyState(), options());
  assert.deepEqual([lonely.writes.generated.length, lonely.writes.users], [1, []], 'what nobody refers to has no user');
});

test('users of a shared resource are written once each', () => {
  const set = plan(tree([...agentsOf('b a'), ...environmentsOf('base')]), emptyState(), options());
  assert.deepEqual(
    set.writes.users.map(({ agent: name }) => name),
    ['a', 'b'],
  );
  const current = after(emptyState(), 'one', tree([...agentsOf('a'), ...environmentsOf('base')]));
  const more = plan(tree([...agentsOf('b a'), ...environmentsOf('base')]), current, options());
  assert.deepEqual(
    more.writes.users.map(({ agent: name }) => name),
    ['b'],
  );
});

test('endpoints are created with the first auth in order of their names; what nobody uses any more is lost', () => {
  const set = plan(
    tree([
      agent('a', { triggers: [webhook('z', none), webhook('y', none), webhook('z', bearer), webhook('x', none)] }),
      environment('base'),
    ]),
    emptyState({ secrets: ['hook'] }),
    options(),
  );
  assert.deepEqual(
    set.writes.endpoints,
    ['x', 'y', 'z'].map((name) => ({ name, auth: none })),
  );
  assert.deepEqual(set.consequences.endpoints.gained, ['x', 'y', 'z']);
  const one = tree([
    agent('a', { triggers: [webhook('z', none), webhook('y', none), webhook('s', none)] }),
    environment('base'),
  ]);
  const state = after(
    after(emptyState(), 'one', one),
    'two',
    tree([agent('b', { triggers: [webhook('s')] }), environment('base')]),
  );
  const rows: (readonly [desired: Desired, lost: string[]])[] = [
    [tree([agent('a', { triggers: [webhook('s')] }), environment('base')]), ['y', 'z']],
    [tree([agent('a', { triggers: [webhook('y')] }), environment('base')]), ['z']],
    [tree([agent('a'), environment('base')]), ['y', 'z']],
  ];
  for (const [desired, lost] of rows) {
    const { consequences, diagnostics } = plan(desired, state, options());
    assert.deepEqual([consequences.endpoints.lost, diagnostics], [lost, []]);
  }
  // Rows that a deletion left behind for a moment use nothing and hold nothing up.
  const orphan = { ...state.triggers[0]!, agentId: 'gone' };
  const dangling = { ...state.triggers.find((row) => row.agentId === 'b')!, ordinal: 4, endpointId: 'gone' };
  const odd = plan(one, { ...state, triggers: [...state.triggers, orphan, dangling] }, options());
  assert.deepEqual([odd.changed, odd.consequences.endpoints.lost], [false, []]);
});

test('a secret that expires idle is warned of behind an endpoint that is inherited, too', () => {
  const state = {
    ...after(
      emptyState({ secrets: ['hook'] }),
      'one',
      tree([agent('a', { triggers: [webhook('e', bearer)] }), environment('base')]),
    ),
    idleSecrets: new Set(['hook']),
  };
  const set = plan(tree([agent('a', { triggers: [webhook('e')] }), environment('base')]), state, options());
  assert.deepEqual(
    set.diagnostics.map(({ code, path }) => [code, path]),
    [['endpoint-idle-expiry', 'triggers[0].endpoint']],
  );
});

test('a trigger that waits for its connection is told of once', () => {
  const desired = (where: object) => tree([agent('a', { triggers: [waiting(where)] }), environment('base')]);
  const first = plan(desired({}), emptyState(), options());
  assert.deepEqual(first.consequences.triggers.skipped, [{ agent: 'a', ordinal: 0, event: 'codehost.push' }]);
  const current = applied(emptyState(), first, 'one');
  const again = plan(desired({ x: 1 }), current, options());
  assert.deepEqual([again.writes.triggers.length, again.consequences.triggers], [1, { activated: [], skipped: [] }]);
  assert.deepEqual(
    again.actions[0]?.changes.map(({ path }) => path),
    ['triggers[0].where.x'],
  );
  const gone = plan(tree([agent('a'), environment('base')]), current, options());
  assert.deepEqual(
    gone.actions[0]?.changes.map(({ path }) => path),
    ['triggers[0]'],
    'what the spec says is said once',
  );
});

test('an environment over the ceilings of the project is refused, one within is not', () => {
  const asking = (spec: Partial<EnvironmentSpec>) => tree([agent('a'), environment('base', spec)]);
  const state: Current = { ...emptyState(), limits: { memoryMB: 512 } };
  const { diagnostics } = plan(asking({ resources: { memoryMB: 1_024 } }), state, options());
  assert.deepEqual(diagnostics, [
    {
      severity: 'error',
      code: 'resources-over-limit',
      message: 'memoryMB 1024 is over the limit of the project, 512',
      file: '.svc/agents/a.yaml',
      path: 'resources.memoryMB',
    },
  ]);
  assert.deepEqual(plan(asking({ resources: { memoryMB: 512 } }), state, options()).diagnostics, []);
});

test('an identity by name is one, not an environment of that name', () => {
  const set = plan(tree([agent('a', { identity: 'base' }), environment('base')]), emptyState(), options());
  assert.deepEqual(
    set.diagnostics.map(({ code }) => code),
    ['identity-not-stored'],
  );
});

test('text is looked at when it comes, not when it is there; what no agent refers to has no file', () => {
  const bad = tree([agent('a', { systemPrompt: 'a\0b' }), environment('base', { steps: ['\0'] })]);
  const first = plan(bad, emptyState(), options());
  assert.deepEqual(
    first.diagnostics.map(({ code, path }) => `${code} ${path}`),
    ['nul-byte steps[0]', 'nul-byte systemPrompt'],
  );
  assert.deepEqual(plan(bad, applied(emptyState(), first, 'one'), options()).diagnostics, []);
  const [lonely] = plan(tree([environment('lonely', { steps: ['\0'] })]), emptyState(), options()).diagnostics;
  assert.deepEqual(lonely, {
    severity: 'error',
    code: 'nul-byte',
    message: 'Text holds a NUL character',
    path: 'steps[0]',
  });
});

test('an owner is named by its repository, and one that is not there any more by its id', () => {
  const desired = tree([...agentsOf('a'), ...environmentsOf('base')]);
  for (const [repositories, owner, said] of [
    [new Map([['two', 'second']]), 'two', 'repository second'],
    [new Map(), 'two', 'repository two'],
    [new Map(), null, 'manual'],
  ] as const) {
    const state = { ...after(emptyState(), owner, desired), repositories };
    assert.deepEqual(
      plan(desired, state, options()).diagnostics.map(({ message }) => message),
      [`Agent a is owned by ${said}`],
    );
  }
});
