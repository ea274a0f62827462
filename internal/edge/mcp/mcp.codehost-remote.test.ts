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
});
