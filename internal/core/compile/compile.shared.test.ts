// What many agents import is read once: that nothing which holds for one of them is taken for the next.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { EnvMap, Tool } from '../../domain/spec.ts';
import { compile } from './compile.ts';
import { inputWith } from './testkit.ts';

const files = (texts: { readonly [path: string]: string }) =>
  inputWith(Object.fromEntries(Object.entries(texts).map(([path, text]) => [path, Buffer.from(text)])));

const fragment = `environment: {name: e, image: {kind: preset, name: base}, env: {A: '1'}}
env: {TEAM: core, TOKEN: {$secret: t, optional: true}}
tools:
  workspace: {kind: local, implementation: ping}
  host: {kind: codehost, tools: [merge_pull_request]}
`;
const mounts = `mounts: [{kind: git, repository: a/b, mountPath: /m, auth: {kind: codehostApp, capabilities: {merge: write}}}]\n`;
const agent = (name: string, body: string): string => `imports: [../fragments/f.yaml]\nname: ${name}\n${body}`;

const codesOf = (agents: readonly string[], imported: string): readonly string[] => {
  const texts = Object.fromEntries(agents.map((text, index) => [`.svc/agents/${index}.yaml`, text]));
  const { diagnostics } = compile(files({ ...texts, '.svc/fragments/f.yaml': imported }));
  const codes = diagnostics.filter(({ severity }) => severity === 'error').map(({ code }) => code);
  return [...new Set(codes)].toSorted();
};

test('tools that one agent may have are refused to the next that may not, whichever comes first', () => {
  const granted = agent('x', `harness: harness-b\n${mounts}`);
  const bare = agent('y', 'harness: harness-b\n');
  const reserving = agent('z', 'harness: harness-a\n');
  const pings = fragment.replace(/ {2}host:.*\n/, '');
  assert.deepEqual(codesOf([granted], fragment), []);
  assert.deepEqual(codesOf([bare], pings), []);
  for (const agents of [
    [granted, bare],
    [bare, granted],
  ])
    assert.deepEqual(codesOf(agents, fragment), ['tool-capability']);
  for (const agents of [
    [bare, reserving],
    [reserving, bare],
  ])
    assert.deepEqual(codesOf(agents, pings), ['tool-alias-reserved']);
});

test('agents without mounts share what they import, each with all of it', () => {
  const plain = fragment.replace('workspace:', 'pinger:').replace('merge_pull_request', 'pull_request_read');
  const texts: { [path: string]: string } = { '.svc/fragments/f.yaml': plain };
  for (let index = 0; index < 5; index += 1)
    texts[`.svc/agents/${index}.yaml`] = agent(`a${index}`, 'harness: harness-a\n');
  texts['.svc/agents/own.yaml'] = agent(
    'own',
    'harness: harness-a\nenv: {TEAM: mine}\ntools: {pinger: {disabled: true}}\n',
  );
  const { ok, resources, diagnostics } = compile(files(texts));
  assert.ok(ok, JSON.stringify(diagnostics));
  const specs = resources.flatMap((one) => (one.kind === 'Agent' ? [one.spec] : []));
  const tools: { readonly [alias: string]: Tool } = {
    pinger: { kind: 'local', implementation: 'ping' },
    host: { kind: 'codehost', tools: ['pull_request_read'] },
  };
  const env: EnvMap = { TEAM: 'core', TOKEN: { $secret: 't', optional: true } };
  assert.equal(specs.length, 6);
  for (const spec of specs.slice(0, 5)) {
    assert.equal(spec.environment, 'e');
    assert.deepEqual(JSON.parse(JSON.stringify([spec.env, spec.tools])), [env, tools]);
  }
  assert.deepEqual(JSON.parse(JSON.stringify(specs[5]?.env)), { ...env, TEAM: 'mine' });
  assert.equal(Object.hasOwn(specs[5]?.tools ?? {}, 'host'), true);
  const [generated] = resources.flatMap((one) => (one.kind === 'Environment' ? [one.spec] : []));
  assert.deepEqual(JSON.parse(JSON.stringify(generated?.env)), { A: '1' });
});

test('what is wrong with an imported environment or variable is told of every agent that imports it', () => {
  const broken = fragment
    .replace('workspace:', 'pinger:')
    .replace('merge_pull_request', 'pull_request_read')
    .replace("{A: '1'}", '{A: 1}')
    .replace('core', '[core]');
  const texts = { '.svc/fragments/f.yaml': broken };
  const one = compile(files({ ...texts, '.svc/agents/0.yaml': agent('a', 'harness: harness-a\n') }));
  const two = compile(
    files({
      ...texts,
      '.svc/agents/0.yaml': agent('a', 'harness: harness-a\n'),
      '.svc/agents/1.yaml': agent('b', 'harness: harness-a\n'),
    }),
  );
  assert.equal(one.ok, false);
  assert.deepEqual(
    two.diagnostics.map(({ code, path }) => `${code} ${path}`),
    one.diagnostics.map(({ code, path }) => `${code} ${path}`),
  );
});
