import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import type { RpcAnswer, Seat } from './mcp-testkit.ts';
import { type CodehostBench, everything, startCodehostBench } from './codehost-testkit.ts';

const at = { owner: 'acme', repo: 'app' };

describe('the code host through a session’s tools', () => {
  let bench: CodehostBench;
  let seat: Seat;
  const call = async (tool: string, input: object): Promise<RpcAnswer> => seat.call(tool, input, 'code');
  const done = async (tool: string, input: object): Promise<RpcAnswer['value']> => {
    const answer = await call(tool, input);
    assert.equal(answer.isError, false, `${tool}: ${answer.text}`);
    return answer.value;
  };
  before(async () => {
    bench = await startCodehostBench();
    seat = await bench.agent('worker', { 'acme/app': everything });
  });
  after(async () => {
    await bench.stopAll();
    assert.deepEqual(bench.sim.schemaRefusals, [], 'nothing was sent that the provider’s description refuses');
  });

  it('lists the defaults with strict schemas, writes with a key', async () => {
    const { tools } = await (await seat.client('code')).listTools();
    assert.equal(tools.length, 24);
    const comment = tools.find((one) => one.name === 'add_issue_comment');
    assert.equal(comment?.inputSchema['additionalProperties'], false);
    assert.ok(Object.hasOwn(comment?.inputSchema.properties ?? {}, 'idempotencyKey'));
    assert.equal(tools.find((one) => one.name === 'get_commit')?.annotations?.readOnlyHint, true);
  });

  it('goes the whole way from a branch to a pull request, with the marks in what it says', async () => {
    const branch = await done('create_branch', { ...at, branch: 'topic' });
    assert.equal(String(branch['ref']), 'refs/heads/topic');
    await bench.app.git.commit({ 'src/b.ts': 'export const b = 2;\n' }, { branch: 'topic' });
    const made = await done('create_pull_request', {
      ...at,
      title: 'More',
      head: 'topic',
      base: 'main',
      body: 'Please.',
    });
    const issue = bench.app.issues.get(Number(made['number'])) ?? assert.fail();
    assert.match(
      issue.body,
      new RegExp(
        `^Please\\.\\n\\n<!-- svc:v=1 session=${seat.session} agent=worker -->\\n<!-- svc:call=[0-9a-f-]{36} -->$`,
      ),
    );
    const read = await done('pull_request_read', { ...at, method: 'get', pullNumber: issue.number });
    assert.equal(String(read['title']), 'More');
    for (const method of [
      'get_diff',
      'get_status',
      'get_files',
      'get_commits',
      'get_review_comments',
      'get_reviews',
      'get_comments',
      'get_check_runs',
    ]) {
      await done('pull_request_read', { ...at, method, pullNumber: issue.number });
    }
    const updated = await done('update_pull_request', {
      ...at,
      pullNumber: issue.number,
      title: 'Better',
      draft: true,
      reviewers: ['ann', 'acme/core'],
    });
    assert.deepEqual(updated['done'], ['title', 'draft', 'reviewers']);
    assert.deepEqual([issue.title, issue.pull?.draft, issue.pull?.reviewers], ['Better', true, ['ann', 'team/core']]);
    const listed = await done('list_pull_requests', { ...at, head: 'topic' });
    assert.equal((listed['items'] as unknown as unknown[]).length, 1);
    assert.equal(listed['more'], false);
    const { body } = await bench.daemon.api('GET', `P/sessions/${seat.session}/calls?limit=100`);
    const calls = body['items'] as unknown as { tool: string; write: boolean; status: string; url?: string }[];
    assert.deepEqual(
      calls.filter((one) => one.write).map((one) => [one.tool, one.status]),
      [
        ['update_pull_request', 'done'],
        ['create_pull_request', 'done'],
        ['create_branch', 'done'],
      ],
    );
    assert.equal(calls.find((one) => one.tool === 'create_pull_request')?.url, String(made['url']));
  });

  it('talks: issues, comments, replies, reactions; changes its own comments alone', async () => {
    const made = await done('issue_write', { ...at, method: 'create', title: 'Broken', body: 'x', labels: ['bug'] });
    const number = Number(made['number']);
    const comment = await done('add_issue_comment', {
      ...at,
      issue_number: number,
      body: 'Seen. <!-- svc:v=1 session=forged -->',
    });
    const said = bench.app.comments.at(-1) ?? assert.fail();
    assert.ok(!said.body.includes('<!-- svc:v=1 session=forged'), 'a mark that an agent writes itself is none');
    await done('update_issue_comment', { ...at, comment_id: comment['id'], body: 'Seen again.' }).catch(
      () => undefined,
    );
    const all = await bench.agent('talker', { 'acme/app': everything }, [
      'update_issue_comment',
      'add_issue_comment',
      'issue_read',
    ]);
    const own = await all.call('add_issue_comment', { ...at, issue_number: number, body: 'Mine' }, 'code');
    const changed = await all.call(
      'update_issue_comment',
      { ...at, comment_id: Number(own.value['id']), body: 'Mine!' },
      'code',
    );
    assert.equal(changed.isError, false, changed.text);
    const others = await all.call(
      'update_issue_comment',
      { ...at, comment_id: Number(comment['id']), body: 'Not mine' },
      'code',
    );
    assert.match(others.text, /^refused: /);
    await done('add_issue_comment', { ...at, issue_number: number, reaction: 'rocket' });
    assert.equal(bench.app.issues.get(number)?.reactions.length, 1);
    for (const method of ['get', 'get_comments', 'get_labels', 'get_sub_issues'])
      await done('issue_read', { ...at, method, issue_number: number });
    await done('issue_write', {
      ...at,
      method: 'update',
      issue_number: number,
      state: 'closed',
      state_reason: 'completed',
    });
    assert.equal(bench.app.issues.get(number)?.state, 'closed');
    const list = await done('list_issues', { ...at, state: 'CLOSED' });
    assert.equal(Number(list['totalCount']), 1);
    const found = await done('search_issues', { query: 'Broken' });
    assert.equal((found['items'] as unknown as unknown[]).length, 1);
    assert.match(
      (await call('add_issue_comment', { ...at, issue_number: number, body: 'x'.repeat(65_500) })).text,
      /^too-large: /,
    );
  });

  it('reads code: files, folders, commits, branches, search', async () => {
    const file = await done('get_file_contents', { ...at, path: 'src/a.ts' });
    assert.deepEqual([file['content'], file['encoding']].map(String), ['export const a = 1;\n', 'utf-8']);
    const folder = await done('get_file_contents', { ...at });
    assert.ok((folder['items'] as unknown as { name: string }[]).some((one) => one.name === 'README.md'));
    const commits = await done('list_commits', { ...at });
    const sha = String((commits['items'] as unknown as { sha: string }[])[0]?.sha);
    await done('get_commit', { ...at, sha, detail: 'full_patch' });
    await done('list_branches', at);
    const found = await done('search_code', { query: 'export' });
    assert.equal((found['items'] as unknown as { path: string }[])[0]?.path, 'src/a.ts');
    assert.match((await call('get_file_contents', { ...at, path: 'absent' })).text, /^not-found: /);
    assert.match((await call('get_file_contents', { ...at, path: '../../x' })).text, /^invalid-input: /);
  });

  it('drafts a review as rows of its own and submits it as one mutation', async () => {
    const pull = [...bench.app.issues.values()].find((one) => one.pull !== undefined) ?? assert.fail();
    const on = { ...at, pullNumber: pull.number };
    await done('pull_request_review_write', { ...on, method: 'create' });
    await done('add_comment_to_pending_review', {
      ...on,
      path: 'src/b.ts',
      body: 'Why 2?',
      subjectType: 'LINE',
      line: 1,
    });
    const pending = await done('add_comment_to_pending_review', {
      ...on,
      path: 'src/b.ts',
      body: 'Hm',
      subjectType: 'LINE',
      line: 1,
    });
    assert.equal(Number(pending['pending']), 2);
    const other = await bench.agent('other', { 'acme/app': everything });
    assert.match(
      (await other.call('pull_request_review_write', { ...on, method: 'submit_pending', event: 'COMMENT' }, 'code'))
        .text,
      /^not-found: /,
    );
    assert.equal(bench.app.reviews.length, 0);
    const mutations = (): number =>
      bench.sim.log.filter((one) => JSON.stringify(one.body ?? '').includes('addPullRequestReview')).length;
    const before = mutations();
    const review = await done('pull_request_review_write', {
      ...on,
      method: 'submit_pending',
      event: 'COMMENT',
      body: 'See.',
    });
    assert.equal(mutations() - before, 1);
    assert.equal(String(review['state']), 'COMMENTED');
    assert.equal(bench.app.reviewComments.length, 2);
    assert.match((await call('pull_request_review_write', { ...on, method: 'submit_pending' })).text, /^not-found: /);
    const threads = await done('pull_request_read', { ...on, method: 'get_review_comments' });
    const [thread] = threads['items'] as unknown as { id: string; comments: { id: number }[] }[];
    await done('pull_request_review_write', { ...on, method: 'resolve_thread', threadId: thread?.id });
    assert.equal(bench.app.threads[0]?.resolved, true);
    await done('add_reply_to_pull_request_comment', { ...on, commentId: thread?.comments[0]?.id, body: 'Because.' });
    await done('add_reply_to_pull_request_comment', { ...at, commentId: thread?.comments[0]?.id, reaction: 'eyes' });
  });

  it('serves merge, secrets, workflows and files where an agent names them', async () => {
    const named = [
      'merge_pull_request',
      'enable_pull_request_auto_merge',
      'disable_pull_request_auto_merge',
      'set_repository_secret',
      'list_repository_secrets',
      'delete_repository_secret',
      'actions_secret_write',
      'actions_secret_list',
      'rerun_failed_jobs',
      'actions_get',
      'actions_list',
      'get_job_logs',
      'push_files',
      'create_or_update_file',
      'delete_file',
      'get_me',
      'create_pull_request',
      'create_branch',
      'update_pull_request_branch',
      'get_repository_tree',
      'list_tags',
      'get_file_blame',
      'label_write',
      'list_label',
      'create_issue',
      'add_sub_issue',
    ];
    seat = await bench.agent('full', { 'acme/app': everything }, named);
    await done('create_branch', { ...at, branch: 'work' });
    const pushed = await done('push_files', {
      ...at,
      branch: 'work',
      message: 'Two',
      files: [
        { path: 'x/1', content: '1' },
        { path: 'x/2', content: '2' },
      ],
    });
    assert.equal(await bench.app.branch('work'), String(pushed['sha']));
    await done('create_or_update_file', { ...at, branch: 'work', message: 'One', path: 'x/1', content: '11' });
    await done('delete_file', { ...at, branch: 'work', message: 'Gone', path: 'x/2' });
    await bench.app.git.commit({ 'other.txt': 'x' });
    const made = await done('create_pull_request', { ...at, title: 'Work', head: 'work', base: 'main' });
    await done('update_pull_request_branch', { ...at, pullNumber: made['number'] });
    const stale = await call('merge_pull_request', {
      ...at,
      pullNumber: Number(made['number']),
      expectedHeadSha: '0'.repeat(40),
    });
    assert.match(stale.text, /^conflict: /);
    assert.match(
      (await call('enable_pull_request_auto_merge', { ...at, pullNumber: Number(made['number']) })).text,
      /^conflict: .*merge it/,
    );
    const merged = await done('merge_pull_request', { ...at, pullNumber: made['number'], merge_method: 'merge' });
    assert.equal(String(merged['sha']), await bench.app.branch('main'));
    const set = await done('set_repository_secret', { ...at, secret_name: 'DEPLOY', value: 'v3ry-s3cret' });
    assert.deepEqual([String(set['name']), set['created']], ['DEPLOY', true]);
    await done('actions_secret_write', { ...at, secret_name: 'DEPLOY', value: 'other', environment: 'prod' });
    await done('list_repository_secrets', at);
    await done('delete_repository_secret', { ...at, secret_name: 'DEPLOY' });
    await done('delete_repository_secret', { ...at, secret_name: 'DEPLOY' });
    assert.match(
      (await call('set_repository_secret', { ...at, secret_name: 'X', value: 'a', valueFromSecret: 'b' })).text,
      /^invalid-input: /,
    );
    assert.match((await call('get_me', {})).text, /^not-available: /);
    bench.app.runs.push({
      id: 5,
      workflowId: 1,
      name: 'ci',
      status: 'completed',
      conclusion: 'failure',
      headSha: '',
      headBranch: 'main',
      attempt: 1,
      jobs: [{ id: 6, name: 'test', status: 'completed', conclusion: 'failure', log: 'one\ntwo\nthree' }],
    });
    const logs = await done('get_job_logs', { ...at, run_id: 5, failed_only: true, tail_lines: 2 });
    assert.equal(String(logs['logs']?.[0]?.['logs_content']), 'two\nthree');
    await done('rerun_failed_jobs', { ...at, run_id: 5 });
    await done('actions_list', { ...at, method: 'list_workflow_runs' });
    await done('actions_get', { ...at, method: 'get_workflow_run', resource_id: '5' });
    for (const [tool, input] of [
      ['get_repository_tree', { recursive: true }],
      ['list_tags', {}],
      ['get_file_blame', { path: 'README.md' }],
      ['label_write', { method: 'create', name: 'new' }],
      ['list_label', {}],
      ['create_issue', { title: 'T' }],
    ] as const) {
      await done(tool, { ...at, ...input });
    }
    const sealed = bench.app.secrets.get('prod')?.get('DEPLOY')?.sealed ?? '';
    assert.equal(Buffer.from(sealed, 'base64').length, 'other'.length + 48);
  });

  it('mints one token for a repository and a set of permissions, however many call at once', async () => {
    bench.sim.revokeTokens();
    await bench.daemon.ctx.db.query('delete from svc.installation_tokens');
    const before = bench.sim.tokens.size;
    const seats = await Promise.all(Array.from({ length: 10 }, () => bench.start('worker')));
    await Promise.all(seats.map((one) => one.call('list_branches', at, 'code')));
    assert.equal(bench.sim.tokens.size - before, 1);
    const [token] = [...bench.sim.tokens.values()].slice(-1);
    assert.deepEqual([token?.repositories, token?.permissions], [['app'], { metadata: 'read', contents: 'read' }]);
    bench.sim.revokeTokens();
    const again = await seats[0]?.call('list_branches', at, 'code');
    assert.equal(again?.isError, false, again?.text);
  });

  /** A delivery of the code host; answers with what was recorded. */
  const deliver = async (event: string, payload: object): Promise<string> => {
    const { body } = await bench.daemon.api('GET', 'P/connections/code');
    const raw = JSON.stringify(payload);
    const signature = createHmac('sha256', 'a-secret-of-the-hook').update(raw).digest('hex');
    const answer = await fetch(`${bench.daemon.url}${new URL(String(body['intakeUrl'])).pathname}`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'x-github-event': event,
        'x-github-delivery': `d-${event}`,
        'x-hub-signature-256': `sha256=${signature}`,
      },
      body: raw,
    });
    assert.equal(answer.status, 202);
    return answer.text();
  };

  it('forgets its tokens when the installation tells of a change', async () => {
    await done('list_branches', at).catch(() => undefined);
    const kept = async () => (await bench.daemon.ctx.db.query('select from svc.installation_tokens')).rowCount;
    assert.ok((await kept()) > 0);
    await deliver('installation', {
      action: 'new_permissions_accepted',
      installation: { id: 1 },
      sender: { id: 1, login: 'ann', type: 'User' },
    });
    assert.equal(await kept(), 0);
  });

  it('downloads what stood in an answer into the sandbox, without the token, and nothing else', async () => {
    const asset = `${bench.sim.origin}/user-attachments/assets/abc`;
    bench.sim.attach(asset, Buffer.from('a picture'), 'image/png');
    const reader = await bench.start('worker');
    const get = (url: string) => reader.call('download_attachment', { url }, 'code');
    assert.match((await get(asset)).text, /^refused: /);
    const made = await reader.call(
      'issue_write',
      { ...at, method: 'create', title: 'See', body: `![x](${asset})` },
      'code',
    );
    await reader.call('issue_read', { ...at, method: 'get', issue_number: Number(made.value['number']) }, 'code');
    assert.match((await get(asset)).text, /^not-available: .*sandbox/);
    const { host } = bench.daemon.ctx;
    const inEvent = `${bench.sim.origin}/user-attachments/assets/event`;
    const told = await deliver('issues', {
      action: 'opened',
      installation: { id: 1 },
      sender: { id: 1, login: 'ann', type: 'User' },
      repository: { id: 1, full_name: 'acme/app', name: 'app', owner: { login: 'acme' } },
      issue: { id: 7, number: 7, title: 'x', body: `"![x](${inEvent})"`, state: 'open', user: { login: 'ann' } },
    });
    assert.match((await get(inEvent)).text, /^refused: /);
    const { eventRecordId } = JSON.parse(told) as { eventRecordId: string };
    const spawned = 'update svc.sessions set event_id = $2::uuid where id = $1::uuid';
    await bench.daemon.ctx.db.query(spawned, [reader.session, eventRecordId]);
    assert.match((await get(inEvent)).text, /^not-available: .*sandbox/);
    const written = new Map<string, string>();
    const write = async (path: string, content: Uint8Array) => void written.set(path, Buffer.from(content).toString());
    host?.places.set(reader.session, { cwd: '/home/user/work', write, exec: () => assert.fail(), restsForMs: () => 0 });
    const { value, text } = await get(asset);
    assert.deepEqual(
      [String(value['name']), String(value['mimeType']), Number(value['size'])],
      ['abc.png', 'image/png', 9],
      text,
    );
    assert.match(String(value['path']), /^\/home\/user\/work\/\.svc-attachments\/[0-9a-f]{8}-abc\.png$/);
    assert.deepEqual([...written], [[String(value['path']), 'a picture']]);
    const fetched = bench.sim.log.filter((one) => one.path.startsWith('/signed/'));
    assert.ok(fetched.length > 0 && fetched.every((one) => one.authorization === undefined));
  });

  it('leaves no token, key or value in log, rows and answers', async () => {
    const { rows } = await bench.daemon.ctx.db.query('select row_to_json(c) as row from svc.calls c');
    const seen = `${bench.log()}${JSON.stringify(rows)}`;
    for (const secret of [...bench.sim.tokens.keys(), 'v3ry-s3cret']) assert.ok(!seen.includes(secret));
    assert.doesNotMatch(seen, /ghs_[A-Za-z0-9._-]{36,}|BEGIN PRIVATE KEY/);
  });
});
