import assert from 'node:assert/strict';
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, describe, it } from 'node:test';
import { type CodehostBench, everything, startCodehostBench } from './codehost-testkit.ts';

describe('the provider’s own tool server, where one is configured', () => {
  let bench: CodehostBench;
  let server: Server;
  const asked: { readonly headers: IncomingHttpHeaders; readonly body: string }[] = [];
  before(async () => {
    const serve = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
      let body = '';
      for await (const chunk of request) body += String(chunk);
      asked.push({ headers: request.headers, body });
      const result = { content: [{ type: 'text', text: JSON.stringify([{ number: 1 }]) }] };
      response.setHeader('content-type', 'text/event-stream');
      response.end(`event: message\ndata: ${JSON.stringify({ jsonrpc: '2.0', id: 1, result })}\n\n`);
    };
    server = createServer((request, response) => void serve(request, response));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const mcpUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
    bench = await startCodehostBench({ config: { file: { providers: { codehost: { mcpUrl, writeSpacingMs: 0 } } } } });
  });
  after(async () => {
    await bench.stopAll();
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });

  it('reads there what is not served here, of a mount alone, and writes nothing', async () => {
    const tools = ['list_dependabot_alerts', 'discussion_comment_write', 'fork_repository', 'get_team_members'];
    const seat = await bench.agent('remote', { 'acme/app': everything }, tools);
    const found = await seat.call('list_dependabot_alerts', { owner: 'ACME', repo: 'app' }, 'code');
    assert.deepEqual(found.value, { items: [{ number: 1 }], more: false }, found.text);
    const [first] = asked;
    assert.match(String(first?.headers.authorization), /^Bearer ghs_/);
    assert.deepEqual(
      [first?.headers['x-mcp-readonly'], first?.headers['x-mcp-tools']],
      ['true', 'list_dependabot_alerts'],
    );
    assert.match(first?.body ?? '', /"owner":"acme","repo":"app"/);
    const elsewhere = await seat.call('list_dependabot_alerts', { owner: 'acme', repo: 'other' }, 'code');
    assert.match(elsewhere.text, /^repository-not-mounted: /);
    assert.match((await seat.call('fork_repository', { owner: 'acme', repo: 'app' }, 'code')).text, /^not-available: /);
    assert.match(
      (await seat.call('get_team_members', { org: 'acme', team_slug: 'x' }, 'code')).text,
      /^not-available: /,
    );
    assert.equal(asked.length, 1);
  });

  it('submits comments on whole files in the same one request, and leaves nothing begun where that is refused', async () => {
    const at = { owner: 'acme', repo: 'app' };
    const seat = await bench.agent('reviewer', { 'acme/app': everything });
    const call = (tool: string, input: object) => seat.call(tool, input, 'code');
    const done = async (tool: string, input: object) => {
      const answer = await call(tool, input);
      assert.equal(answer.isError, false, `${tool}: ${answer.text}`);
      return answer.value;
    };
    await done('create_branch', { ...at, branch: 'topic' });
    await bench.app.git.commit({ 'src/b.ts': 'export const b = 2;\n' }, { branch: 'topic' });
    const pull = await done('create_pull_request', { ...at, title: 'B', head: 'topic', base: 'main' });
    const on = { ...at, pullNumber: Number(pull['number']) };
    const submit = { ...on, method: 'submit_pending', event: 'COMMENT', body: 'Both.' };
    const comment = (path: string, subjectType: string, more = {}) =>
      done('add_comment_to_pending_review', { ...on, path, body: `On ${path}`, subjectType, ...more });
    await comment('src/b.ts', 'FILE');
    await comment('src/x.refused', 'FILE');
    assert.match((await call('pull_request_review_write', submit)).text, /^refused: /);
    assert.ok(bench.app.reviews.every((one) => one.state !== 'PENDING'));
    await done('pull_request_review_write', { ...on, method: 'delete_pending' });
    await comment('src/b.ts', 'LINE', { line: 1 });
    await comment('src/b.ts', 'FILE');
    const before = [bench.app.reviews.length, bench.app.reviewComments.length];
    const from = bench.sim.log.length;
    assert.equal(String((await done('pull_request_review_write', submit))['state']), 'COMMENTED');
    const isMutation = ({ body }: { readonly body?: unknown }) => JSON.stringify(body ?? '').includes('mutation');
    assert.equal(bench.sim.log.slice(from).filter(isMutation).length, 1);
    assert.deepEqual(
      [bench.app.reviews.length, bench.app.reviewComments.length],
      [(before[0] ?? 0) + 1, (before[1] ?? 0) + 2],
    );
    assert.deepEqual(
      bench.app.reviewComments.slice(-2).map((one) => one.line),
      [1, null],
    );
    assert.match(bench.app.reviews.at(-1)?.body ?? '', /^Both\.[^]*svc:call=/);
  });
});
