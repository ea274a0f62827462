import assert from 'node:assert/strict';
import { test } from 'node:test';
import { explain, fieldPaths, knownPart, nearestPath } from './explain.ts';

/** Path asked for; path, variant, type and default of what is found. */
const askedList: readonly (readonly [asked: string, ...found: readonly string[]])[] = [
  ['name', 'name / name'],
  ['triggers.where', 'triggers[].where / map from <path> to: text, number, true, false or null, or map / {}'],
  ['triggers[0].where', 'triggers[].where / map from <path> to: text, number, true, false or null, or map / {}'],
  [
    'triggers.routing.onUnmatched',
    'triggers[].routing.onUnmatched (kind: deliver or bind) / one of drop, warn, error, spawn / "drop"',
  ],
  ['triggers.routing.kind', 'triggers[].routing.kind / one of spawn, deliver, bind'],
  ['triggers[0].where["$.codehost.push.ref"]', 'triggers[].where.<path> / text, number, true, false or null, or map'],
  [
    'triggers[0].where["$.codehost.push.ref"].in[0]',
    'triggers[].where.<path>.in[] / text, number, true, false or null',
  ],
  ['tools["docs.search"].url', 'tools.<alias>.url (kind: mcp_remote) / text'],
  ['labels["a.b/\\"c\\""]', 'labels.<key> / text'],
  [
    'bindings["codehost.pull_request"].bind',
    'bindings.codehost.pull_request.bind / one of onAttributedEvent, onMention',
  ],
  ['env.LOG_LEVEL["$secret"]', 'env.<NAME>.$secret / name'],
  ['env.LOG_LEVEL', 'env.<NAME> / text, or map'],
  ['env.LOG_LEVEL.$secret', 'env.<NAME>.$secret / name'],
  ['tools.docs.url', 'tools.<alias>.url (kind: mcp_remote) / text'],
  ['tools.url', 'tools.<alias>.url (kind: mcp_remote) / text'],
  ['tools.connection', 'tools.<alias>.connection (kind: connection) / name', 'tools.<alias> (kind: connection) / map'],
  [
    'bindings.codehost.pull_request.lifecycle',
    'bindings.codehost.pull_request.lifecycle / one of manual, held / "manual"',
  ],
  ['environment.resources.memoryMB', 'environment.resources.memoryMB / whole number'],
  [
    'mounts.auth.capabilities.merge',
    'mounts[].auth.capabilities.merge (kind: codehostApp) / one of none, write / "none"',
  ],
  ['nothing'],
  ['name.nothing'],
  ['__proto__'],
];

test('a path finds its field, with or without indexes and aliases', () => {
  for (const [asked, ...expected] of askedList) {
    const found = explain(asked).map(({ path, when, type, default: value }) =>
      [
        when === undefined ? path : `${path} (${when})`,
        type,
        ...(value === undefined ? [] : [JSON.stringify(value)]),
      ].join(' / '),
    );
    assert.deepEqual(found, expected, asked);
  }
});

test('a field says its bounds, its rule, how it merges and an example', () => {
  const [field] = explain('mounts.depth');
  assert.deepEqual([field?.limits, field?.otherwise, field?.example], [['at least 1'], 'the whole history', 1]);
  const [replace] = explain('onReplace');
  assert.deepEqual([replace?.rule, replace?.merge], ['Requires replace: auto.', 'append']);
  assert.deepEqual(explain('triggers.message')[0]?.limits, [
    '1 to 20,000 characters',
    'may hold {{ path }} tokens, read from the event’s payload',
  ]);
  assert.ok((explain('')[0]?.fields?.length ?? 0) > 25);
});

test('a misspelt path is told the near one', () => {
  assert.equal(nearestPath('trigers.wher'), 'triggers.where');
  assert.equal(nearestPath('enviroment'), 'environment');
  assert.equal(nearestPath('trigger.ruting.knd'), 'triggers.routing.kind');
  assert.equal(nearestPath('quite.another'), undefined);
  assert.deepEqual(
    [knownPart('triggers.routing.bind.zzz'), knownPart('model.zzz'), knownPart('name.zzz')],
    ['triggers.routing.bind', 'model', undefined],
  );
});

test('a field of several kinds names each, and each path that it names is explained', () => {
  const kinds = fieldPaths().flatMap((path) => explain(path).flatMap((one) => one.kinds ?? []));
  assert.deepEqual(
    explain('triggers.routing')[0]?.kinds?.map(({ path }) => path),
    ['triggers.routing.spawn', 'triggers.routing.deliver', 'triggers.routing.bind'],
  );
  for (const { path, name } of kinds)
    assert.ok(
      explain(path).some(({ when }) => when?.endsWith(`: ${name}`)),
      path,
    );
});
