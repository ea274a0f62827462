// What a session may not touch at the code host, tried in hundreds of ways; what limits, lost answers and attachments do.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { codehostTools } from '../../base/config/codehost-tools.ts';
import type { SimRepository } from '../../base/testkit/codehost-state.ts';
import { codehostToolSchema } from '../../../schemas/codehost-tools.ts';
import { type CodehostBench, everything, startCodehostBench } from './codehost-testkit.ts';
import type { Seat } from './mcp-testkit.ts';

const at = { owner: 'acme', repo: 'app' };
const hidden = 'what-nobody-may-see';
const nothing = Object.fromEntries(Object.keys(everything).map((key) => [key, 'none']));
interface Node {
  readonly type?: string | readonly string[];
  readonly enum?: readonly unknown[];
  readonly properties?: { readonly [name: string]: Node };
  readonly required?: readonly string[];
  readonly items?: Node;
  readonly anyOf?: readonly Node[];
  readonly oneOf?: readonly Node[];
}
/** The least input that a schema takes. */
function least(node: Node): unknown {
  if (node.enum !== undefined) return node.enum[0];
  const [branch] = node.anyOf ?? node.oneOf ?? [];
  if (branch !== undefined) return least(branch);
  switch ([node.type].flat()[0]) {
    case 'integer':
    case 'number':
      return 1;
    case 'boolean':
      return true;
    case 'array':
      return [least(node.items ?? { type: 'string' })];
    case 'object':
      return Object.fromEntries((node.required ?? []).map((key) => [key, least(node.properties?.[key] ?? {})]));
    default:
      return 'x';
  }
}
const names = Object.keys(codehostTools);
const inputOf = (name: string): { [key: string]: unknown } =>
  least((codehostToolSchema(name, false) ?? {}) as Node) as { [key: string]: unknown };
/** Those that need no capability of their own to be declared at all. */
const plain = names.filter((name) => codehostTools[name]?.needs === undefined);
const repositoryTools = names.filter((name) => Object.hasOwn(inputOf(name), 'owner'));

describe('what a session may not touch at the code host', () => {
  let bench: CodehostBench;
  let secret: SimRepository;
  let tried = 0;
  let said = '';
  const attempt = async (seat: Seat, tool: string, input: object): Promise<string> => {
    tried += 1;
    const { text } = await seat.call(tool, input, 'code');
    said += text;
    return text;
  };
  before(async () => {
    bench = await startCodehostBench();
    secret = await bench.sim.repository('acme/secret', { 'a.txt': hidden });
    secret.threads.push({ id: 4_242, number: 1, path: 'a.txt', resolved: false });
  });
  after(() => bench.stopAll());

  it('another repository, by every tool that names one: nobody is asked', async () => {
    const seat = await bench.agent('all', { 'acme/app': everything }, names);
    const before = bench.sim.log.length;
    for (const tool of repositoryTools) {
      const text = await attempt(seat, tool, { ...inputOf(tool), owner: 'acme', repo: 'secret' });
      assert.match(text, /^(repository-not-mounted|not-available|invalid-input): /, tool);
    }
    assert.equal(bench.sim.log.length, before);
  });

  it('another repository, in every spelling that leads there elsewhere', async () => {
    const seat = await bench.start('all');
    const before = bench.sim.log.length;
    const owners = [
      'acme',
      'ACME',
      'acme ',
      ' acme',
      'acme/',
      '/acme',
      'acme%2F',
      '.',
      '..',
      'acme/app/..',
      'acme\\',
      'acme\u0000',
      'аcme',
      '',
    ];
    const repos = [
      'secret',
      'SECRET',
      'secret ',
      'secret.git',
      'app/../secret',
      '../acme/secret',
      'app%2F..%2Fsecret',
      'app?x=',
      'app#',
      'app/',
      'a\u1d18p',
      'app\u200b',
      '',
      'app\n',
    ];
    for (const owner of owners) {
      for (const repo of repos) {
        const text = await attempt(seat, 'get_file_contents', { owner, repo, path: 'a.txt' });
        assert.match(text, /^(repository-not-mounted|invalid-input): /, `${owner}/${repo}`);
      }
    }
    assert.equal(bench.sim.log.length, before);
    assert.match(await attempt(seat, 'get_file_contents', { owner: 'Acme', repo: 'APP', path: 'README.md' }), /# app/);
  });

  it('a name of dots leads nowhere, in whatever part of an address it stands: nobody is asked', async () => {
    const seat = await bench.start('all');
    const before = bench.sim.log.length;
    const elsewhere = '../../../../../acme/secret/git/ref/heads/main';
    const file = { path: 'a.txt', content: 'x' };
    const place = { secret_name: 'NAME', environment: '..' };
    for (const [tool, input] of [
      ['push_files', { branch: elsewhere, message: 'm', files: [file] }],
      ['create_branch', { branch: 'x', from_branch: elsewhere }],
      ['create_branch', { branch: 'x', from_branch: 'a/./b' }],
      ['get_commit', { sha: '..' }],
      ['get_repository_tree', { tree_sha: '..' }],
      ['get_release_by_tag', { tag: '..' }],
      ['get_label', { name: '..' }],
      ['label_write', { method: 'delete', name: '..' }],
      ['label_write', { method: 'update', name: '.', color: 'ffffff' }],
      ['actions_get', { method: 'get_workflow', resource_id: '..' }],
      ['actions_list', { method: 'list_workflow_runs', resource_id: '.' }],
      ['actions_run_trigger', { method: 'run_workflow', workflow_id: '..', ref: 'main' }],
      ['list_repository_secrets', { environment: '..' }],
      ['set_repository_secret', { ...place, value: 'v' }],
      ['delete_repository_secret', place],
    ] as const) {
      assert.match(
        await attempt(seat, tool, { ...at, ...input }),
        /^invalid-input: /,
        `${tool} ${JSON.stringify(input)}`,
      );
    }
    assert.equal(bench.sim.log.length, before);
  });

  it('its own repository, without the capability: nobody is asked', async () => {
    const seat = await bench.agent('bare', { 'acme/app': nothing }, plain);
    const before = bench.sim.log.length;
    for (const tool of repositoryTools) {
      const text = await attempt(seat, tool, { ...inputOf(tool), ...at });
      assert.match(text, /^(capability-missing|not-available|invalid-input|no-such-tool): /, tool);
    }
    assert.equal(bench.sim.log.length, before);
  });

  it('reading is not writing', async () => {
    const seat = await bench.agent(
      'reader',
      {
        'acme/app': {
          ...nothing,
          contents: 'read',
          issues: 'read',
          pullRequests: 'read',
          actions: 'read',
          checks: 'read',
        },
      },
      plain,
    );
    const written = () =>
      bench.sim.log.filter((one) => one.method !== 'GET' && !one.path.includes('/access_tokens')).length;
    const before = written();
    const { tools } = await (await seat.client('code')).listTools();
    for (const tool of tools.filter((one) => one.annotations?.readOnlyHint !== true)) {
      const text = await attempt(seat, tool.name, {
        ...inputOf(tool.name),
        ...(Object.hasOwn(inputOf(tool.name), 'owner') && at),
      });
      assert.match(text, /^(capability-missing|not-available|invalid-input|repository-not-mounted): /, tool.name);
    }
    assert.equal(written(), before);
  });

  it('searches stay inside the mounts, whatever the words are', async () => {
    const seat = await bench.start('all');
    const widening = [
      'x repo:acme/secret',
      'repo:acme/secret',
      '-repo:acme/app x',
      'x OR y',
      'NOT x',
      '(x)',
      'org:acme x',
      'user:acme',
      'owner:acme',
      'x\trepo:acme/secret',
      'x\nrepo:acme/secret',
      '"x" repo:acme/secret',
      '"x',
      'x "y" "',
      'REPO:acme/secret',
      'repo :acme/secret',
      'x) OR (repo:acme/secret',
      '"a\\" repo:acme/secret "b',
      'x\u2028repo:acme/secret',
      '+repo:acme/secret',
    ];
    for (const tool of ['search_code', 'search_issues', 'search_pull_requests', 'search_commits']) {
      for (const query of widening) assert.match(await attempt(seat, tool, { query }), /^invalid-input: /, query);
      for (const query of [hidden, '"repo:acme/secret"', '"NOT OR"']) {
        const { value, text } = await seat.call(tool, { query }, 'code');
        assert.deepEqual(value['items'], [], text);
      }
      assert.match(await attempt(seat, tool, { query: 'x', owner: 'acme' }), /^invalid-input: /);
      assert.match(
        await attempt(seat, tool, { query: 'x', owner: 'acme', repo: 'secret' }),
        /^(repository-not-mounted|invalid-input): /,
      );
    }
  });

  it('an id of elsewhere names nothing here', async () => {
    const seat = await bench.start('all');
    for (const threadID of ['PRRT_4242', 'PRRT_0', 'R_1001', 'x']) {
      assert.match(await attempt(seat, 'resolve_review_thread', { threadID }), /^not-found: /);
      assert.match(
        await attempt(seat, 'pull_request_review_write', {
          ...at,
          method: 'resolve_thread',
          pullNumber: 1,
          threadId: threadID,
        }),
        /^not-found: /,
      );
    }
    assert.equal(secret.threads[0]?.resolved, false);
    const urls = [
      `${bench.sim.origin}/signed/x`,
      'http://169.254.169.254/latest',
      'file:///etc/passwd',
      'https://github.com/user-attachments/assets/1',
      'not a url',
      `http://u:p@${new URL(bench.sim.origin).host}/x`,
    ];
    for (const url of urls)
      assert.match(await attempt(seat, 'download_attachment', { url }), /^(refused|invalid-input): /, url);
  });

  it('a repository that has moved is not followed', async () => {
    const moved = await bench.sim.repository('acme/moved');
    moved.movedTo = 'acme/secret';
    const seat = await bench.agent('follower', { 'acme/moved': everything });
    assert.match(await attempt(seat, 'list_branches', { owner: 'acme', repo: 'moved' }), /^not-found: .*moved/);
  });

  it('learned nothing and changed nothing, in at least three hundred attempts', async (t) => {
    t.diagnostic(`${tried} attempts`);
    assert.ok(tried >= 300, String(tried));
    assert.ok(!said.includes(hidden));
    assert.equal(secret.issues.size + secret.comments.length + secret.reviews.length, 0);
    assert.deepEqual(
      (await secret.branches()).map((one) => one.name),
      ['main'],
    );
    assert.ok(
      !bench.sim.log.some((one) =>
        /acme\/secret/i.test(decodeURIComponent(`${one.path}${JSON.stringify(one.body ?? '')}`)),
      ),
    );
  });
});

describe('a code host that misbehaves', () => {
  let bench: CodehostBench;
  before(async () => {
    bench = await startCodehostBench();
  });
  after(() => bench.stopAll());

  it('of 1,000 writes with every tenth answer lost each is there once and told truly', async () => {
    const first = await bench.agent('writer', { 'acme/app': everything });
    // Few enough at a time that a machine that is slow or busy finds a connection to the database for each.
    const seats = [first, ...(await Promise.all(Array.from({ length: 9 }, () => bench.start('writer'))))];
    const issues = await Promise.all(
      seats.map(async (seat, index) =>
        Number(
          (await seat.call('issue_write', { ...at, method: 'create', title: `T${index}` }, 'code')).value['number'],
        ),
      ),
    );
    let sent = 0;
    const unsent = new Set<string>();
    bench.sim.fault = ({ operation, body }) => {
      if (operation !== 'POST /repos/{owner}/{repo}/issues/{issue_number}/comments') return null;
      sent += 1;
      if (sent % 10 !== 0) return null;
      if (sent % 50 !== 0) return sent % 20 === 0 ? { kind: 'after', status: 502 } : { kind: 'lose' };
      unsent.add((body as { body: string }).body.split('\n')[0] ?? '');
      return { kind: 'drop' };
    };
    const told = new Map<string, { isError: boolean; text: string }>();
    await Promise.all(
      seats.flatMap((seat, index) =>
        [0, 1].map(async (lane) => {
          for (let n = 0; n < 50; n += 1) {
            const body = `c-${index}-${lane}-${n}`;
            told.set(body, await seat.call('add_issue_comment', { ...at, issue_number: issues[index], body }, 'code'));
          }
        }),
      ),
    );
    bench.sim.fault = () => null;
    assert.equal(told.size, 1_000);
    const there = new Map<string, number>();
    for (const one of bench.app.comments) {
      const body = one.body.split('\n')[0] ?? '';
      there.set(body, (there.get(body) ?? 0) + 1);
    }
    for (const [body, { isError, text }] of told) {
      assert.equal(there.get(body) ?? 0, unsent.has(body) ? 0 : 1, body);
      if (unsent.has(body)) assert.match(text, /^outcome-unknown: /);
      else assert.equal(isError, false, text);
    }
    assert.equal(sent, 1_000, 'nothing was sent twice');
    const { rows } = await bench.daemon.ctx.db.query<{ status: string; n: number }>(
      `select status, count(*)::int as n from svc.calls where tool = 'add_issue_comment' group by 1 order by 1`,
    );
    assert.deepEqual(rows, [
      { status: 'done', n: 1_000 - unsent.size },
      { status: 'unknown', n: unsent.size },
    ]);
  });

  it('a limit blocks its resource alone, is told with its time, and counts as not sent', async () => {
    const seat = await bench.start('writer');
    const limited = (seconds: number) => ({
      kind: 'status' as const,
      status: 429,
      headers: { 'retry-after': String(seconds) },
    });
    let refusals = 1;
    bench.sim.fault = ({ operation }) =>
      operation === 'POST /repos/{owner}/{repo}/issues' && refusals-- > 0 ? limited(1) : null;
    const made = await seat.call('issue_write', { ...at, method: 'create', title: 'later' }, 'code');
    assert.equal(made.isError, false, made.text);
    bench.sim.fault = ({ operation }) => (operation === 'GET /search/code' ? limited(120) : null);
    assert.match(
      (await seat.call('search_code', { query: 'x' }, 'code')).text,
      /^rate-limited: .*retry after 120 seconds$/,
    );
    bench.sim.fault = () => null;
    assert.match(
      (await seat.call('search_code', { query: 'x' }, 'code')).text,
      /^rate-limited: .*retry after 1\d\d seconds$/,
    );
    assert.equal((await seat.call('list_branches', at, 'code')).isError, false);
  });

  it('an installation that is suspended, gone, or lacks a permission is told as that', async () => {
    const seat = await bench.start('writer');
    const { ctx } = bench.daemon;
    const failing = async (): Promise<string> => {
      await ctx.db.query('delete from svc.installation_tokens');
      return (await seat.call('list_branches', at, 'code')).text;
    };
    for (const state of ['suspended', 'deleted'] as const) {
      bench.sim.state = state;
      assert.match(await failing(), /^connection-inactive: /);
    }
    bench.sim.state = 'active';
    // It is told as gone until somebody looks again.
    assert.equal((await bench.daemon.api('POST', 'P/connections/code/check')).body['status'], 'active');
    bench.sim.granted = { ...bench.sim.granted, contents: 'read' };
    await ctx.db.query('delete from svc.installation_tokens');
    assert.match(
      (await seat.call('create_branch', { ...at, branch: 'x' }, 'code')).text,
      /^permission-missing: .*contents: write/,
    );
    bench.sim.granted = { ...bench.sim.granted, contents: 'write' };
    bench.sim.fault = ({ operation }) =>
      operation === 'GET /repos/{owner}/{repo}/branches' ? { kind: 'status', status: 503 } : null;
    assert.match(await failing(), /^provider-unavailable: /);
    bench.sim.fault = () => null;
    assert.match(await failing(), /"items"/);
  });
});
