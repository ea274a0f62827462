// Makes testdata/providers/codehost-rest.json anew: what the code host's published description of its REST API says
// about the requests that the service sends (parameters and bodies; no answers). The simulator refuses what it refuses.
//
//   npm pack @octokit/openapi@23.0.2 && tar xzf octokit-openapi-23.0.2.tgz
//   node scripts/extract-codehost.ts package/generated/api.github.com.json 23.0.2

import { readFileSync, writeFileSync } from 'node:fs';

type Node = { readonly [key: string]: unknown };
const [, , source = '', version = ''] = process.argv;
const whole = JSON.parse(readFileSync(source, 'utf8')) as Node;

const R = '/repos/{owner}/{repo}';
const OPERATIONS = [
  'GET /app',
  'GET /app/installations/{installation_id}',
  'POST /app/installations/{installation_id}/access_tokens',
  'GET /search/code',
  'GET /search/issues',
  'GET /search/commits',
  'POST /markdown',
  `GET ${R}`,
  ...['GET', 'POST'].map((m) => `${m} ${R}/issues`),
  ...['GET', 'PATCH'].map((m) => `${m} ${R}/issues/{issue_number}`),
  ...['GET', 'POST'].map((m) => `${m} ${R}/issues/{issue_number}/comments`),
  ...['GET', 'PATCH'].map((m) => `${m} ${R}/issues/comments/{comment_id}`),
  ...['GET', 'POST'].map((m) => `${m} ${R}/issues/comments/{comment_id}/reactions`),
  ...['GET', 'POST'].map((m) => `${m} ${R}/issues/{issue_number}/reactions`),
  `GET ${R}/issues/{issue_number}/labels`,
  `PUT ${R}/issues/{issue_number}/labels`,
  ...['GET', 'POST'].map((m) => `${m} ${R}/issues/{issue_number}/sub_issues`),
  `DELETE ${R}/issues/{issue_number}/sub_issue`,
  `PATCH ${R}/issues/{issue_number}/sub_issues/priority`,
  `GET ${R}/issues/{issue_number}/parent`,
  ...['GET', 'POST'].map((m) => `${m} ${R}/issues/{issue_number}/dependencies/blocked_by`),
  `DELETE ${R}/issues/{issue_number}/dependencies/blocked_by/{issue_id}`,
  `GET ${R}/issues/{issue_number}/dependencies/blocking`,
  `GET ${R}/issue-types`,
  ...['GET', 'POST'].map((m) => `${m} ${R}/labels`),
  ...['GET', 'PATCH', 'DELETE'].map((m) => `${m} ${R}/labels/{name}`),
  ...['GET', 'POST'].map((m) => `${m} ${R}/pulls`),
  ...['GET', 'PATCH'].map((m) => `${m} ${R}/pulls/{pull_number}`),
  `GET ${R}/pulls/{pull_number}/files`,
  `GET ${R}/pulls/{pull_number}/commits`,
  ...['GET', 'POST'].map((m) => `${m} ${R}/pulls/{pull_number}/reviews`),
  ...['GET', 'POST'].map((m) => `${m} ${R}/pulls/{pull_number}/comments`),
  `POST ${R}/pulls/{pull_number}/comments/{comment_id}/replies`,
  ...['GET', 'POST'].map((m) => `${m} ${R}/pulls/comments/{comment_id}/reactions`),
  `GET ${R}/pulls/comments/{comment_id}`,
  ...['GET', 'POST'].map((m) => `${m} ${R}/pulls/{pull_number}/requested_reviewers`),
  `PUT ${R}/pulls/{pull_number}/update-branch`,
  ...['GET', 'PUT'].map((m) => `${m} ${R}/pulls/{pull_number}/merge`),
  `GET ${R}/git/ref/{ref}`,
  `POST ${R}/git/refs`,
  `PATCH ${R}/git/refs/{ref}`,
  `GET ${R}/git/commits/{commit_sha}`,
  `POST ${R}/git/commits`,
  `GET ${R}/git/trees/{tree_sha}`,
  `POST ${R}/git/trees`,
  `POST ${R}/git/blobs`,
  `GET ${R}/git/tags/{tag_sha}`,
  ...['GET', 'PUT', 'DELETE'].map((m) => `${m} ${R}/contents/{path}`),
  `GET ${R}/branches`,
  `GET ${R}/tags`,
  `GET ${R}/commits`,
  `GET ${R}/commits/{ref}`,
  `GET ${R}/commits/{ref}/status`,
  `GET ${R}/commits/{ref}/statuses`,
  `GET ${R}/commits/{ref}/check-runs`,
  `POST ${R}/statuses/{sha}`,
  `POST ${R}/check-runs`,
  ...['GET', 'PATCH'].map((m) => `${m} ${R}/check-runs/{check_run_id}`),
  `GET ${R}/check-runs/{check_run_id}/annotations`,
  `GET ${R}/releases`,
  `GET ${R}/releases/latest`,
  `GET ${R}/releases/tags/{tag}`,
  `GET ${R}/collaborators`,
  `GET ${R}/actions/workflows`,
  `GET ${R}/actions/workflows/{workflow_id}`,
  `GET ${R}/actions/workflows/{workflow_id}/runs`,
  `POST ${R}/actions/workflows/{workflow_id}/dispatches`,
  `GET ${R}/actions/runs`,
  `GET ${R}/actions/runs/{run_id}`,
  `GET ${R}/actions/runs/{run_id}/jobs`,
  `GET ${R}/actions/runs/{run_id}/artifacts`,
  `GET ${R}/actions/runs/{run_id}/timing`,
  ...['GET', 'DELETE'].map((m) => `${m} ${R}/actions/runs/{run_id}/logs`),
  `POST ${R}/actions/runs/{run_id}/rerun`,
  `POST ${R}/actions/runs/{run_id}/rerun-failed-jobs`,
  `POST ${R}/actions/runs/{run_id}/cancel`,
  `GET ${R}/actions/jobs/{job_id}`,
  `GET ${R}/actions/jobs/{job_id}/logs`,
  `GET ${R}/actions/artifacts/{artifact_id}/{archive_format}`,
  `GET ${R}/actions/secrets`,
  `GET ${R}/actions/secrets/public-key`,
  ...['GET', 'PUT', 'DELETE'].map((m) => `${m} ${R}/actions/secrets/{secret_name}`),
  `GET ${R}/environments/{environment_name}/secrets`,
  `GET ${R}/environments/{environment_name}/secrets/public-key`,
  ...['GET', 'PUT', 'DELETE'].map((m) => `${m} ${R}/environments/{environment_name}/secrets/{secret_name}`),
];

const DROPPED = new Set(['description', 'example', 'examples', 'title', 'externalDocs', 'readOnly', 'deprecated']);

function at(reference: string): unknown {
  return reference
    .slice(2)
    .split('/')
    .reduce<unknown>((node, step) => (node as Node)[step.replaceAll('~1', '/').replaceAll('~0', '~')], whole);
}

/** A schema with references in place of which stands what they mean, without prose. */
function plain(node: unknown, isMap = false): unknown {
  if (Array.isArray(node)) return node.map((one) => plain(one));
  if (node === null || typeof node !== 'object') return node;
  const reference = (node as Node)['$ref'];
  if (typeof reference === 'string') return plain(at(reference));
  return Object.fromEntries(
    Object.entries(node)
      .filter(([key]) => isMap || (!DROPPED.has(key) && !key.startsWith('x-')))
      .map(([key, value]) => [key, plain(value, key === 'properties')]),
  );
}

function operation(name: string): Node {
  const [method = '', path = ''] = name.split(' ');
  const item = (whole['paths'] as Node)[path] as Node | undefined;
  const found = item?.[method.toLowerCase()] as Node | undefined;
  if (found === undefined) throw new Error(`the description has no ${name}`);
  const parameters = ((found['parameters'] ?? []) as unknown[]).map((one) => plain(one) as Node);
  const of = (place: string) =>
    Object.fromEntries(
      parameters
        .filter((one) => one['in'] === place)
        .map((one) => [one['name'], { ...(one['required'] === true && { required: true }), schema: one['schema'] }]),
    );
  const body = plain(found['requestBody']) as Node | undefined;
  const content = (body?.['content'] as Node | undefined)?.['application/json'] as Node | undefined;
  return {
    path: of('path'),
    query: of('query'),
    ...(content !== undefined && { body: content['schema'], bodyRequired: body?.['required'] === true }),
    answers: Object.keys(found['responses'] as Node).map(Number),
  };
}

const extract = {
  origin: `@octokit/openapi ${version}, generated/api.github.com.json: requests alone, references resolved, prose left out`,
  made: 'scripts/extract-codehost.ts',
  operations: Object.fromEntries([...new Set(OPERATIONS)].map((name) => [name, operation(name)])),
};
writeFileSync(
  new URL('../testdata/providers/codehost-rest.json', import.meta.url),
  `${JSON.stringify(extract, null, 1)}\n`,
);
