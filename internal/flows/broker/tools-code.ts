// Tools about code: files, branches, commits, trees, tags, releases.

import { gitId } from '../../base/hash.ts';
import { listAt, objectAt, textAt } from '../../domain/fields.ts';
import { Fault } from '../../domain/fault.ts';
import type { Json, JsonObject } from '../../domain/json.ts';
import { outsideFault } from '../../domain/outside.ts';
import type { Want } from './confine.ts';
import type { CodehostCall } from './codehost-call.ts';
import { listed, only, shown } from './shape.ts';
import { type BrokerTool, given, maybe, pathIn, paging, shaOf, text } from './tool.ts';
import { page } from './tools-issues.ts';

const contentsRead = (): readonly Want[] => ['contents:read'];
const contentsWrite = (): readonly Want[] => ['contents:write', 'workflows:write?'];
/** Of the largest tree in the bytes that are read of an answer: seven for each of its entries. */
const treeValuesMax = 300_000;
const rawBytesMax = 100 * 1024 * 1024;
const shownBytesMax = 380_000;

/** A tool that reads. */
const reads = (about: string, run: (codehost: CodehostCall, input: JsonObject) => Promise<Json>): BrokerTool => ({
  about,
  effect: 'none',
  write: false,
  wants: contentsRead,
  run: (codehost, { input }) => run(codehost, input),
});
const writes = (
  about: string,
  effect: 'adds' | 'takes',
  run: (codehost: CodehostCall, input: JsonObject) => Promise<Json>,
): BrokerTool => ({
  about,
  effect,
  write: true,
  wants: contentsWrite,
  run: (codehost, { input }) => run(codehost, input),
});

async function readFile(codehost: CodehostCall, input: JsonObject): Promise<Json> {
  const path = pathIn(text(input, 'path'));
  const ref = maybe(input, 'sha') ?? maybe(input, 'ref');
  const query = ref === undefined ? {} : { ref };
  const json = await codehost.json(`/contents/${path}`, query);
  if (Array.isArray(json)) {
    return listed(
      (json as readonly Json[]).map((one) => only(shown(one), input['fields'])),
      undefined,
    );
  }
  const file = objectAt(json);
  if (file['type'] !== 'file') return shown(file);
  const isWhole = file['encoding'] === 'base64';
  const bytes = isWhole
    ? Buffer.from(textAt(file['content']) ?? '', 'base64')
    : (
        await codehost.read({
          path: `/contents/${path}`,
          query,
          accept: 'application/vnd.github.raw+json',
          isPlain: true,
          mostBytes: rawBytesMax,
        })
      ).bytes;
  const { encoding: _, content: __, ...rest } = objectAt(shown(file));
  return only({ ...rest, ...contentOf(bytes) }, input['fields']);
}

/** Text as it is, anything else in base64; the beginning of what is longer than a model reads. */
function contentOf(bytes: Buffer): JsonObject {
  let said: string | undefined;
  try {
    said = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    said = undefined;
  }
  const whole = said ?? bytes.toString('base64');
  const content = whole.slice(0, shownBytesMax).toWellFormed();
  return {
    encoding: said === undefined ? 'base64' : 'utf-8',
    content,
    ...(content.length < whole.length && { more: true }),
  };
}

async function branchHead(codehost: CodehostCall, branch: string): Promise<string> {
  return shaOf(await codehost.json(`/git/ref/heads/${branch.split('/').map(encodeURIComponent).join('/')}`));
}

async function createBranch(codehost: CodehostCall, input: JsonObject): Promise<Json> {
  const from = maybe(input, 'from_branch') ?? textAt(objectAt(await codehost.json(''))['default_branch']) ?? '';
  const sha = await branchHead(codehost, from);
  const branch = text(input, 'branch');
  const ref = `refs/heads/${branch}`;
  const probe = { kind: 'ref', branch, sha };
  try {
    return await codehost.write(
      { method: 'POST', path: '/git/refs', body: { ref, sha } },
      { probe, shape: (): Json => ({ ref, sha }) },
    );
  } catch (error) {
    // One that is there already, at the very same commit, is what was wished for.
    if (!(error instanceof Fault) || error.code !== 'conflict') throw error;
    if ((await branchHead(codehost, branch)) === sha) return { ref, sha };
    throw error;
  }
}

async function fileSha(codehost: CodehostCall, path: string, branch: string): Promise<string | undefined> {
  try {
    return textAt(objectAt(await codehost.json(`/contents/${path}`, { ref: branch }))['sha']);
  } catch (error) {
    if (error instanceof Fault && error.code === 'not-found') return undefined;
    throw error;
  }
}

const fileAnswer = (json: JsonObject): Json => {
  const commit = objectAt(json['commit']);
  return {
    path: objectAt(json['content'])['path'] ?? null,
    sha: objectAt(json['content'])['sha'] ?? null,
    commit: commit['sha'] ?? null,
    url: commit['html_url'] ?? null,
  };
};

async function putFile(codehost: CodehostCall, input: JsonObject): Promise<Json> {
  const path = pathIn(text(input, 'path'));
  const branch = text(input, 'branch');
  const bytes = Buffer.from(text(input, 'content'), 'utf8');
  const sha = maybe(input, 'sha') ?? (await fileSha(codehost, path, branch));
  const sent = {
    message: text(input, 'message'),
    branch,
    content: bytes.toString('base64'),
    ...(sha !== undefined && { sha }),
  };
  const probe = { kind: 'file', path, branch, blob: gitId('blob', bytes) };
  return codehost.write({ method: 'PUT', path: `/contents/${path}`, body: sent }, { probe, shape: fileAnswer });
}

async function deleteFile(codehost: CodehostCall, input: JsonObject): Promise<Json> {
  const path = pathIn(text(input, 'path'));
  const branch = text(input, 'branch');
  const sha = await fileSha(codehost, path, branch);
  if (sha === undefined) throw outsideFault('not-found', 'there is no such file on that branch');
  const sent = { message: text(input, 'message'), branch, sha };
  return codehost.write(
    { method: 'DELETE', path: `/contents/${path}`, body: sent },
    { probe: { kind: 'file', path, branch, blob: null }, shape: fileAnswer },
  );
}

/** Several files as one commit: objects first, which nobody sees, and the branch last. */
async function pushFiles(codehost: CodehostCall, input: JsonObject): Promise<Json> {
  const branch = text(input, 'branch');
  const files = listAt(input['files']).map(objectAt);
  for (const one of files) pathIn(text(one, 'path'));
  const head = await branchHead(codehost, branch);
  const base = textAt(objectAt(objectAt(await codehost.json(`/git/commits/${head}`))['tree'])['sha']) ?? head;
  const tree = files.map((one) => ({
    path: text(one, 'path'),
    mode: '100644',
    type: 'blob',
    content: text(one, 'content'),
  }));
  const unseen = { kind: 'unseen' };
  const made = await codehost.write(
    { method: 'POST', path: '/git/trees', body: { base_tree: base, tree } },
    { probe: unseen, isLast: false, shape: (json): JsonObject => ({ sha: json['sha'] }) },
  );
  const commit = await codehost.write(
    {
      method: 'POST',
      path: '/git/commits',
      body: { message: text(input, 'message'), tree: made['sha'], parents: [head] },
    },
    { probe: unseen, isLast: false, shape: (json): JsonObject => ({ sha: json['sha'] }) },
  );
  const sha = textAt(commit['sha']) ?? '';
  return codehost.write(
    {
      method: 'PATCH',
      path: `/git/refs/heads/${branch.split('/').map(encodeURIComponent).join('/')}`,
      body: { sha, force: false },
    },
    { probe: { kind: 'ref', branch, sha }, shape: (): Json => ({ ref: `refs/heads/${branch}`, sha }) },
  );
}

async function getCommit(codehost: CodehostCall, input: JsonObject): Promise<Json> {
  const query = paging({ perPage: 100, ...input });
  const path = `/commits/${encodeURIComponent(text(input, 'sha'))}`;
  const { json, nextPage } = await codehost.read({ path, query });
  const { files, stats, ...rest } = objectAt(shown(json));
  const detail = maybe(input, 'detail') ?? 'stats';
  if (detail === 'none') return rest;
  const items = listAt(files).map((one) => {
    const { patch, ...file } = objectAt(one);
    return detail === 'full_patch' ? { ...file, patch: patch ?? null } : file;
  });
  return { ...rest, stats: stats ?? null, files: listed(items, nextPage) };
}

const blameQuery = `query($owner: String!, $name: String!, $expression: String!, $path: String!) {
  repository(owner: $owner, name: $name) { object(expression: $expression) { ... on Commit { blame(path: $path) {
    ranges { startingLine endingLine age commit { oid messageHeadline author { name } } } } } } } }`;

async function blame(codehost: CodehostCall, input: JsonObject): Promise<Json> {
  const [owner = '', name = ''] = codehost.options.repository.split('/');
  pathIn(text(input, 'path'));
  const variables = { owner, name, expression: maybe(input, 'ref') ?? 'HEAD', path: text(input, 'path') };
  const found = objectAt(objectAt((await codehost.query(blameQuery, variables))['repository'])['object']);
  const [from, to] = [Number(input['start_line'] ?? 1), Number(input['end_line'] ?? Number.MAX_SAFE_INTEGER)];
  const ranges = listAt(objectAt(found['blame'])['ranges']).filter((one) => {
    const { startingLine, endingLine } = objectAt(one);
    return Number(endingLine) >= from && Number(startingLine) <= to;
  });
  const size = Number(input['perPage'] ?? 100);
  const start = Number(maybe(input, 'after') ?? 0) || 0;
  const next = ranges.length > start + size ? String(start + size) : undefined;
  return listed(ranges.slice(start, start + size), next);
}

async function readTree(codehost: CodehostCall, input: JsonObject): Promise<Json> {
  const at = encodeURIComponent(
    maybe(input, 'tree_sha') ?? textAt(objectAt(await codehost.json(''))['default_branch']) ?? 'HEAD',
  );
  const query = input['recursive'] === true ? { recursive: '1' } : {};
  const tree = objectAt((await codehost.read({ path: `/git/trees/${at}`, query, mostValues: treeValuesMax })).json);
  const filter = maybe(input, 'path_filter');
  const rows = listAt(tree['tree']).filter(
    (one) => filter === undefined || (textAt(objectAt(one)['path']) ?? '').startsWith(filter),
  );
  return listed(rows.map(shown), undefined, { sha: tree['sha'], truncated: tree['truncated'] === true });
}

export const codeTools: { readonly [name: string]: BrokerTool } = {
  get_file_contents: reads('Read a file or list a folder.', readFile),
  get_commit: reads('Read a commit.', getCommit),
  list_commits: reads('List commits.', (codehost, input) =>
    page(codehost, '/commits', input, given(input, 'sha', 'path', 'author', 'since', 'until')),
  ),
  list_branches: reads('List branches.', (codehost, input) => page(codehost, '/branches', input)),
  create_branch: writes('Make a branch.', 'adds', createBranch),
  create_or_update_file: writes('Write one file, as a commit.', 'takes', putFile),
  delete_file: writes('Delete one file, as a commit.', 'takes', deleteFile),
  push_files: writes('Write several files, as one commit.', 'takes', pushFiles),
  get_file_blame: reads('Show who wrote the lines of a file.', blame),
  get_repository_tree: reads('List the files of a tree.', readTree),
  list_tags: reads('List tags.', (codehost, input) => page(codehost, '/tags', input)),
  get_tag: reads('Read a tag.', async (codehost, input) => {
    const sha = shaOf(await codehost.json(`/git/ref/tags/${pathIn(text(input, 'tag'))}`));
    return { tag: text(input, 'tag'), sha };
  }),
  list_releases: reads('List releases.', (codehost, input) => page(codehost, '/releases', input)),
  get_latest_release: reads('Read the latest release.', async (codehost) =>
    shown(await codehost.json('/releases/latest')),
  ),
  get_release_by_tag: reads('Read the release of a tag.', async (codehost, input) =>
    shown(await codehost.json(`/releases/tags/${encodeURIComponent(text(input, 'tag'))}`)),
  ),
};
