// The simulated code host's REST answers about pull requests and their reviews.

import { type SimAnswer, type Call, type Handler, paged, r, reactTo } from './codehost-call.ts';
import { commentOf, issueOf, newIssue, showComment, showIssue, since, text, userOf, web } from './codehost-issues.ts';
import { ApiRefusal, type Comment, invalid, type Issue, notFound, type SimRepository } from './codehost-state.ts';

export function pullOf(call: Call): Issue {
  const found = issueOf(call, 'pull_number');
  if (found.pull === undefined) throw notFound();
  return found;
}
export const showPull = async (repo: SimRepository, issue: Issue) => {
  const { pull } = issue;
  if (pull === undefined) throw notFound();
  const sha = await repo.headOf(issue);
  return {
    ...showIssue(repo, issue),
    node_id: `PR_${issue.id}`,
    draft: pull.draft,
    merged: pull.merged,
    mergeable: pull.mergeable,
    mergeable_state: pull.draft ? 'draft' : 'clean',
    merge_commit_sha: pull.mergeSha ?? null,
    auto_merge: pull.autoMerge === null ? null : { merge_method: pull.autoMerge },
    requested_reviewers: pull.reviewers.filter((one) => !one.includes('/')).map((login) => ({ login })),
    requested_teams: pull.reviewers.filter((one) => one.startsWith('team/')).map((one) => ({ slug: one.slice(5) })),
    head: {
      ref: pull.head,
      label: `${repo.owner}:${pull.head}`,
      sha,
      repo: { full_name: pull.fork === true ? 'stranger/app' : repo.fullName },
    },
    base: { ref: pull.base, sha: (await repo.branch(pull.base)) ?? '', repo: { full_name: repo.fullName } },
  };
};

async function makePull(call: Call): Promise<SimAnswer> {
  const { repo, body, sim, actor } = call;
  const head = text(body['head']).replace(`${repo.owner}:`, '');
  const base = text(body['base']);
  const [headSha, baseSha] = [await repo.branch(head), await repo.branch(base)];
  if (headSha === undefined || baseSha === undefined)
    throw invalid(`${headSha === undefined ? 'head' : 'base'} invalid`);
  if (headSha === baseSha) throw invalid(`No commits between ${base} and ${head}`);
  const isThere = [...repo.issues.values()].some(
    (one) => one.state === 'open' && one.pull?.head === head && one.pull.base === base,
  );
  if (isThere) throw invalid(`A pull request already exists for ${repo.owner}:${head}.`);
  const issue = newIssue(call, { title: text(body['title']), body: text(body['body']) });
  issue.pull = {
    head,
    base,
    draft: body['draft'] === true,
    merged: false,
    autoMerge: null,
    reviewers: [],
    mergeable: true,
  };
  repo.issues.set(issue.number, issue);
  const shown = await showPull(repo, issue);
  sim.happened(
    'pull_request',
    { action: 'opened', number: issue.number, pull_request: shown, sender: userOf(actor) },
    repo,
  );
  return { status: 201, body: shown };
}

async function listPulls({ repo, query }: Call): Promise<SimAnswer> {
  const state = query.get('state') ?? 'open';
  const found = [...repo.issues.values()].filter(
    ({ pull, state: own }) =>
      pull !== undefined &&
      (state === 'all' || own === state) &&
      (query.get('base') ?? pull.base) === pull.base &&
      [pull.head, `${repo.owner}:${pull.head}`].includes(query.get('head') ?? pull.head),
  );
  return paged(query, await Promise.all(found.toReversed().map((one) => showPull(repo, one))));
}

async function changePull(call: Call): Promise<SimAnswer> {
  const { repo, body } = call;
  const issue = pullOf(call);
  if (typeof body['title'] === 'string') issue.title = body['title'];
  if (typeof body['body'] === 'string') issue.body = body['body'];
  if (body['state'] === 'open' || body['state'] === 'closed') issue.state = body['state'];
  if (typeof body['base'] === 'string' && issue.pull !== undefined) {
    if ((await repo.branch(body['base'])) === undefined) throw invalid('base invalid');
    issue.pull.base = body['base'];
  }
  return { body: await showPull(repo, issue) };
}

/** A merge of two commits, without a work tree. */
export async function mergeCommits(repo: SimRepository, base: string, head: string, message: string) {
  const tree = await repo.git.git(['merge-tree', '--write-tree', base, head]).catch(() => {
    throw new ApiRefusal(405, 'Pull Request is not mergeable');
  });
  return repo.git.git(['commit-tree', tree, '-p', base, '-p', head, '-m', message]);
}

async function merge(call: Call): Promise<SimAnswer> {
  const { repo, body, actor, sim } = call;
  const issue = pullOf(call);
  const { pull } = issue;
  if (pull === undefined) throw notFound();
  const head = await repo.headOf(issue);
  if (pull.merged || issue.state === 'closed') throw new ApiRefusal(405, 'Pull Request is not mergeable');
  if (typeof body['sha'] === 'string' && body['sha'] !== head) {
    throw new ApiRefusal(409, 'Head branch was modified. Review and try the merge again.');
  }
  if (pull.draft || pull.mergeable === false) throw new ApiRefusal(405, 'Pull Request is not mergeable');
  const base = (await repo.branch(pull.base)) ?? '';
  const sha = await mergeCommits(repo, base, head, text(body['commit_title'], `Merge #${issue.number}`));
  await repo.git.git(['update-ref', `refs/heads/${pull.base}`, sha]);
  Object.assign(pull, { merged: true, mergeSha: sha, headSha: head });
  issue.state = 'closed';
  const shown = await showPull(repo, issue);
  sim.happened(
    'pull_request',
    { action: 'closed', number: issue.number, pull_request: shown, sender: userOf(actor) },
    repo,
  );
  return { body: { sha, merged: true, message: 'Pull Request successfully merged' } };
}

async function updateBranch(call: Call): Promise<SimAnswer> {
  const { repo, body } = call;
  const issue = pullOf(call);
  const head = await repo.headOf(issue);
  if (typeof body['expected_head_sha'] === 'string' && body['expected_head_sha'] !== head) {
    throw invalid('expected_head_sha does not match');
  }
  const base = (await repo.branch(issue.pull?.base ?? '')) ?? '';
  const sha = await mergeCommits(repo, head, base, 'Merge the base');
  await repo.git.git(['update-ref', `refs/heads/${issue.pull?.head ?? ''}`, sha]);
  return { status: 202, body: { message: 'Updating pull request branch.' } };
}

async function pullFiles({ repo, query, ...call }: Call): Promise<SimAnswer> {
  const issue = pullOf({ repo, query, ...call });
  const base = (await repo.branch(issue.pull?.base ?? '')) ?? '';
  const out = await repo.git.git(['diff', '--name-status', '--no-renames', `${base}...${await repo.headOf(issue)}`]);
  const words: { readonly [letter: string]: string } = { A: 'added', M: 'modified', D: 'removed' };
  const files = out
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => ({ filename: line.slice(2), status: words[line[0] ?? ''] ?? 'changed' }));
  return paged(query, files);
}

function request(call: Call): Promise<SimAnswer> {
  const { body, repo } = call;
  const issue = pullOf(call);
  const teams = ((body['team_reviewers'] ?? []) as string[]).map((one) => `team/${one}`);
  const people = ((body['reviewers'] ?? []) as string[]).map(
    (one) => repo.people.find((name) => name.toLowerCase() === one.toLowerCase()) ?? one,
  );
  for (const one of [...people, ...teams]) {
    if (one === issue.user.login) throw invalid('Review cannot be requested from pull request author.');
    if (issue.pull?.reviewers.includes(one) === false) issue.pull.reviewers.push(one);
  }
  return showPull(repo, issue).then((shown) => ({ status: 201, body: shown }));
}

async function getPull(call: Call): Promise<SimAnswer> {
  const issue = pullOf(call);
  if (!/diff/.test(call.accept)) return { body: await showPull(call.repo, issue) };
  const base = (await call.repo.branch(issue.pull?.base ?? '')) ?? '';
  return { text: await call.repo.git.git(['diff', `${base}...${await call.repo.headOf(issue)}`]) };
}

function reply(call: Call): SimAnswer {
  const { repo, body, sim, actor } = call;
  const first = commentOf(call, 'reviewComments');
  const made: Comment = {
    ...first,
    id: sim.nextId(),
    user: actor,
    created: sim.time(),
    reactions: [],
    body: text(body['body']),
    inReplyTo: first.id,
  };
  repo.reviewComments.push(made);
  return { status: 201, body: showComment(repo, made, 'discussion_r') };
}

async function commentOnPull(call: Call): Promise<SimAnswer> {
  const { repo, body, sim, actor } = call;
  const issue = pullOf(call);
  const threadId = sim.nextId();
  repo.threads.push({ id: threadId, number: issue.number, path: text(body['path']), resolved: false });
  const made: Comment = {
    id: sim.nextId(),
    number: issue.number,
    user: actor,
    created: sim.time(),
    reactions: [],
    body: text(body['body']),
    path: text(body['path']),
    line: (body['line'] as number | undefined) ?? null,
    threadId,
  };
  repo.reviewComments.push(made);
  return { status: 201, body: showComment(repo, made, 'discussion_r') };
}

async function makeReview(call: Call): Promise<SimAnswer> {
  const { repo, body, sim, actor } = call;
  const issue = pullOf(call);
  const states: { readonly [event: string]: string } = { APPROVE: 'APPROVED', REQUEST_CHANGES: 'CHANGES_REQUESTED' };
  const review = {
    id: sim.nextId(),
    number: issue.number,
    user: actor,
    body: text(body['body']),
    state: states[text(body['event'])] ?? 'COMMENTED',
    commitId: text(body['commit_id'], await repo.headOf(issue)),
    at: sim.time(),
  };
  repo.reviews.push(review);
  return { body: showReview(repo, review) };
}

export const showReview = (repo: SimRepository, review: SimRepository['reviews'][number]) => ({
  id: review.id,
  node_id: `PRR_${review.id}`,
  body: review.body,
  state: review.state,
  user: userOf(review.user),
  commit_id: review.commitId,
  submitted_at: review.at,
  html_url: `${web(repo)}/pull/${review.number}#pullrequestreview-${review.id}`,
});

export const pullHandlers: { readonly [operation: string]: Handler } = {
  [`GET ${r}/pulls`]: listPulls,
  [`POST ${r}/pulls`]: makePull,
  [`GET ${r}/pulls/{pull_number}`]: getPull,
  [`PATCH ${r}/pulls/{pull_number}`]: changePull,
  [`GET ${r}/pulls/{pull_number}/files`]: pullFiles,
  [`GET ${r}/pulls/{pull_number}/reviews`]: (call) => {
    const { number } = pullOf(call);
    const found = call.repo.reviews.filter((one) => one.number === number);
    return paged(
      call.query,
      found.map((one) => showReview(call.repo, one)),
    );
  },
  [`POST ${r}/pulls/{pull_number}/reviews`]: makeReview,
  [`GET ${r}/pulls/{pull_number}/comments`]: (call) => {
    const { number } = pullOf(call);
    const found = call.repo.reviewComments.filter((one) => one.number === number);
    return paged(
      call.query,
      since(call.query, found).map((one) => showComment(call.repo, one, 'discussion_r')),
    );
  },
  [`POST ${r}/pulls/{pull_number}/comments`]: commentOnPull,
  [`POST ${r}/pulls/{pull_number}/comments/{comment_id}/replies`]: reply,
  [`GET ${r}/pulls/comments/{comment_id}`]: (call) => ({
    body: showComment(call.repo, commentOf(call, 'reviewComments'), 'discussion_r'),
  }),
  [`GET ${r}/pulls/{pull_number}/requested_reviewers`]: async (call) => {
    const shown = await showPull(call.repo, pullOf(call));
    return { body: { users: shown.requested_reviewers, teams: shown.requested_teams } };
  },
  [`POST ${r}/pulls/{pull_number}/requested_reviewers`]: request,
  [`PUT ${r}/pulls/{pull_number}/update-branch`]: updateBranch,
  [`GET ${r}/pulls/{pull_number}/merge`]: (call) => {
    if (pullOf(call).pull?.merged !== true) throw notFound();
    return { status: 204 };
  },
  [`PUT ${r}/pulls/{pull_number}/merge`]: merge,
  [`POST ${r}/pulls/comments/{comment_id}/reactions`]: (call) =>
    reactTo(call, commentOf(call, 'reviewComments').reactions),
};
