// The checks and the authored shapes say the same of a document's shape: what the checks accept the schema accepts, and
// a key or type that the schema refuses the checks refuse.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { Ajv } from 'ajv';
import { jsonSchema } from '../../../schemas/json-schema.ts';
import type { MapEntry, MapNode, Node } from '../source/node.ts';
import { toPlain } from '../source/node.ts';
import { checkAgent } from './check-agent.ts';
import { agentHead, mergedFrom, testCatalog } from './testkit.ts';

const validate = new Ajv({ strict: true }).compile(jsonSchema('agent'));
/** Maps of plain values have no prototype, which the validator does not take. */
const isAgent = (value: unknown): boolean => validate(JSON.parse(JSON.stringify(value)));

const chat = 'event: chat.message.mentioned';
/** Bodies under HEAD, each sound, which between them use every field and every kind. */
const bodies: readonly string[] = [
  'labels: {a: b}\nannotations: {}\nreasoningEffort: high\nsystemPrompt: " x "\ninitialPrompt: y\ndisplayTitle: infer\nworkingDirectory: /w\n',
  'env: {A: b, C: {$secret: s, optional: true}}\nidentity: someone\nmanages: [a]\nspendCaps: {dailyUsd: "1.50"}\nconcurrency: 1\nreplace: auto\nonReplace: z\n',
  'session: {archiveAfterInactive: {seconds: 60}, observeSpawnedSessions: true}\nmodel: {id: alpha-1, fallbacks: [{id: alpha-2, provider: provider-a}]}\n',
  'identity: {name: i, displayName: d, username: u, description: x, avatar: {asset: .svc/assets/a.png}}\n',
  'mounts: [{name: m, kind: git, repository: a/b, mountPath: /m, ref: x, depth: 1, auth: {kind: codehostApp, installationId: "1", commitAuthor: {name: n, email: a@b}, capabilities: {merge: write, secrets: read}}}, {kind: git, repository: a/b, mountPath: /n, auth: {kind: none}}]\ntools: {g: {kind: codehost, tools: [merge_pull_request]}}\n',
  'tools: {a: {kind: mcp_remote, url: "HTTPS://x.test", auth: {kind: bearer, token: {$secret: s}}}, b: {kind: connection, provider: p, connection: c, optional: true}, c: {kind: local, implementation: svc, capabilities: {billing: read}}, d: {kind: local, implementation: chat, auth: {kind: connections, connections: [{provider: p, connection: c}]}}, e: {kind: local, implementation: ping, disabled: true}}\n',
  'tools: {a: {kind: mcp_remote, url: "https://x.test", transport: streamable_http, auth: {kind: provider_oauth, provider: p, connection: c}}, f: {kind: mcp_remote, url: "https://x.test", auth: {kind: mcp_oauth, connection: c}}, g: {kind: local, implementation: chat, auth: {kind: connection, provider: p, connection: c}}}\n',
  `triggers: [{kind: event, name: x, ${chat}, connection: c, optional: true, where: {a: 1, $.b: {in: [x, null]}, c: {exists: true}, d: {changedTo: 1}}, message: m, fallback: true, routing: {kind: deliverOrSpawn, routeBy: {kind: allLiveRuns}, bind: {target: chat.thread, continuity: agent}}}]\n`,
  'triggers: [{events: [codehost.pull_request.opened], checks: [{name: c, displayName: C, description: d, timeout: {seconds: 1, conclusion: skipped}}], attachedUserPrompt: p, routing: {kind: spawn, bind: {target: codehost.pull_request, context: {a: {b: [1]}}, eventContext: {bound: {}}, lifecycle: manual}}}]\n',
  'triggers: [{event: webhook.received, endpoint: e, auth: {kind: hmac_sha256, secretRef: s}, routing: {kind: spawn}}, {kind: heartbeat, cron: "0 9 * * 1", timezone: Europe/Paris, routing: {kind: deliver, onUnmatched: spawn}}]\n',
  'triggers: [{event: svc.session.binding.bound, routing: {kind: bind, target: svc.session, release: {context: null}, lifecycle: held, observedTarget: {action: bind, context: {}}}}, {event: codehost.issue.opened, routing: {kind: deliver, routeBy: {kind: ownedArtifact, artifactType: codehost.issue}}}]\nbindings: {codehost.pull_request: {bind: onAttributedEvent, context: {}}, svc.session: {lifecycle: held}}\n',
];
const headInFull =
  'name: a\nharness: harness-b\nenvironment: {name: e, labels: {}, image: {kind: preset, name: base}, env: {}, resources: {cpuCount: 1}, steps: [x], setup: [{name: s, commands: [c], cache: {key: k, files: [f], paths: [/home/user/x]}}], setupCache: {ttl: 1h}, approvals: prompt}\nmodel: {provider: provider-c, id: v/m, gateway: {models: [a/b], provider: {allowFallbacks: true, order: [x], sort: price}}}\n';

const documents = [...bodies.map((body) => agentHead + body), headInFull];
const judge = (root: MapNode): { sound: boolean; codes: string[] } => {
  const codes: string[] = [];
  const draft = checkAgent(
    { file: 'f', document: 0, root, own: root },
    { catalog: testCatalog },
    ({ severity, code }) => {
      if (severity === 'error') codes.push(code);
    },
  );
  return { sound: draft.spec !== undefined, codes };
};

test('what the checks accept the schema accepts', () => {
  for (const text of documents) {
    const { root } = mergedFrom(text);
    const { sound, codes } = judge(root);
    assert.ok(sound, `${codes.join(' ')}: ${text}`);
    assert.ok(isAgent(toPlain(root)), `${JSON.stringify(validate.errors)}\n${text}`);
  }
});

/** Paths to every map of a document below its root. */
function maps(node: Node, path: readonly (string | number)[] = []): (readonly (string | number)[])[] {
  if (node.kind === 'seq') return node.items.flatMap((item, index) => maps(item, [...path, index]));
  if (node.kind !== 'map') return [];
  const own = path.length === 0 ? [] : [path];
  return [...own, ...[...node.entries].flatMap(([key, entry]) => maps(entry.value, [...path, key]))];
}

function edit(node: Node, path: readonly (string | number)[], change: (node: Node) => Node): Node {
  const [step, ...rest] = path;
  if (step === undefined) return change(node);
  if (node.kind === 'seq')
    return { ...node, items: node.items.map((item, index) => (index === step ? edit(item, rest, change) : item)) };
  if (node.kind !== 'map') return node;
  const entries = new Map(
    [...node.entries].map(([key, entry]): [string, MapEntry] => [
      key,
      key === step ? { ...entry, value: edit(entry.value, rest, change) } : entry,
    ]),
  );
  return { ...node, entries };
}

const open = /^(labels|annotations|env|tools|where|context|bound|updated|unbound|b)$/;
const isOpen = (path: readonly (string | number)[]): boolean =>
  open.test(String(path.at(-1))) && path.at(-2) !== 'tools';
const range = { file: 'f', start: 0, end: 1 };

test('a key that one of them does not know in a strict place neither knows', () => {
  for (const text of documents) {
    const { root } = mergedFrom(text);
    for (const path of maps(root).filter((one) => !isOpen(one) && !one.includes('context'))) {
      const stranger: MapEntry = { keyRange: range, value: { kind: 'scalar', value: 'x', range } };
      const changed = edit(root, path, (node) =>
        node.kind === 'map' ? { ...node, entries: new Map([...node.entries, ['zzz', stranger]]) } : node,
      );
      assert.ok(!judge(changed as MapNode).sound, `checks: ${path.join('.')}`);
      assert.ok(!isAgent(toPlain(changed)), `schema: ${path.join('.')}`);
    }
  }
});

test('a document with a value changed at random passes the schema where it passes the checks', () => {
  const change = fc.record({
    document: fc.nat(documents.length - 1),
    at: fc.nat(400),
    value: fc.oneof(
      fc.constantFrom<string | number | boolean | null>(
        '',
        'x',
        ' a ',
        'svc',
        'none',
        'spawn',
        1,
        0,
        -1,
        1.5,
        true,
        null,
      ),
      fc.string(),
    ),
  });
  const leaves = (node: Node, path: readonly (string | number)[] = []): (readonly (string | number)[])[] => {
    if (node.kind === 'scalar') return [path];
    if (node.kind === 'seq') return [path, ...node.items.flatMap((item, index) => leaves(item, [...path, index]))];
    return [path, ...[...node.entries].flatMap(([key, entry]) => leaves(entry.value, [...path, key]))];
  };
  fc.assert(
    fc.property(change, ({ document, at, value }) => {
      const { root } = mergedFrom(documents[document] ?? '');
      const paths = leaves(root).slice(1);
      const path = paths[at % paths.length] ?? [];
      const changed = edit(root, path, () => ({ kind: 'scalar', value, range }));
      if (judge(changed as MapNode).sound)
        assert.ok(isAgent(toPlain(changed)), `${path.join('.')} = ${JSON.stringify(value)}`);
    }),
    { numRuns: 1500 },
  );
});
