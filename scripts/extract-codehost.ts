// Makes testdata/providers/codehost-rest.json anew: what the code host's published description of its REST API says
// about the requests that the service sends (parameters and bodies; no answers). The simulator refuses what it refuses.
//
//   npm pack @octokit/openapi@23.0.2 && tar xzf octokit-openapi-23.0.2.tgz
//   node scripts/extract-codehost.ts package/generated/api.github.com.json 23.0.2

import { readFileSync, writeFileSync } from 'node:fs';

type Node = { readonly [key: string]: unknown };
const [, , source = '', version = ''] = process.argv;
const whole = JSON.parse(readFileSync(source, 'utf8')) as Node;

const r = '/repos/{owner}/{repo}';
const operations = [
  'GET /app',
  'GET /app/installations/{installation_id}',
  'POST /app/installations/{installation_id}/access_tokens',
  'GET /search/code',
  'GET /search/issues',
  'GET /search/commits',
  'POST /markdown',
  `GET ${r}`,
  ...['GET', 'POST'].map((m) => `${m} ${r}/issues`),
  ...['GET', 'PATCH'].map((m) => `${m} ${r}/issues/{issue_number}`),
  ...['GET', 'POST'].map((m) => `${m} ${r}/issues/{issue_number}/comments`),
  ...['GET', 'PATCH'].map((m) => `${m} ${r}/issues/comments/{comment_id}`),
  ...['GET', 'POST'].map((m) => `${m} ${r}/issues/comments/{comment_id}/reactions`),
  ...['GET', 'POST'].map((m) => `${m} ${r}/issues/{issue_number}/reactions`),
  `GET ${r}/issues/{issue_number}/labels`,
  `PUT ${r}/issues/{issue_number}/labels`,
  ...['GET', 'POST'].map((m) => `${m} ${r}/issues/{issue_number}/sub_issues`),
  `DELETE ${r}/issues/{issue_number}/sub_issue`,
  `PATCH ${r}/issues/{issue_number}/sub_issues/priority`,
  `GET ${r}/issues/{issue_number}/parent`,
  ...['GET', 'POST'].map((m) => `${m} ${r}/issues/{issue_number}/dependencies/blocked_by`),
  `DELETE ${r}/issues/{issue_number}/dependencies/blocked_by/{issue_id}`,
  `GET ${r}/issues/{issue_number}/dependencies/blocking`,
  `GET ${r}/issue-types`,
  ...['GET', 'POST'].map((m) => `${m} ${r}/labels`),
  ...['GET', 'PATCH', 'DELETE'].map((m) => `${m} ${r}/labels/{name}`),
  ...['GET', 'POST'].map((m) => `${m} ${r}/pulls`),
  ...['GET', 'PATCH'].map((m) => `${m} ${r}/pulls/{pull_number}`),
  `GET ${r}/pulls/{pull_number}/files`,
  `GET ${r}/pulls/{pull_number}/commits`,
  ...['GET', 'POST'].map((m) => `${m} ${r}/pulls/{pull_number}/reviews`),
  ...['GET', 'POST'].map((m) => `${m} ${r}/pulls/{pull_number}/comments`),
  `POST ${r}/pulls/{pull_number}/comments/{comment_id}/replies`,
  ...['GET', 'POST'].map((m) => `${m} ${r}/pulls/comments/{comment_id}/reactions`),
  `GET ${r}/pulls/comments/{comment_id}`,
  ...['GET', 'POST'].map((m) => `${m} ${r}/pulls/{pull_number}/requested_reviewers`),
  `PUT ${r}/pulls/{pull_number}/update-branch`,
  ...['GET', 'PUT'].map((m) => `${m} ${r}/pulls/{pull_number}/merge`),
  `GET ${r}/git/ref/{ref}`,
  `POST ${r}/git/refs`,
  `PATCH ${r}/git/refs/{ref}`,
  `GET ${r}/git/commits/{commit_sha}`,
  `POST ${r}/git/commits`,
  `GET ${r}/git/trees/{tree_sha}`,
  `POST ${r}/git/trees`,
  `POST ${r}/git/blobs`,
  `GET ${r}/git/tags/{tag_sha}`,
  ...['GET', 'PUT', 'DELETE'].map((m) => `${m} ${r}/contents/{path}`),
  `GET ${r}/branches`,
  `GET ${r}/tags`,
  `GET ${r}/commits`,
  `GET ${r}/commits/{ref}`,
  `GET ${r}/commits/{ref}/status`,
  `GET ${r}/commits/{ref}/statuses`,
  `GET ${r}/commits/{ref}/check-runs`,
  `POST ${r}/statuses/{sha}`,
  `POST ${r}/check-runs`,
  ...['GET', 'PATCH'].map((m) => `${m} ${r}/check-runs/{check_run_id}`),
  `GET ${r}/check-runs/{check_run_id}/annotations`,
  `GET ${r}/releases`,
  `GET ${r}/releases/latest`,
  `GET ${r}/releases/tags/{tag}`,
  `GET ${r}/collaborators`,
  `GET ${r}/actions/workflows`,
  `GET ${r}/actions/workflows/{workflow_id}`,
  `GET ${r}/actions/workflows/{workflow_id}/runs`,
  `POST ${r}/actions/workflows/{workflow_id}/dispatches`,
  `GET ${r}/actions/runs`,
  `GET ${r}/actions/runs/{run_id}`,
  `GET ${r}/actions/runs/{run_id}/jobs`,
  `GET ${r}/actions/runs/{run_id}/artifacts`,
  `GET ${r}/actions/runs/{run_id}/timing`,
  ...['GET', 'DELETE'].map((m) => `${m} ${r}/actions/runs/{run_id}/logs`),
  `POST ${r}/actions/runs/{run_id}/rerun`,
  `POST ${r}/actions/runs/{run_id}/rerun-failed-jobs`,
  `POST ${r}/actions/runs/{run_id}/cancel`,
  `GET ${r}/actions/jobs/{job_id}`,
  `GET ${r}/actions/jobs/{job_id}/logs`,
  `GET ${r}/actions/artifacts/{artifact_id}/{archive_format}`,
  `GET ${r}/actions/secrets`,
  `GET ${r}/actions/secrets/public-key`,
  ...['GET', 'PUT', 'DELETE'].map((m) => `${m} ${r}/actions/secrets/{secret_name}`),
  `GET ${r}/environments/{environment_name}/secrets`,
  `GET ${r}/environments/{environment_name}/secrets/public-key`,
  ...['GET', 'PUT', 'DELETE'].map((m) => `${m} ${r}/environments/{environment_name}/secrets/{secret_name}`),
];

const dropped = new Set(['description', 'example', 'examples', 'title', 'externalDocs', 'readOnly', 'deprecated']);

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
      .filter(([key]) => isMap || (!dropped.has(key) && !key.startsWith('x-')))
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
  operations: Object.fromEntries([...new Set(operations)].map((name) => [name, operation(name)])),
};
writeFileSync(
  new URL('../testdata/providers/codehost-rest.json', import.meta.url),
  `${JSON.stringify(extract, null, 1)}\n`,
);
