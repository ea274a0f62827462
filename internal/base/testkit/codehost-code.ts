// The simulated code host's REST answers about code: contents, refs, commits, trees, tags, releases, search.

import { type SimAnswer, type Call, type Handler, paged, r } from './codehost-call.ts';
import { showIssue } from './codehost-issues.ts';
import { ApiRefusal, type CommitFacts, invalid, notFound, type SimRepository } from './codehost-state.ts';
import { runGit } from './git-fixture.ts';
import { withoutEnd } from '../../domain/text.ts';

export const showRepository = (repo: SimRepository) => ({
  id: repo.id,
  node_id: `R_${repo.id}`,
  name: repo.name,
  full_name: repo.fullName,
  private: repo.private,
  default_branch: 'main',
  html_url: `https://codehost.example/${repo.fullName}`,
  owner: { login: repo.owner, id: 1, type: 'Organization' },
});

export const showCommit = (repo: SimRepository, commit: CommitFacts) => ({
  sha: commit.sha,
  html_url: `https://codehost.example/${repo.fullName}/commit/${commit.sha}`,
  commit: { message: commit.message, author: commit.author, committer: commit.author },
  author: null,
  committer: null,
  parents: commit.parents.map((sha) => ({ sha })),
});

const inDir = (repo: SimRepository) => ({ cwd: repo.git.dir });

async function shaOf(repo: SimRepository, ref: string | undefined): Promise<string> {
  const sha = await repo.sha(ref ?? 'refs/heads/main');
  if (sha === undefined) throw new ApiRefusal(404, `No commit found for the ref ${ref ?? ''}`);
  return sha;
}

interface Entry {
  readonly mode: string;
  readonly type: string;
  readonly sha: string;
  readonly size: number;
  readonly path: string;
}
async function entries(repo: SimRepository, tree: string, recursive = false): Promise<Entry[]> {
  const args = ['ls-tree', '-l', '-z', ...(recursive ? ['-r', '-t'] : []), tree];
  const out = (await runGit(args, inDir(repo))).toString('utf8');
  return out.split('\0').flatMap((line) => {
    const found = /^(\d+) (\w+) ([0-9a-f]+)\s+(\d+|-)\t(.*)$/s.exec(line);
    if (found === null) return [];
    const [, mode = '', type = '', sha = '', size = '', path = ''] = found;
    return [{ mode, type, sha, size: Number(size) || 0, path }];
  });
}

const entryOf = async (repo: SimRepository, sha: string, path: string): Promise<Entry | undefined> => {
  const out = (await runGit(['ls-tree', '-l', '-z', sha, '--', path], inDir(repo))).toString('utf8');
  const found = /^(\d+) (\w+) ([0-9a-f]+)\s+(\d+|-)\t([^\0]*)/s.exec(out);
  if (found === null) return undefined;
  const [, mode = '', type = '', oid = '', size = '', name = ''] = found;
  return { mode, type, sha: oid, size: Number(size) || 0, path: name };
};

const shownEntry = (repo: SimRepository, ref: string, entry: Entry, path: string) => ({
  type: entry.type === 'tree' ? 'dir' : 'file',
  name: path.split('/').at(-1) ?? path,
  path,
  sha: entry.sha,
  size: entry.size,
  html_url: `https://codehost.example/${repo.fullName}/blob/${ref}/${path}`,
});

async function readContents({ repo, params, query, accept }: Call): Promise<SimAnswer> {
  const path = withoutEnd((params['path'] ?? '').replace(/^\/+/, ''), '/');
  const ref = query.get('ref') ?? undefined;
  const sha = await shaOf(repo, ref);
  const entry = path === '' ? { mode: '', type: 'tree', sha, size: 0, path } : await entryOf(repo, sha, path);
  if (entry === undefined) throw notFound();
  if (entry.type === 'tree') {
    const list = await entries(repo, path === '' ? sha : entry.sha);
    return {
      body: list
        .slice(0, 1_000)
        .map((one) => shownEntry(repo, ref ?? 'main', one, path === '' ? one.path : `${path}/${one.path}`)),
    };
  }
  const bytes = await runGit(['cat-file', 'blob', entry.sha], inDir(repo));
  if (/raw/.test(accept)) return { bytes, headers: { 'content-type': 'application/vnd.github.raw' } };
  const isLarge = bytes.length > 1_048_576;
  return {
    body: {
      ...shownEntry(repo, ref ?? 'main', entry, path),
      encoding: isLarge ? 'none' : 'base64',
      content: isLarge ? '' : bytes.toString('base64').replace(/(.{60})/g, '$1\n'),
    },
  };
}

async function writeContents(call: Call, remove: boolean): Promise<SimAnswer> {
  const { repo, params, body } = call;
  const path = params['path'] ?? '';
  const branch = typeof body['branch'] === 'string' ? body['branch'] : 'main';
  const head = await shaOf(repo, `refs/heads/${branch}`);
  const there = await entryOf(repo, head, path);
  const given = body['sha'];
  if (there !== undefined && given === undefined) throw invalid('"sha" wasn\'t supplied.');
  if (given !== undefined && given !== there?.sha) throw new ApiRefusal(409, `${path} does not match ${String(given)}`);
  const content = remove ? null : Buffer.from(String(body['content']), 'base64');
  const sha = await repo.git.commit({ [path]: content }, { branch, message: String(body['message']) });
  const made = remove ? undefined : await entryOf(repo, sha, path);
  return {
    status: there === undefined && !remove ? 201 : 200,
    body: {
      content: made === undefined ? null : shownEntry(repo, branch, made, path),
      commit: { sha, html_url: `https://codehost.example/${repo.fullName}/commit/${sha}` },
    },
  };
}

async function makeRef({ repo, body }: Call): Promise<SimAnswer> {
  const [ref, sha] = [String(body['ref']), String(body['sha'])];
  if (!/^refs\/[^/]+\/.+/.test(ref)) throw invalid('Reference name is not valid');
  if ((await repo.sha(ref)) !== undefined) throw new ApiRefusal(422, 'Reference already exists');
  if ((await repo.sha(sha)) === undefined) throw new ApiRefusal(422, 'Object does not exist');
  await repo.git.git(['update-ref', ref, sha]);
  return { status: 201, body: { ref, object: { sha, type: 'commit' } } };
}

async function moveRef({ repo, params, body }: Call): Promise<SimAnswer> {
  const ref = `refs/${params['ref'] ?? ''}`;
  const old = await repo.sha(ref);
  if (old === undefined) throw new ApiRefusal(422, 'Reference does not exist');
  const sha = String(body['sha']);
  const isOn = await repo.git.git(['merge-base', '--is-ancestor', old, sha]).then(
    () => true,
    () => false,
  );
  if (!isOn && body['force'] !== true) throw new ApiRefusal(422, 'Update is not a fast forward');
  await repo.git.git(['update-ref', ref, sha]);
  return { body: { ref, object: { sha, type: 'commit' } } };
}

async function makeTree({ repo, body }: Call): Promise<SimAnswer> {
  const index = `${repo.git.dir}/index-${String(body['base_tree'] ?? 'none')}-${process.hrtime.bigint()}`;
  const env = { GIT_INDEX_FILE: index };
  const base = body['base_tree'];
  const options = { ...inDir(repo), env };
  if (typeof base === 'string') await runGit(['read-tree', base], options);
  for (const one of body['tree'] as { path: string; mode: string; sha?: string | null; content?: string }[]) {
    const sha =
      one.content === undefined
        ? one.sha
        : (await runGit(['hash-object', '-w', '--stdin'], { ...inDir(repo), input: [one.content] })).toString().trim();
    if (sha === null || sha === undefined) await runGit(['update-index', '--force-remove', one.path], options);
    else await runGit(['update-index', '--add', '--cacheinfo', `${one.mode},${sha},${one.path}`], options);
  }
  const sha = (await runGit(['write-tree'], options)).toString().trim();
  return { status: 201, body: { sha, tree: [] } };
}

async function makeCommit({ repo, body, sim }: Call): Promise<SimAnswer> {
  const parents = ((body['parents'] ?? []) as string[]).flatMap((one) => ['-p', one]);
  const sha = await repo.git.git(['commit-tree', String(body['tree']), ...parents, '-m', String(body['message'])]);
  return { status: 201, body: { sha, message: body['message'], tree: { sha: body['tree'] }, created: sim.time() } };
}

async function readCommit({ repo, params, query }: Call): Promise<SimAnswer> {
  const sha = await shaOf(repo, params['ref'] ?? params['commit_sha']);
  const [commit] = await repo.log(sha, [], 1);
  if (commit === undefined) throw notFound();
  const numbers = await repo.git.git(['show', '--numstat', '--format=', '--no-renames', sha]);
  const files = numbers
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => {
      const [added = '0', removed = '0', filename = ''] = line.split('\t');
      return {
        filename,
        additions: Number(added),
        deletions: Number(removed),
        status: 'modified',
        patch: '@@ -1 +1 @@',
      };
    });
  const sum = (key: 'additions' | 'deletions'): number => files.reduce((all, one) => all + one[key], 0);
  const stats = {
    additions: sum('additions'),
    deletions: sum('deletions'),
    total: sum('additions') + sum('deletions'),
  };
  const tree = { sha: await treeOf(repo, sha) };
  return paged(query, files, (page) => ({ ...showCommit(repo, commit), tree, stats, files: page }));
}
const treeOf = (repo: SimRepository, sha: string): Promise<string> => repo.git.git(['rev-parse', `${sha}^{tree}`]);

async function searchCode({ sim, query, covers }: Call): Promise<SimAnswer> {
  const { words, repositories } = readQuery(query.get('q') ?? '');
  const items: object[] = [];
  for (const repo of sim.repositories) {
    const isSought = repositories.length === 0 ? !repo.private : repositories.includes(repo.fullName.toLowerCase());
    if (!isSought || (repo.private && !covers.includes(repo.fullName))) continue;
    const sha = await repo.branch('main');
    const list = sha === undefined ? [] : await entries(repo, sha, true);
    for (const entry of list.filter((one) => one.type === 'blob')) {
      const text = (await runGit(['cat-file', 'blob', entry.sha], inDir(repo))).toString('utf8').toLowerCase();
      if (!words.every((word) => text.includes(word) || entry.path.toLowerCase().includes(word))) continue;
      const { name, path, sha: oid, html_url } = shownEntry(repo, 'main', entry, entry.path);
      items.push({ name, path, sha: oid, html_url, repository: showRepository(repo) });
    }
  }
  return paged(query, items, (page) => ({ total_count: items.length, incomplete_results: false, items: page }));
}

/** Words and `repo:` names of a query, in lower case; quoted text is one word. */
function readQuery(q: string): { words: string[]; repositories: string[]; kinds: string[] } {
  const parts = q.match(/"[^"]*"|\S+/g) ?? [];
  const of = (prefix: string): string[] =>
    parts.filter((one) => one.startsWith(prefix)).map((one) => one.slice(prefix.length).toLowerCase());
  const words = parts
    .filter((one) => one.startsWith('"') || !/^[a-z]+:/.test(one))
    .map((one) => one.replaceAll('"', '').toLowerCase());
  return { words, repositories: of('repo:'), kinds: [...of('is:'), ...of('type:')] };
}

function searchIssues({ sim, query, covers }: Call): SimAnswer {
  const { words, repositories, kinds } = readQuery(query.get('q') ?? '');
  const wantsPulls = kinds.some((one) => one === 'pr' || one === 'pull-request');
  const wantsIssues = kinds.includes('issue');
  const sought = sim.repositories.filter(
    (repo) =>
      (repositories.length === 0 ? !repo.private : repositories.includes(repo.fullName.toLowerCase())) &&
      (!repo.private || covers.includes(repo.fullName)),
  );
  if (repositories.length > 0 && sought.length === 0) {
    throw invalid(
      'The listed users and repositories cannot be searched either because the resources do not exist or you do not have permission to view them.',
    );
  }
  const items = sought.flatMap((repo) =>
    [...repo.issues.values()]
      .filter((one) => (wantsPulls ? one.pull !== undefined : true) && (wantsIssues ? one.pull === undefined : true))
      .filter((one) => words.every((word) => `${one.title} ${one.body}`.toLowerCase().includes(word)))
      .map((one) => showIssue(repo, one)),
  );
  return paged(query, items, (page) => ({ total_count: items.length, incomplete_results: false, items: page }));
}

async function listTags({ repo, query }: Call): Promise<SimAnswer> {
  const out = await repo.git.git(['for-each-ref', '--format=%(refname:short) %(objectname)', 'refs/tags']);
  const tags = out
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => ({ name: line.split(' ')[0], commit: { sha: line.split(' ')[1] } }));
  return paged(query, tags);
}

async function readRef({ repo, params }: Call): Promise<SimAnswer> {
  const ref = `refs/${params['ref'] ?? ''}`;
  const sha = await repo.sha(ref);
  if (sha === undefined) throw notFound();
  return { body: { ref, object: { sha, type: 'commit' } } };
}

async function listCommits({ repo, query }: Call): Promise<SimAnswer> {
  const path = query.get('path');
  const found = await repo.log(await shaOf(repo, query.get('sha') ?? undefined), path === null ? [] : [path]);
  return paged(
    query,
    found.map((one) => showCommit(repo, one)),
  );
}

const release = ({ repo }: Call, find: (one: SimRepository['releases'][number]) => boolean): SimAnswer => {
  const found = repo.releases.find(find);
  if (found === undefined) throw notFound();
  return { body: found };
};

export const codeHandlers: { readonly [operation: string]: Handler } = {
  [`GET ${r}`]: ({ repo }) => ({ body: showRepository(repo) }),
  [`GET ${r}/contents/{path}`]: readContents,
  [`PUT ${r}/contents/{path}`]: (call) => writeContents(call, false),
  [`DELETE ${r}/contents/{path}`]: (call) => writeContents(call, true),
  [`GET ${r}/git/ref/{ref}`]: readRef,
  [`POST ${r}/git/refs`]: makeRef,
  [`PATCH ${r}/git/refs/{ref}`]: moveRef,
  [`GET ${r}/git/commits/{commit_sha}`]: readCommit,
  [`POST ${r}/git/commits`]: makeCommit,
  [`GET ${r}/git/trees/{tree_sha}`]: async ({ repo, params, query }) => {
    const sha = await treeOf(repo, await shaOf(repo, params['tree_sha']));
    const list = await entries(repo, sha, query.get('recursive') !== null);
    return {
      body: {
        sha,
        truncated: false,
        tree: list.map(({ path, mode, type, sha: oid, size }) => ({ path, mode, type, sha: oid, size })),
      },
    };
  },
  [`POST ${r}/git/trees`]: makeTree,
  [`POST ${r}/git/blobs`]: async ({ repo, body }) => {
    const input = [Buffer.from(String(body['content']), body['encoding'] === 'base64' ? 'base64' : 'utf8')];
    const sha = (await runGit(['hash-object', '-w', '--stdin'], { ...inDir(repo), input })).toString().trim();
    return { status: 201, body: { sha } };
  },
  [`GET ${r}/git/tags/{tag_sha}`]: ({ params }) => ({ body: { sha: params['tag_sha'], tag: '' } }),
  [`GET ${r}/branches`]: async ({ repo, query }) =>
    paged(
      query,
      (await repo.branches()).map(({ name, sha }) => ({ name, commit: { sha }, protected: false })),
    ),
  [`GET ${r}/tags`]: listTags,
  [`GET ${r}/commits`]: listCommits,
  [`GET ${r}/commits/{ref}`]: readCommit,
  [`GET ${r}/pulls/{pull_number}/commits`]: async ({ repo, params, query }) => {
    const pull = repo.issues.get(Number(params['pull_number']))?.pull;
    if (pull === undefined) throw notFound();
    const found = await repo.log(`refs/heads/${pull.base}..refs/heads/${pull.head}`);
    return paged(
      query,
      found.toReversed().map((one) => showCommit(repo, one)),
    );
  },
  [`GET ${r}/releases`]: ({ repo, query }) => paged(query, repo.releases),
  [`GET ${r}/releases/latest`]: (call) => release(call, (one) => !one.draft),
  [`GET ${r}/releases/tags/{tag}`]: (call) => release(call, (one) => one.tag_name === call.params['tag']),
  [`GET ${r}/collaborators`]: ({ query }) => paged(query, [{ login: 'ann', id: 9, type: 'User', role_name: 'admin' }]),
  'GET /search/code': searchCode,
  'GET /search/issues': searchIssues,
  'GET /search/commits': async ({ sim, query, covers }) => {
    const { words, repositories } = readQuery(query.get('q') ?? '');
    const items: object[] = [];
    for (const repo of sim.repositories) {
      if (!repositories.includes(repo.fullName.toLowerCase()) || (repo.private && !covers.includes(repo.fullName)))
        continue;
      const found = await repo.log('refs/heads/main');
      items.push(
        ...found
          .filter((one) => words.every((word) => one.message.toLowerCase().includes(word)))
          .map((one) => ({ ...showCommit(repo, one), repository: showRepository(repo) })),
      );
    }
    return paged(query, items, (page) => ({ total_count: items.length, incomplete_results: false, items: page }));
  },
};
