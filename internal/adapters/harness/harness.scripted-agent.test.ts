// The scripted agent through a client that is not ours: it must be a real peer, not the other half of our own mistakes.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable, Writable } from 'node:stream';
import { test, type TestContext } from 'node:test';
import { client, ndJsonStream } from '@agentclientprotocol/sdk';
import { startToolServer } from '../../../testdata/scripted-agent/tool-server.ts';
import { createHome, scriptedAgent, startProcess } from './harness-testkit.ts';

const acpxPath = join(import.meta.dirname, '../../../node_modules/.bin/acpx');

interface Line {
  readonly method?: string;
  readonly params?: {
    readonly update?: { readonly sessionUpdate: string; readonly content?: { readonly text?: string } };
  };
  readonly result?: { readonly stopReason?: string; readonly agentInfo?: { readonly title: string } };
  readonly error?: { readonly message: string };
}

async function acpx(t: TestContext, prompt: string, ...flags: readonly string[]) {
  const home = await createHome();
  t.after(() => home.remove());
  const tools = await startToolServer();
  t.after(() => tools.close());
  const headers = [{ name: 'authorization', value: `Bearer ${tools.token}` }];
  const config = join(home.home, 'mcp.json');
  await writeFile(config, JSON.stringify({ mcpServers: [{ type: 'http', name: 'svc', url: tools.url, headers }] }));
  const args = ['--agent', scriptedAgent.join(' '), '--cwd', home.work, '--format', 'json', '--mcp-config', config];
  const stdout = await new Promise<string>((resolve) => {
    const env = { PATH: process.env['PATH'], HOME: home.home };
    const all = [acpxPath, ...args, ...flags, 'exec', prompt];
    execFile(process.execPath, all, { env, cwd: home.work, timeout: 60_000 }, (_error, out, err) =>
      resolve(`${out}${err}`),
    );
  });
  const lines = stdout.split('\n').flatMap((line) => (line.startsWith('{') ? [JSON.parse(line) as Line] : []));
  const updates = lines.flatMap((line) => line.params?.update ?? []);
  return {
    tools,
    stdout,
    title: lines.find((line) => line.result?.agentInfo)?.result?.agentInfo?.title,
    stopReason: lines.find((line) => line.result?.stopReason)?.result?.stopReason,
    text: updates
      .map((update) => (update.sessionUpdate === 'agent_message_chunk' ? update.content?.text : ''))
      .join(''),
    kinds: [...new Set(updates.map((update) => update.sessionUpdate))],
  };
}

test('an independent client gets an echo from an agent that says what it is', async (t) => {
  const run = await acpx(t, 'hello there');
  assert.equal(run.title, 'scripted agent, for tests and demonstrations', run.stdout);
  assert.equal(run.text, 'echo: hello there');
  assert.equal(run.stopReason, 'end_turn');
});

test('an independent client sees a plan, thoughts, a tool call and a stream, in the protocol’s own words', async (t) => {
  const run = await acpx(t, '!plan dig; sow\n!think hm\n!call svc svc_ping {"n":1}\n!stream 3 1');
  assert.deepEqual(run.tools.calls, ['svc_ping {"n":1}'], run.stdout);
  assert.equal(run.text, 'pong {"n":1}chunk 1 chunk 2 chunk 3 ');
  assert.deepEqual(run.kinds.sort(), [
    'agent_message_chunk',
    'agent_thought_chunk',
    'plan',
    'tool_call',
    'tool_call_update',
    'usage_update',
  ]);
});

test('an independent client is asked for permission, and its answer is taken', async (t) => {
  const allowed = await acpx(t, '!ask dig\n!say done', '--approve-all');
  assert.equal(allowed.text, 'permission oncedone', allowed.stdout);
  const denied = await acpx(t, '!ask dig\n!say done', '--deny-all');
  assert.doesNotMatch(denied.text, /done/, denied.stdout);
  assert.equal(denied.stopReason, 'cancelled');
});

test('a prompt behind another is refused, or lost with a cancel as a real harness loses it', async (t) => {
  for (const trap of ['', 'lose-queued']) {
    const home = await createHome();
    const program = startProcess(scriptedAgent, { HOME: home.home, SCRIPTED_AGENT_TRAPS: trap }, home.work);
    t.after(async () => {
      await program.end();
      await home.remove();
    });
    const output = Readable.toWeb(program.stdout) as unknown as ReadableStream<Uint8Array>;
    const { agent } = client({ name: 'raw' })
      .onNotification('session/update', () => undefined)
      .connect(ndJsonStream(Writable.toWeb(program.stdin) as WritableStream<Uint8Array>, output));
    await agent.request('initialize', { protocolVersion: 1 });
    const { sessionId } = await agent.request('session/new', { cwd: home.work, mcpServers: [] });
    const prompt = (text: string) => agent.request('session/prompt', { sessionId, prompt: [{ type: 'text', text }] });
    const first = prompt('!sleep 60000');
    const second = prompt('!say heard').catch((error: Error) => error.message);
    if (trap === '') assert.match(String(await second), /in flight/);
    await agent.notify('session/cancel', { sessionId });
    assert.equal((await first).stopReason, 'cancelled');
    if (trap !== '') assert.deepEqual(await second, { stopReason: 'cancelled', usage: null });
  }
});
