// What stands where the code host should be may answer anything: a session is told so, and nothing else comes of it.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { type CodehostBench, everything, startCodehostBench } from './codehost-testkit.ts';
import type { Seat } from './mcp-testkit.ts';

const at = { owner: 'acme', repo: 'app' };
const tools = [
  'add_issue_comment',
  'get_file_contents',
  'get_repository_tree',
  'issue_read',
  'issue_write',
  'list_issues',
  'list_pull_requests',
  'pull_request_read',
  'pull_request_review_write',
  'create_pull_request',
  'search_code',
  'set_repository_secret',
];
const get = { ...at, issue_number: 1, method: 'get' };

describe('an answer of the code host', () => {
  let bench: CodehostBench;
  let seat: Seat;
  before(async () => {
    bench = await startCodehostBench();
    bench.sim.fault = () => null;
    seat = await bench.agent('worker', { 'acme/app': everything }, tools);
    const made = await seat.call('issue_write', { ...at, method: 'create', title: 't' }, 'code');
    assert.equal(made.isError, false, made.text);
  });
  after(() => bench.stopAll());
  /** From now on, the host does what it is asked and answers so. */
  const answers = (body: string): void => {
    bench.sim.fault = ({ operation }) =>
      operation === undefined || operation.includes('token') ? null : { kind: 'after', status: 200, body };
  };

  it('of more values, or nested deeper, than one can be is not parsed', async () => {
    const nested = (levels: number): string => `${'['.repeat(levels)}${']'.repeat(levels)}`;
    for (const body of [`[${'[],'.repeat(400_000)}0]`, nested(100), nested(1_000_000), `{"id":${nested(20_000)}}`]) {
      answers(body);
      const { text } = await seat.call('issue_read', get, 'code');
      assert.equal(text, 'too-large: the code host answered with more than can be read; ask for less');
    }
    // Fewer values than one can have, and all of them in one object.
    answers(`{"number":1,${Array.from({ length: 90_000 }, (_, n) => `"k${n}":1`).join()}}`);
    assert.match(
      (await seat.call('issue_read', get, 'code')).text,
      /^too-large: the code host answered with more than can be read/,
    );
    const entry = '{"path":"a","mode":"100644","type":"blob","sha":"b","size":1,"url":"u"},';
    answers(`{"sha":"a","tree":[${entry.repeat(25_000)}{}]}`);
    const tree = await seat.call('get_repository_tree', { ...at, tree_sha: 'main' }, 'code');
    assert.equal(tree.isError, false, tree.text.slice(0, 200));
    answers(`{"number":1,"title":"t","labels":[${'{"name":"l"},'.repeat(5_000)}{}]}`);
    assert.equal((await seat.call('issue_read', get, 'code')).isError, false);
  });

  it('to a write that is more than can be read says nothing of the write, which is looked for', async () => {
    const comments = () => bench.app.comments.map(({ body }) => body.split('\n')[0]);
    for (const [said, answer] of [
      ['long', `"${'x'.repeat(9_000_000)}"`],
      ['nested', `{"id":${'['.repeat(1_000)}${']'.repeat(1_000)}}`],
    ] as const) {
      bench.sim.fault = ({ method, path }) =>
        method === 'POST' && path.endsWith('/comments') ? { kind: 'after', status: 201, body: answer } : null;
      const { value, text } = await seat.call('add_issue_comment', { ...at, issue_number: 1, body: said }, 'code');
      assert.match(String(value['url']), /issuecomment/, text);
    }
    assert.deepEqual(comments(), ['long', 'nested']);
  });

  it('to a write that names nothing says nothing of it either: what was made is looked for', async () => {
    for (const body of ['{}', 'null', '{"id":{"a":1},"html_url":5}']) {
      bench.sim.fault = ({ method, path }) =>
        method === 'POST' && /\/(comments|issues)$/.test(path) ? { kind: 'after', status: 201, body } : null;
      const said = await seat.call('add_issue_comment', { ...at, issue_number: 1, body: `of ${body}` }, 'code');
      assert.match(String(said.value['url']), /issuecomment/, `${body} ${said.text}`);
    }
    const made = await seat.call('issue_write', { ...at, method: 'create', title: 'of nothing' }, 'code');
    assert.match(String(made.value['url']), /\/issues\/\d+$/, made.text);
  });

  it('of GraphQL that broke off says nothing of what it was about', async () => {
    bench.sim.fault = () => null;
    await bench.app.git.commit({ 'src/b.ts': 'export const b = 2;\n' }, { branch: 'topic' });
    const pull = await seat.call('create_pull_request', { ...at, title: 'B', head: 'topic', base: 'main' }, 'code');
    const message = 'Something went wrong while executing your query. Please include `AB:1` when reporting this issue.';
    const body = JSON.stringify({ data: null, errors: [{ message }] });
    const breaks = (word: string): void => {
      bench.sim.fault = ({ operation, body: asked }) =>
        operation === 'graphql' && JSON.stringify(asked).includes(word) ? { kind: 'after', status: 200, body } : null;
    };
    breaks('query');
    assert.match((await seat.call('list_issues', at, 'code')).text, /^provider-unavailable: /);
    breaks('mutation');
    const input = { ...at, pullNumber: pull.value['number'], method: 'create', event: 'COMMENT', body: 'Said.' };
    const said = await seat.call('pull_request_review_write', input, 'code');
    assert.match(String(said.value['state']), /^COMMENTED$/, said.text);
    assert.equal(bench.app.reviews.length, 1);
  });

  it('that leads elsewhere is none, where people would sign in: nothing is listed, and what was made is looked for', async () => {
    bench.sim.fault = ({ method, path }) =>
      method === 'GET' && /\/issues\/1$/.test(path)
        ? { kind: 'status', status: 302, headers: { location: '/login' } }
        : null;
    assert.equal(
      (await seat.call('issue_read', get, 'code')).text,
      'provider-unavailable: the code host did not answer as it should',
    );
    bench.sim.fault = ({ method, path }) =>
      method === 'POST' && path.endsWith('/comments') ? { kind: 'after', status: 302 } : null;
    const said = await seat.call('add_issue_comment', { ...at, issue_number: 1, body: 'led away' }, 'code');
    assert.match(String(said.value['url']), /issuecomment/, said.text);
  });

  it('that is a text is taken as it is', async () => {
    answers('+[{,'.repeat(200_000));
    const input = { ...at, pullNumber: 1, method: 'get_diff' };
    const { value, text } = await seat.call('pull_request_read', input, 'code');
    assert.equal(value['more'], true, text);
  });

  it('that is no key to seal a secret for ends the call, and nothing is written', async () => {
    bench.sim.fault = ({ path }) =>
      path.endsWith('/public-key') ? { kind: 'after', status: 200, body: '{"key_id":"1","key":"AAAA"}' } : null;
    const input = { ...at, secret_name: 'DEPLOY', value: 'v' };
    const { text } = await seat.call('set_repository_secret', input, 'code');
    assert.match(text, /^provider-unavailable: .*nothing was done$/);
    const { body } = await bench.daemon.api('GET', `P/sessions/${seat.session}/calls?limit=1`);
    assert.equal((body['items']?.[0] as unknown as { status: string } | undefined)?.status, 'refused');
  });

  it('that is a page of whatever stands before it is no list without items', async () => {
    answers('<html>Sign in</html>');
    for (const [tool, input] of [
      ['list_issues', at],
      ['list_pull_requests', at],
      ['issue_read', get],
      ['search_code', { query: 'x' }],
      ['get_file_contents', { ...at, path: 'README.md' }],
    ] as const) {
      const { text } = await seat.call(tool, input, 'code');
      assert.equal(text, 'provider-unavailable: the code host did not answer as it should', tool);
    }
  });
});

describe('what a workflow is started with', () => {
  let bench: CodehostBench;
  before(async () => {
    bench = await startCodehostBench();
  });
  after(() => bench.stopAll());

  it('are the inputs that its author named: texts, numbers and booleans, and nothing of a form that it cannot take', async () => {
    const seat = await bench.agent('starter', { 'acme/app': everything }, ['actions_run_trigger']);
    const start = (inputs: object) =>
      seat.call(
        'actions_run_trigger',
        { ...at, method: 'run_workflow', workflow_id: 'deploy.yml', ref: 'main', inputs },
        'code',
      );
    const inputs = { environment: 'prod', replicas: 3, 'dry-run': true };
    const { isError, text } = await start(inputs);
    assert.equal(isError, false, text);
    const sent = bench.sim.log.filter((one) => one.path.endsWith('/actions/workflows/deploy.yml/dispatches'));
    assert.deepEqual(
      sent.map((one) => one.body),
      [{ ref: 'main', inputs }],
    );
    for (const wrong of [{ a: { b: 1 } }, { a: [] }, { a: null }, { a: 'x\0' }])
      assert.match((await start(wrong)).text, /^invalid-input: .*inputs: /, JSON.stringify(wrong));
  });
});
