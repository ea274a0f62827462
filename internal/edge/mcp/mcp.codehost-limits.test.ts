// What the code host says of its limits and of permissions is told with its own time and names, and kept to by all calls.

import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, it } from 'node:test';
import { type CodehostBench, everything, startCodehostBench } from './codehost-testkit.ts';
import type { Seat } from './mcp-testkit.ts';

const at = { owner: 'acme', repo: 'app' };
const tools = ['list_branches', 'list_issues', 'issue_write', 'search_code', 'search_issues'];

describe('a refusal of the code host', () => {
  let bench: CodehostBench;
  let seat: Seat;
  before(async () => {
    bench = await startCodehostBench();
    seat = await bench.agent('worker', { 'acme/app': everything }, tools);
  });
  after(() => bench.stopAll());
  beforeEach(async () => {
    bench.sim.fault = () => null;
    const { db } = bench.daemon.ctx;
    await db.query('delete from svc.provider_limits');
    await db.query('delete from svc.installation_tokens');
  });
  const call = async (tool: string, more: object = {}): Promise<string> =>
    (await seat.call(tool, { ...at, ...more }, 'code')).text;
  const minted = (): number => bench.sim.log.filter(({ path }) => path.endsWith('/access_tokens')).length;

  it('by a limit of GraphQL names its time in the headers, as any other', async () => {
    const reset = String(Math.floor(Date.now() / 1_000) + 1_800);
    const headers = { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': reset, date: new Date().toUTCString() };
    const body = { data: null, errors: [{ type: 'RATE_LIMITED', message: 'API rate limit exceeded' }] };
    bench.sim.fault = ({ operation }) =>
      operation === 'graphql' ? { kind: 'status', status: 200, headers, body } : null;
    assert.match(await call('list_issues'), /^rate-limited: .*retry after 1(?:79\d|80\d) seconds$/);
    // The secondary one has no type.
    await bench.daemon.ctx.db.query('delete from svc.provider_limits');
    const secondary = { errors: [{ message: 'You have exceeded a secondary rate limit. Please wait a few minutes.' }] };
    bench.sim.fault = ({ operation }) =>
      operation === 'graphql'
        ? { kind: 'status', status: 200, headers: { 'retry-after': '90' }, body: secondary }
        : null;
    assert.match(await call('list_issues'), /^rate-limited: .*retry after 90 seconds$/);
  });

  it('of new tokens is told with its time, and nobody asks for one before', async () => {
    for (const message of ['You have exceeded a secondary rate limit', '']) {
      const before = minted();
      const fault = { kind: 'status', status: 403, headers: { 'retry-after': '90' }, body: { message } } as const;
      bench.sim.fault = ({ path }) => (path.endsWith('/access_tokens') ? fault : null);
      assert.match(await call('list_branches'), /^rate-limited: .*retry after 90 seconds$/);
      assert.match(await call('list_branches'), /^rate-limited: .*retry after (?:8\d|90) seconds$/);
      assert.equal(minted() - before, 1);
      await bench.daemon.ctx.db.query('delete from svc.provider_limits');
    }
  });

  it('holds for the calls that met it, whatever the code host calls what they count against', async () => {
    for (const [tool, operation, resource] of [
      ['search_code', 'GET /search/code', 'code_search'],
      ['search_code', 'GET /search/code', 'search'],
      ['search_issues', 'GET /search/issues', 'search'],
      ['list_branches', 'GET /repos/{owner}/{repo}/branches', 'another'],
    ] as const) {
      await bench.daemon.ctx.db.query('delete from svc.provider_limits');
      const now = Math.floor(Date.now() / 1_000);
      const headers = {
        date: new Date(now * 1_000).toUTCString(),
        'x-ratelimit-remaining': '0',
        'x-ratelimit-reset': String(now + 90),
        'x-ratelimit-resource': resource,
      };
      let asked = 0;
      bench.sim.fault = (request) => {
        if (request.operation !== operation) return null;
        asked += 1;
        return { kind: 'status', status: 403, headers, body: { message: 'API rate limit exceeded' } };
      };
      const input = tool.startsWith('search') ? { query: 'x' } : at;
      const ask = async (): Promise<string> => (await seat.call(tool, input, 'code')).text;
      for (const _ of [1, 2]) assert.match(await ask(), /^rate-limited: .*retry after (?:8\d|90) seconds$/);
      assert.equal(asked, 1, `${tool} by ${resource}`);
    }
  });

  it('without a time doubles the pause where it comes again at once, and not where calls went through meanwhile', async () => {
    const { db } = bench.daemon.ctx;
    const over = () => db.query(`update svc.provider_limits set blocked_until = now() - interval '1 second'`);
    const limited = async (): Promise<string> => {
      bench.sim.fault = ({ operation }) =>
        operation === 'GET /repos/{owner}/{repo}/branches'
          ? { kind: 'status', status: 403, body: { message: 'You have exceeded a secondary rate limit' } }
          : null;
      const text = await call('list_branches');
      bench.sim.fault = () => null;
      await over();
      return text;
    };
    assert.match(await limited(), /retry after 60 seconds$/);
    assert.match(await limited(), /retry after 120 seconds$/);
    for (const _ of [1, 2]) assert.match(await call('list_branches'), /"items"/);
    assert.match(await limited(), /retry after 60 seconds$/);
  });

  it('for want of a permission names it: what the host says would do, else what was asked with', async () => {
    for (const [headers, named] of [
      [
        { 'x-accepted-github-permissions': 'contents=read; administration=read' },
        'contents: read, administration: read',
      ],
      [{}, 'contents: read'],
      [{ 'x-accepted-github-permissions': '<script>' }, 'contents: read'],
    ] as const) {
      const body = { message: 'Resource not accessible by integration' };
      bench.sim.fault = ({ operation }) =>
        operation === 'GET /repos/{owner}/{repo}/branches' ? { kind: 'status', status: 403, headers, body } : null;
      assert.equal(
        await call('list_branches'),
        `permission-missing: the installation may not do this; it lacks one of ${named}`,
      );
    }
    const body = { data: null, errors: [{ type: 'FORBIDDEN', message: 'Resource not accessible by integration' }] };
    bench.sim.fault = ({ operation }) => (operation === 'graphql' ? { kind: 'status', status: 200, body } : null);
    assert.equal(
      await call('list_issues'),
      'permission-missing: the installation may not do this; it lacks one of issues: read',
    );
  });
});
