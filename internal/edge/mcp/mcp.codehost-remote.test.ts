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
  /** Instead of what it has, once each. */
  const answers: { readonly status: number; readonly headers: object; readonly body: string }[] = [];
  before(async () => {
    const serve = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
      let body = '';
      for await (const chunk of request) body += String(chunk);
      asked.push({ headers: request.headers, body });
      const instead = answers.shift();
      if (instead !== undefined) {
        const type = { 'content-type': 'application/json' };
        response.writeHead(instead.status, { ...type, ...instead.headers }).end(instead.body);
        return;
      }
      const result = { content: [{ type: 'text', text: JSON.stringify([{ number: 1, title: 'a\u2028b' }]) }] };
      response.setHeader('content-type', 'text/event-stream');
      const note = { jsonrpc: '2.0', method: 'notifications/message', params: { level: 'info', data: 'x' } };
      response.write(`event: message\ndata: ${JSON.stringify(note)}\n\n`);
      response.end(`event: message\ndata: ${JSON.stringify({ jsonrpc: '2.0', id: 1, result })}\n\n`);
    };
    server = createServer((request, response) => void serve(request, response));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const mcpUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
    bench = await startCodehostBench({
      config: { file: { providers: { codehost: { mcpUrl, writeSpacingMs: 0, attachmentHosts: ['127.0.0.1'] } } } },
    });
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
    assert.deepEqual(found.value, { items: [{ number: 1, title: 'a\u2028b' }], more: false }, found.text);
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

  it('asks with a fresh token where the one that is kept is not taken, and keeps to its limits', async () => {
    const seat = await bench.agent('asks', { 'acme/app': everything }, ['list_dependabot_alerts']);
    const call = async (): Promise<string> =>
      (await seat.call('list_dependabot_alerts', { owner: 'acme', repo: 'app' }, 'code')).text;
    const alerts = '{"items":[{"number":1,"title":"a\u2028b"}],"more":false}';
    const refusing = (text: string): string =>
      JSON.stringify({ jsonrpc: '2.0', id: 1, result: { isError: true, content: [{ type: 'text', text }] } });
    const { db } = bench.daemon.ctx;
    assert.equal(await call(), alerts);
    const old = () => db.query(`update svc.installation_tokens set minted_at = minted_at - interval '10 minutes'`);
    for (const body of ['{}', refusing('failed to list alerts: GET https://host/x: 401 Bad credentials []')]) {
      await old();
      answers.push({ status: body === '{}' ? 401 : 200, headers: {}, body });
      assert.equal(await call(), alerts);
      const [refused, taken] = asked.slice(-2).map(({ headers }) => headers.authorization);
      assert.notEqual(taken, refused);
    }
    const limited =
      'failed to list alerts: GET https://host/x: 403 API rate limit exceeded for installation [rate reset in 9m]';
    for (const [status, headers, body, seconds] of [
      [429, { 'retry-after': '90' }, 'Too many', 90],
      [403, { 'retry-after': '45' }, '{}', 45],
      [200, {}, refusing(limited), 60],
    ] as const) {
      await db.query('delete from svc.provider_limits');
      answers.push({ status, headers, body });
      assert.equal(await call(), `rate-limited: the provider limits these calls; retry after ${seconds} seconds`);
      const before = asked.length;
      assert.match(await call(), /^rate-limited: /);
      assert.equal(asked.length, before, 'nobody asks before');
    }
    await db.query('delete from svc.provider_limits');
    assert.equal(await call(), alerts);
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
    for (const pullNumber of [3e9, 1.5, -1]) {
      const odd = await call('pull_request_review_write', { ...at, pullNumber, method: 'create' });
      assert.match(odd.text, /^invalid-input: /);
    }
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

  it('says of a file that only people get that it is so, after one try with the token', async () => {
    const at = { owner: 'acme', repo: 'app' };
    const seat = await bench.agent('fetcher', { 'acme/app': everything });
    const file = `${bench.sim.origin}/user-attachments/files/1/report.pdf`;
    const made = await seat.call('issue_write', { ...at, method: 'create', title: 'See', body: file }, 'code');
    await seat.call('issue_read', { ...at, method: 'get', issue_number: Number(made.value['number']) }, 'code');
    const write = async (): Promise<void> => assert.fail('nothing is written');
    bench.daemon.ctx.host?.places.set(seat.session, {
      cwd: '/home/user/work',
      write,
      exec: () => assert.fail(),
      restsForMs: () => 0,
    });
    const { text } = await seat.call('download_attachment', { url: file }, 'code');
    assert.match(text, /^not-found: it is only for people who are signed in there/);
    const tries = bench.sim.log.filter((one) => one.path.startsWith('/user-attachments/files/'));
    assert.deepEqual(
      tries.map((one) => one.authorization?.slice(0, 11)),
      ['Bearer ghs_'],
    );
  });

  it('takes a file of another listed host without the token', async () => {
    const at = { owner: 'acme', repo: 'app' };
    const seat = await bench.agent('fetcher', { 'acme/app': everything });
    const file = `http://127.0.0.1:${(server.address() as AddressInfo).port}/files/1/report.bin`;
    const made = await seat.call(
      'issue_write',
      { ...at, method: 'create', title: 'See', body: `It is at ${file}.` },
      'code',
    );
    await seat.call('issue_read', { ...at, method: 'get', issue_number: Number(made.value['number']) }, 'code');
    const write = async (): Promise<void> => undefined;
    bench.daemon.ctx.host?.places.set(seat.session, {
      cwd: '/home/user/work',
      write,
      exec: () => assert.fail(),
      restsForMs: () => 0,
    });
    const from = asked.length;
    const { isError, text } = await seat.call('download_attachment', { url: file }, 'code');
    assert.equal(isError, false, text);
    assert.deepEqual(
      asked.slice(from).map(({ headers }) => headers.authorization),
      [undefined],
    );
  });

  it('leaves a row of a call whose input is none, and sends nothing', async () => {
    const seat = await bench.agent('mistaken', { 'acme/app': everything });
    const from = bench.sim.log.length;
    const input = { owner: 'acme', repo: 'app', method: 'create', title: 5 };
    assert.match((await seat.call('issue_write', input, 'code')).text, /^invalid-input: /);
    const { body } = await bench.daemon.api('GET', `P/sessions/${seat.session}/calls?counts=true`);
    assert.equal(body['total'], body['items']?.['length']);
    const [row] = body['items'] as unknown as { tool: string; write: boolean; status: string; code: string }[];
    assert.deepEqual(
      [row?.tool, row?.write, row?.status, row?.code],
      ['issue_write', true, 'refused', 'invalid-input'],
    );
    assert.equal(bench.sim.log.length, from);
  });

  it('sends a write again under a fresh token where the host did not take the one that was kept', async () => {
    const seat = await bench.agent('late', { 'acme/app': everything });
    const write = (title: string) =>
      seat.call('issue_write', { owner: 'acme', repo: 'app', method: 'create', title }, 'code');
    assert.equal((await write('warm')).isError, false);
    bench.sim.revokeTokens();
    // As old as one that has been used for a while: a fresh one is waited for instead.
    await bench.daemon.ctx.db.query(
      `update svc.installation_tokens set minted_at = date_trunc('milliseconds', now()) - interval '5 minutes'`,
    );
    const made = await write('again');
    assert.equal(made.isError, false, made.text);
    assert.equal([...bench.app.issues.values()].filter((one) => one.title === 'again').length, 1);
    const { body } = await bench.daemon.api('GET', `P/sessions/${seat.session}/calls`);
    assert.equal((body['items'] as unknown as unknown[]).length, 2);
  });
});
