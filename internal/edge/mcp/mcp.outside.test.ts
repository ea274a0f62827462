import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { addConnection } from '../../flows/ingest/ingest-testkit.ts';
import { createToolBench, type Seat, type ToolBench } from './mcp-testkit.ts';

const codehost = { kind: 'codehost' };
const mount = (capabilities: object, at = '/r'): object => ({
  kind: 'git',
  repository: 'o/r',
  mountPath: at,
  auth: { kind: 'codehostApp', capabilities },
});
const merging = ['merge_pull_request', 'enable_pull_request_auto_merge'];
const secretive = ['list_repository_secrets', 'set_repository_secret', 'delete_repository_secret'];

describe('tools whose work is done outside', () => {
  let bench: ToolBench;
  before(async () => {
    bench = await createToolBench();
    const { daemon } = bench;
    await addConnection(daemon, { provider: 'chat', name: 'talk', credentials: { signingSecret: 's' } });
    await addConnection(daemon, { provider: 'tracker', name: 'issues', credentials: { webhookSecret: 's' } });
    await addConnection(daemon, { provider: 'errtrack', name: 'errors', credentials: {} });
  });
  after(() => bench.stop());
  /** Of the connection `issues`. */
  const failedCalls = async (): Promise<number> =>
    Number((await bench.daemon.api('GET', 'P/connections/issues')).body['failedCalls']);
  const listed = async (seat: Seat, alias: string): Promise<string[]> =>
    (await (await seat.client(alias)).listTools()).tools.map((tool) => tool.name);

  it('a code host alias has 24 tools by default, none of them for merging or secrets', async () => {
    await bench.apply({ plain: { tools: { code: codehost }, mounts: [mount({})] } });
    const plain = await bench.start('plain');
    const names = await listed(plain, 'code');
    assert.equal(names.length, 24);
    assert.ok(names.includes('pull_request_read'));
    for (const name of [...merging, ...secretive, 'create_repository', 'constructor', '__proto__']) {
      assert.ok(!names.includes(name));
      assert.match((await plain.call(name, {}, 'code')).text, /^no-such-tool: There is no tool /, name);
    }
    const input = { owner: 'o', repo: 'r', method: 'get', pullNumber: 1 };
    assert.match((await plain.call('pull_request_read', {}, 'code')).text, /^invalid-input: method: is required/);
    const elsewhere = await plain.call('pull_request_read', { ...input, repo: 'other' }, 'code');
    assert.match(elsewhere.text, /^repository-not-mounted: /);
    assert.match((await plain.call('pull_request_read', input, 'code')).text, /^connection-inactive: /);
  });

  it('merge and secrets tools are there only where a mount grants them, as far as it does', async () => {
    await bench.apply({
      merger: { tools: { code: { ...codehost, tools: [...merging, 'get_me'] } }, mounts: [mount({ merge: 'write' })] },
      reader: {
        tools: { code: { ...codehost, tools: secretive } },
        mounts: [mount({}), mount({ secrets: 'read' }, '/s')],
      },
      writer: { tools: { code: { ...codehost, tools: secretive } }, mounts: [mount({ secrets: 'write' })] },
    });
    assert.deepEqual(await listed(await bench.start('merger'), 'code'), [...merging, 'get_me']);
    const reader = await bench.start('reader');
    assert.deepEqual(await listed(reader, 'code'), ['list_repository_secrets']);
    assert.match((await reader.call('set_repository_secret', {}, 'code')).text, /^no-such-tool: /);
    assert.deepEqual(await listed(await bench.start('writer'), 'code'), secretive);
  });

  it('an error-tracking connection has its four read-only tools, one of the tracker its own', async () => {
    await bench.apply({
      finder: {
        tools: {
          errors: { kind: 'connection', provider: 'errtrack', connection: 'errors' },
          issues: { kind: 'connection', provider: 'tracker', connection: 'issues' },
        },
      },
    });
    const finder = await bench.start('finder');
    assert.deepEqual(await listed(finder, 'errors'), [
      'list_projects',
      'search_issues',
      'get_issue_details',
      'get_latest_event',
    ]);
    const before = await failedCalls();
    assert.match((await finder.call('search_issues', {}, 'errors')).text, /^not-connected: /);
    assert.match((await finder.call('update_issue', {}, 'errors')).text, /^no-such-tool: /);
    assert.deepEqual(await listed(finder, 'issues'), ['issue_get', 'issue_search', 'issue_comment', 'issue_update']);
    assert.match(
      (await finder.call('issue_get', { issue: 'A-1' }, 'issues')).text,
      /^credential-refused: .*nothing was done/,
    );
    assert.equal(await failedCalls(), before + 1);
    // What it asks for is not the connection's fault.
    assert.match((await finder.call('issue_get', { issue: ' ' }, 'issues')).text, /^invalid-input: /);
    assert.equal(await failedCalls(), before + 1);
  });

  it('chat tools take their input strictly, and say that they did nothing', async () => {
    await bench.apply({
      talker: {
        tools: {
          talk: {
            kind: 'local',
            implementation: 'chat',
            auth: { kind: 'connection', provider: 'chat', connection: 'talk' },
          },
        },
      },
    });
    const talker = await bench.start('talker');
    assert.deepEqual(await listed(talker, 'talk'), ['chat_send', 'chat_history', 'chat_search', 'chat_react']);
    assert.match(
      (await talker.call('chat_send', { channelId: 'C1', text: 'hi' }, 'talk')).text,
      /^credential-refused: .*nothing was done/,
    );
    assert.match((await talker.call('chat_send', { text: ' ' }, 'talk')).text, /^invalid-input: text: /);
    assert.match((await talker.call('svc_session_get', {}, 'talk')).text, /^no-such-tool: /);
  });

  it('a server that nobody has consented to is there without tools, and each call says so', async () => {
    await bench.apply({
      signed: {
        tools: {
          remote: {
            kind: 'mcp_remote',
            url: 'https://tools.example/mcp',
            auth: { kind: 'provider_oauth', provider: 'tracker', connection: 'issues' },
          },
        },
      },
    });
    const signed = await bench.start('signed');
    const client = await signed.client('remote');
    assert.deepEqual((await client.listTools()).tools, []);
    assert.equal(client.getInstructions(), 'authorization-required: connection issues');
    const before = await failedCalls();
    assert.equal((await signed.call('x', {}, 'remote')).text, 'authorization-required: connection issues');
    assert.equal(await failedCalls(), before + 1, 'calls are counted, and not what a client asks beside them');
    // No text can be made of it; and a name that every object has.
    const nothing = { toString: null, valueOf: null };
    for (const [odd, status] of [
      [{ id: 1, method: nothing }, 405],
      [{ id: nothing, method: 'ping' }, 405],
      [{ id: 1, method: 'constructor' }, 200],
      [{ id: 1, method: 'initialize', params: { protocolVersion: nothing } }, 200],
    ] as const) {
      const answer = await signed.post('remote', { jsonrpc: '2.0', ...odd });
      const said = (await answer.json()) as { result?: { protocolVersion?: unknown }; error?: unknown };
      assert.equal(answer.status, status, JSON.stringify(said));
      assert.ok(said.error !== undefined || said.result?.protocolVersion === '2025-06-18', JSON.stringify(said));
    }
  });
});
