// The simulators of the providers, spoken to by the providers' official clients: what those send is taken, what they make
// of an answer is what was done, and what the published descriptions do not know is refused.

import assert from 'node:assert/strict';
import { createHash, generateKeyPairSync, type KeyObject, randomUUID, sign } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import { AuthenticationLinearError, LinearClient } from '@linear/sdk';
import { Octokit } from '@octokit/rest';
import { ErrorCode, WebClient } from '@slack/web-api';
import { chatToken, ChatSimulator } from './chat-simulator.ts';
import { CodehostSimulator } from './codehost-simulator.ts';
import { trackerKey, TrackerSimulator } from './tracker-simulator.ts';

/** What an application shows itself with. */
function appToken(key: KeyObject): string {
  const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url');
  const now = Math.floor(Date.now() / 1_000);
  const head = `${part({ alg: 'RS256', typ: 'JWT' })}.${part({ iat: now - 60, exp: now + 540, iss: '1' })}`;
  return `${head}.${sign('sha256', Buffer.from(head), key).toString('base64url')}`;
}

/** The status that a client's call is refused with. */
const refusedWith = async (call: Promise<unknown>): Promise<unknown> =>
  call.then(
    () => 'done',
    (error: unknown) => (error as { readonly status?: number }).status,
  );

describe('the code host, by its own client', () => {
  const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const at = { owner: 'acme', repo: 'app' } as const;
  let sim: CodehostSimulator;
  let app: Octokit;
  let octokit: Octokit;
  before(async () => {
    sim = await new CodehostSimulator({
      appPublicKey: publicKey.export({ type: 'spki', format: 'pem' }) as string,
    }).start();
    await sim.repository('acme/app');
    const silent = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };
    app = new Octokit({
      baseUrl: sim.origin,
      auth: appToken(privateKey),
      log: silent,
    });
    const { data } = await app.rest.apps.createInstallationAccessToken({
      ...{ installation_id: 1, repositories: ['app'] },
      permissions: { contents: 'write', issues: 'write', pull_requests: 'write', checks: 'write', statuses: 'write' },
    });
    octokit = new Octokit({ baseUrl: sim.origin, auth: data.token, log: silent });
  });
  after(() => sim.stop());

  it('goes the whole way: installation, issue, branch, file, pull request, review, check, status, merge', async () => {
    assert.equal((await app.rest.apps.getInstallation({ installation_id: 1 })).data.suspended_at, null);
    const { data: issue } = await octokit.rest.issues.create({ ...at, title: 'One', body: 'First', labels: [] });
    await octokit.rest.issues.createComment({ ...at, issue_number: issue.number, body: 'Said' });
    const comments = await octokit.paginate(octokit.rest.issues.listComments, { ...at, issue_number: issue.number });
    assert.deepEqual(
      comments.map(({ body, user }) => [body, user?.login]),
      [['Said', 'svc-app[bot]']],
    );
    await octokit.rest.issues.update({ ...at, issue_number: issue.number, state: 'closed', state_reason: 'completed' });
    assert.equal((await octokit.rest.issues.get({ ...at, issue_number: issue.number })).data.state, 'closed');

    const { data: main } = await octokit.rest.git.getRef({ ...at, ref: 'heads/main' });
    await octokit.rest.git.createRef({ ...at, ref: 'refs/heads/topic', sha: main.object.sha });
    const content = Buffer.from('hello\n').toString('base64');
    const file = { ...at, path: 'docs/new.md', branch: 'topic', message: 'Add a page', content };
    const { data: put } = await octokit.rest.repos.createOrUpdateFileContents(file);
    const { data: got } = await octokit.rest.repos.getContent({ ...at, path: 'docs/new.md', ref: 'topic' });
    const blob = createHash('sha1').update('blob 6\0hello\n').digest('hex');
    assert.equal((got as { readonly sha: string }).sha, blob);

    const { data: pull } = await octokit.rest.pulls.create({ ...at, title: 'A page', head: 'topic', base: 'main' });
    assert.equal(pull.head.sha, put.commit.sha);
    const { data: files } = await octokit.rest.pulls.listFiles({ ...at, pull_number: pull.number });
    assert.deepEqual(
      files.map(({ filename, status }) => [filename, status]),
      [['docs/new.md', 'added']],
    );
    const review = { ...at, pull_number: pull.number, event: 'COMMENT' as const, body: 'Fine' };
    assert.equal((await octokit.rest.pulls.createReview(review)).data.state, 'COMMENTED');
    const head = pull.head.sha;
    const { data: check } = await octokit.rest.checks.create({
      ...at,
      name: 'Lint',
      head_sha: head,
      status: 'in_progress',
    });
    const done = { status: 'completed', conclusion: 'success', output: { title: 'Good', summary: 'All' } } as const;
    await octokit.rest.checks.update({ ...at, check_run_id: check.id, ...done });
    const { data: runs } = await octokit.rest.checks.listForRef({ ...at, ref: head });
    assert.deepEqual(
      runs.check_runs.map(({ name, conclusion }) => [name, conclusion]),
      [['Lint', 'success']],
    );
    await octokit.rest.repos.createCommitStatus({ ...at, sha: head, state: 'success', context: 'svc/default/fleet' });
    assert.equal((await octokit.rest.repos.getCombinedStatusForRef({ ...at, ref: head })).data.state, 'success');
    const merged = await octokit.rest.pulls.merge({
      ...at,
      pull_number: pull.number,
      sha: head,
      merge_method: 'squash',
    });
    assert.equal(merged.data.merged, true);
    assert.deepEqual(sim.schemaRefusals, []);
  });

  it('answers queries, and refuses what its descriptions do not know', async () => {
    const { viewer } = await octokit.graphql<{ readonly viewer: { readonly login: string } }>('{ viewer { login } }');
    assert.equal(viewer.login, 'svc-app[bot]');
    assert.notEqual(await refusedWith(octokit.graphql('{ viewer { nothing } }')), 'done');
    const post = 'POST /repos/{owner}/{repo}/issues';
    assert.equal(await refusedWith(octokit.request(post, { ...at, title: 'x', nothing: 1 } as never)), 400);
    assert.equal(await refusedWith(octokit.request(post, { ...at, title: ['x'] } as never)), 400);
    const list = { ...at, state: 'neither' } as never;
    assert.equal(await refusedWith(octokit.request('GET /repos/{owner}/{repo}/issues', list)), 400);
    assert.equal(await refusedWith(octokit.request('GET /repos/{owner}/{repo}/secret-scanning/alerts', at)), 404);
    assert.equal(await refusedWith(octokit.rest.actions.listRepoSecrets(at)), 403, 'the token has no such permission');
  });
});

describe('the chat provider, by its own client', () => {
  let sim: ChatSimulator;
  let client: WebClient;
  before(async () => {
    sim = await new ChatSimulator().start();
    const slackApiUrl = `${sim.url}/`;
    client = new WebClient(chatToken, { slackApiUrl, retryConfig: { retries: 0 }, rejectRateLimitedCalls: true });
  });
  after(() => sim.stop());

  it('is told who it is, posts, reads and reacts', async () => {
    assert.equal((await client.auth.test()).user_id, 'U-BOT');
    const channel = 'C1';
    sim.channels.set(channel, []);
    const metadata = { event_type: 'svc_message', event_payload: { key: randomUUID() } };
    const posted = await client.chat.postMessage({ channel, text: 'hello', metadata });
    const ts = String(posted.ts);
    await client.chat.postMessage({ channel, text: 'and more', thread_ts: ts });
    const history = await client.conversations.history({ channel, limit: 10, include_all_metadata: true });
    assert.equal(history.messages?.find((one) => one.ts === ts)?.text, 'hello');
    assert.deepEqual(history.messages?.find((one) => one.ts === ts)?.metadata, metadata);
    const replies = await client.conversations.replies({ channel, ts });
    assert.deepEqual(
      replies.messages?.map(({ text }) => text),
      ['hello', 'and more'],
    );
    assert.equal((await client.reactions.add({ channel, timestamp: ts, name: 'eyes' })).ok, true);
    const again = await client.reactions.add({ channel, timestamp: ts, name: 'eyes' }).catch((error: unknown) => error);
    assert.equal((again as { readonly data: { readonly error: string } }).data.error, 'already_reacted');
  });

  it('refuses what the reference does not know, a foreign token, and calls over its limit', async () => {
    const code = async (call: Promise<unknown>): Promise<unknown> =>
      call.then(
        () => 'done',
        (error: unknown) => (error as { readonly code: string }).code,
      );
    assert.equal(
      await code(client.apiCall('chat.postMessage', { channel: 'C1', text: 'x', nothing: 1 })),
      ErrorCode.HTTPError,
    );
    assert.equal(await code(client.apiCall('chat.nothing')), ErrorCode.HTTPError);
    const foreign = new WebClient('xoxb-another', { slackApiUrl: `${sim.url}/`, retryConfig: { retries: 0 } });
    assert.equal(await code(foreign.auth.test()), ErrorCode.PlatformError);
    sim.fail('auth.test', 'limited');
    assert.equal(await code(client.auth.test()), ErrorCode.RateLimitedError);
  });
});

describe('the tracker, by its own client', () => {
  let sim: TrackerSimulator;
  let client: LinearClient;
  before(async () => {
    sim = await new TrackerSimulator().start();
    client = new LinearClient({ apiKey: trackerKey, apiUrl: `${sim.url}/graphql` });
  });
  after(() => sim.stop());

  it('comments on and changes an issue as the client writes it', async () => {
    const [issue] = sim.issues;
    const id = randomUUID();
    const said = await client.createComment({ id, issueId: String(issue?.id), body: 'Said' });
    assert.deepEqual([said.success, said.commentId], [true, id]);
    const changed = await client.updateIssue('ABC-1', { stateId: 's-done', priority: 2 });
    assert.deepEqual([changed.success, changed.issueId], [true, issue?.id]);
    assert.deepEqual([issue?.state.name, issue?.priority], ['Done', 2]);
    const query =
      'query ($id: String!) { issue(id: $id) { identifier state { name } comments { nodes { id body } } } }';
    const { data } = await client.client.rawRequest(query, { id: 'ABC-1' });
    const nodes = [{ id, body: 'Said' }];
    assert.deepEqual(data, { issue: { identifier: 'ABC-1', state: { name: 'Done' }, comments: { nodes } } });
  });

  it('reads issues, comments, a search and its person as the client reads them', async () => {
    const issue = await client.issue('ABC-2');
    assert.deepEqual([issue.identifier, issue.title, issue.priority, issue.labelIds], ['ABC-2', 'Issue 2', 0, []]);
    assert.deepEqual([issue.stateId, issue.teamId, issue.assigneeId], ['s-todo', 'team-1', undefined]);
    assert.ok(issue.createdAt instanceof Date);
    const id = randomUUID();
    await client.createComment({ id, issueId: issue.id, body: 'Read me' });
    const comment = await client.comment({ id });
    assert.deepEqual([comment.body, comment.issueId, comment.userId], ['Read me', issue.id, 'u1']);
    assert.deepEqual([(await client.viewer).id, (await client.viewer).email], ['u2', 'u2@acme.example']);
    const found = await client.searchIssues('issue', { first: 1 });
    assert.deepEqual([found.nodes.map((one) => one.identifier), found.pageInfo.hasNextPage], [['ABC-1'], true]);
    await assert.rejects(client.issue('ABC-9'), /Entity not found/);
  });

  it('refuses unknown fields and arguments, and a foreign key', async () => {
    const refused = async (query: string): Promise<boolean> =>
      client.client.rawRequest(query).then(
        () => false,
        () => true,
      );
    assert.ok(await refused('{ viewer { nothing } }'));
    assert.ok(await refused('{ issue(number: 1) { id } }'));
    assert.ok(await refused('mutation { commentCreate(input: { text: "x" }) { success } }'));
    const foreign = new LinearClient({ apiKey: 'lin_api_another', apiUrl: `${sim.url}/graphql` });
    await assert.rejects(foreign.createComment({ issueId: 'ABC-1', body: 'x' }), AuthenticationLinearError);
  });
});
