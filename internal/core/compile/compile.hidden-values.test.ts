// What stands where the name of a secret belongs, and what looks like a credential, is in no diagnostic: not in the message,
// not in the excerpt, not in that of another finding on the same line.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compile } from './compile.ts';
import { agentHead, inputWith } from './testkit.ts';

const value = 'hunter2';
const issued = 'ghp_aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5';
const webhook = (auth: string) =>
  `triggers: [{event: webhook.x, endpoint: e, auth: ${auth}, routing: {kind: spawn}}]\n`;
const remote = (auth: string) => `tools: {t: {kind: mcp_remote, url: "https://x.test", auth: ${auth}}}\n`;

const trees: readonly string[] = [
  remote('{kind: bearer, token: VALUE}'),
  remote('{kind: bearer, token: [VALUE]}'),
  remote('{kind: bearer, token: {VALUE: x}}'),
  remote('{kind: bearer, token: {x: VALUE}}'),
  remote('{kind: bearer, token: {$secret: "VALUE and more"}}'),
  remote('{kind: bearer, token: {$secrt: VALUE}}'),
  remote('{kind: bearer, token: {$secret: {x: VALUE}}}'),
  remote('{kind: bearer, token:\n  VALUE}'),
  remote('{kind: x, token: ISSUED}'),
  remote('{kind: bearer, token: VALUE'),
  remote('ISSUED'),
  'tools: {t: {kind: mcp_remote, url: "https://VALUE:VALUE@x.test"}}\n',
  'tools: {t: {kind: mcp_remote, url: "http://VALUE:and-a-long-one-that-a-message-would-cut-off@x.test"}}\n',
  'tools: {t: {kind: ISSUED}}\n',
  'tools: {t: {ISSUED: x}}\n',
  webhook('{kind: hmac_sha256, secretRef: "VALUE and more"}'),
  webhook('{kind: hmac_sha256, secretRef: [VALUE]}'),
  webhook('{kind: hmac_sha256, secret: VALUE}'),
  webhook('ISSUED'),
  'env: {A: [VALUE], B: 1, C: {VALUE: 1}}\n',
  'env: {A: {$secret: "VALUE and more"}}\n',
  'env: {A: {$secret: x, VALUE: 1}}\n',
  'env: {API_TOKEN: VALUE, B: 1}\n',
  'reasoningEffort: ISSUED\n',
  'imports: /ISSUED\n',
  'model: {id: ISSUED, ISSUED: 1}\n',
  'bindings: {ISSUED: {}}\n',
  'mounts: [{kind: git, repository: ISSUED, mountPath: /m}]\n',
];

for (const tree of trees) {
  test(`hidden in ${JSON.stringify(tree)}`, () => {
    const text = (agentHead + tree).replaceAll('VALUE', value).replaceAll('ISSUED', issued);
    const input = inputWith({ '.svc/agents/a.yaml': new TextEncoder().encode(text) });
    const { ok, diagnostics } = compile(input);
    assert.ok(!ok, 'it is refused');
    const told = JSON.stringify(diagnostics);
    assert.ok(!told.includes(value), told);
    assert.ok(!told.includes(issued.slice(0, 12)), told);
  });
}

test('the name of a secret is shown, and so is what stands beside what is hidden', () => {
  const text = `${agentHead}${webhook('{kind: hmac_sha256, secretRef: intake-key, foo: 1}')}`;
  const { diagnostics } = compile(inputWith({ '.svc/agents/a.yaml': new TextEncoder().encode(text) }));
  assert.match(diagnostics[0]?.excerpt?.lines.at(-1) ?? '', /secretRef: intake-key, foo: 1/);
});
