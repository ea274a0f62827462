import assert from 'node:assert/strict';
import { join, relative } from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import { mcpServerNames } from '../../domain/tool-names.ts';
import { planLaunch, resolveHarness } from './harness.ts';
import { scriptedAgent } from './harness-testkit.ts';
import { adapterOf } from './profiles.ts';
import type { LaunchInput } from './types.ts';

const input: LaunchInput = {
  harness: 'harness-a',
  model: { provider: 'provider-a', id: 'model-1', baseUrl: 'http://127.0.0.1:4401/s/tok-123456/provider-a' },
  effort: 'high',
  systemPrompt: 'Be brief.',
  approvals: 'bypass',
  home: '/home/user',
  asRoot: false,
  isolated: true,
  installed: true,
  toolsToken: 'tools-123456',
};
const forB = (more: Partial<LaunchInput> = {}): LaunchInput => ({
  ...input,
  harness: 'harness-b',
  model: { provider: 'provider-c', id: 'vendor/model', baseUrl: 'http://127.0.0.1:4401/s/tok-123456/provider-c' },
  effort: 'xhigh',
  ...more,
});

test('harness-a gets address, model, effort and system prompt where it looks for them', () => {
  const plan = planLaunch(input);
  assert.equal(plan.env['ANTHROPIC_BASE_URL'], input.model.baseUrl);
  assert.equal(plan.env['CLAUDE_CONFIG_DIR'], '/home/user/.claude');
  assert.equal(plan.env['ENABLE_TOOL_SEARCH'], 'false');
  assert.deepEqual(plan.sessionMeta, {
    systemPrompt: { append: 'Be brief.' },
    claudeCode: { options: { model: 'model-1', effort: 'high' } },
  });
  assert.deepEqual(
    plan.afterOpen.map(({ method, params }) => [method, params]),
    [['session/set_mode', { modeId: 'bypassPermissions' }]],
  );
  const { systemPrompt, ...without } = input;
  assert.equal(systemPrompt, 'Be brief.');
  assert.equal('systemPrompt' in planLaunch(without).sessionMeta, false);
});

test('harness-a never asks, and is told that it is in a sandbox only as root in a real one', () => {
  for (const approvals of ['bypass', 'prompt'] as const) {
    assert.equal(planLaunch({ ...input, approvals }).autoApprove, true);
  }
  const told = (asRoot: boolean, isolated: boolean) => planLaunch({ ...input, asRoot, isolated }).env['IS_SANDBOX'];
  assert.deepEqual([told(true, true), told(true, false), told(false, true)], ['1', undefined, undefined]);
});

test('harness-b gets everything in its configuration, and asks a person only under approvals: prompt', () => {
  const plan = planLaunch(forB());
  const config = JSON.parse(plan.env['CODEX_CONFIG'] ?? '');
  assert.equal(config.model, 'vendor/model');
  assert.equal(config.model_reasoning_effort, 'xhigh');
  assert.equal(config.developer_instructions, 'Be brief.');
  assert.equal(config.model_providers.svc.base_url, 'http://127.0.0.1:4401/s/tok-123456/provider-c/v1');
  assert.equal(config.model_providers.svc.env_key, 'SVC_MODEL_KEY');
  assert.equal(plan.env['INITIAL_AGENT_MODE'], 'agent-full-access');
  assert.equal(plan.autoApprove, true);
  assert.deepEqual(plan.directories, ['/home/user/.codex']);
  const asking = planLaunch(forB({ approvals: 'prompt' }));
  assert.equal(asking.env['INITIAL_AGENT_MODE'], 'workspace-write');
  assert.equal(asking.autoApprove, false);
});

test('nothing that harness-b shows as its arguments opens the way to the model, where a key does', () => {
  const keyed = { baseUrl: 'http://127.0.0.1:4401/s/-/provider-b', key: 'key-123456' };
  const plan = planLaunch(forB({ model: { ...forB().model, keyed } }));
  assert.doesNotMatch(plan.env['CODEX_CONFIG'] ?? '', /tok-123456|key-123456/);
  assert.match(plan.env['CODEX_CONFIG'] ?? '', /\/s\/-\/provider-b\/v1/);
  assert.equal(plan.env['SVC_MODEL_KEY'], 'key-123456');
  assert.notEqual(plan.env['CODEX_API_KEY'], 'key-123456');
  assert.ok(plan.secrets.includes('key-123456'));
});

test('the token of its tools is a variable for the public adapter of harness-a, which shows its servers as arguments', () => {
  const plan = planLaunch(input);
  assert.equal(plan.toolsAuthorization, 'Bearer ${SVC_TOOLS_TOKEN}');
  assert.equal(plan.env['SVC_TOOLS_TOKEN'], 'tools-123456');
  for (const other of [planLaunch({ ...input, installed: false }), planLaunch(forB())]) {
    assert.equal(other.toolsAuthorization, 'Bearer tools-123456');
    assert.equal(other.env['SVC_TOOLS_TOKEN'], undefined);
  }
});

test('both declare the extension without which a failed turn looks like a good one, and hide the session’s address', () => {
  for (const plan of [planLaunch(input), planLaunch(forB())]) {
    assert.match(JSON.stringify(plan.clientMeta), /sessionFailure/);
    assert.ok(plan.secrets.some((secret) => secret.includes('tok-123456')));
  }
});

test('harness-b is asked for what its commands write, and the other, which tells it anyway, is not', () => {
  const asks = (plan: LaunchInput) => planLaunch(plan).clientMeta['terminal_output_delta'];
  assert.deepEqual([asks(forB()), asks(input)], [true, undefined]);
});

test('adapters are pinned exactly', () => {
  for (const harness of ['harness-a', 'harness-b'] as const)
    assert.match(adapterOf(harness).version, /^\d+\.\d+\.\d+$/);
});

test('aliases become names of letters, digits, _ and -, and those that would share one are found', () => {
  const good = mcpServerNames(['svc', 'my.tool', 'a-b_c']);
  assert.deepEqual(good.ok && [...good.names], [
    ['svc', 'svc'],
    ['my.tool', 'my_tool'],
    ['a-b_c', 'a-b_c'],
  ]);
  assert.deepEqual(mcpServerNames(['a.b', 'x', 'a_b', 'A_B']), { ok: false, collisions: [['a.b', 'a_b', 'A_B']] });
});

test('names are distinct or refused, whatever the aliases', () => {
  const alias = fc.stringMatching(/^[A-Za-z0-9_.-]{1,12}$/);
  fc.assert(
    fc.property(fc.uniqueArray(alias), (aliases) => {
      const result = mcpServerNames(aliases);
      if (!result.ok) return assert.ok(result.collisions.every((group) => group.length > 1));
      const names = [...result.names.values()];
      assert.equal(new Set(names.map((name) => name.toLowerCase())).size, aliases.length);
      assert.ok(names.every((name) => /^[A-Za-z0-9_-]+$/.test(name)));
    }),
  );
});

test('a configured command says what it needs to read: the packages that its words lie in', async () => {
  const options = { harness: 'harness-a', dataDir: '/nowhere', nodePath: process.execPath } as const;
  const found = await resolveHarness({ ...options, configured: scriptedAgent });
  assert.ok(found.state === 'configured');
  assert.deepEqual(found.argv, scriptedAgent);
  const root = join(import.meta.dirname, '../../..');
  assert.ok(found.readOnlyPaths.includes(root), `${found.readOnlyPaths.join()} has the project`);
  assert.ok(found.readOnlyPaths.some((path) => !relative(path, process.execPath).startsWith('..')));
  const byPath = await resolveHarness({ ...options, configured: ['agent', '--acp'] });
  assert.deepEqual(byPath, { state: 'configured', argv: ['agent', '--acp'], readOnlyPaths: [] });
  const missing = await resolveHarness({ ...options, configured: undefined });
  assert.ok('message' in missing && missing.message.includes('svc harness install harness-a'));
});
