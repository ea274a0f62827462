// What the demo registers: a repository made from testdata/demo and served over smart HTTP, or the user's own.

import { mkdir, mkdtemp, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { basename, join, resolve } from 'node:path';
import { runGit } from '../../internal/base/testkit/git-fixture.ts';
import { GitServer } from '../../internal/base/testkit/git-server.ts';
import { DemoError } from './processes.ts';
import { withoutEnd } from '../../internal/domain/text.ts';
import { exists } from '../../internal/base/files.ts';

export interface Source {
  readonly name: string;
  /** Body of the registration besides the name. */
  readonly settings: { readonly [key: string]: string | number };
  /** Address to clone from and push to; absent where it is not ours to offer. */
  readonly cloneUrl?: string;
  /** Directory whose files are watched as they lie. */
  readonly folder?: string;
  stop?(): Promise<void>;
}

/** Name of the repository that the demo brings. */
export const demo = 'demo';
const files = join(import.meta.dirname, '../../testdata/demo');
/** Agents that a code host wakes, which the demo simulates. */
const more = join(import.meta.dirname, '../../testdata/demo-codehost/fleet');
/** Often, so that a push is seen while one looks; a code host's webhook does it at once. */
const demoIntervalSeconds = 2;

/** The demo repository, made on the first run and kept with its commits ever after. */
export async function demoSource(dataDir: string): Promise<Source> {
  const root = join(dataDir, 'demo');
  await makeRepository(root);
  const server = await serve(root);
  const cloneUrl = server.url('fleet.git');
  return {
    name: demo,
    settings: { url: cloneUrl, branch: 'main', intervalSeconds: demoIntervalSeconds },
    cloneUrl,
    stop: () => server.stop(),
  };
}

async function makeRepository(root: string): Promise<void> {
  const target = join(root, 'fleet.git');
  if (await exists(join(target, 'HEAD'))) return;
  await mkdir(root, { recursive: true, mode: 0o700 });
  const draft = await mkdtemp(join(root, 'draft-'));
  const git = async (args: readonly string[], tree = files): Promise<string> =>
    (
      await runGit(args, {
        cwd: tree,
        env: { GIT_DIR: draft, GIT_WORK_TREE: tree, GIT_INDEX_FILE: join(draft, 'index') },
      })
    )
      .toString('utf8')
      .trim();
  try {
    await runGit(['init', '--quiet', '--bare', draft], { cwd: root });
    await git(['symbolic-ref', 'HEAD', 'refs/heads/main']);
    await git(['add', '--all', '--force', '.']);
    await git(['add', '--ignore-removal', '--force', '.'], more);
    const tree = await git(['write-tree']);
    const commit = await git(['commit-tree', '-m', 'Plant a small fleet', tree]);
    await git(['update-ref', 'refs/heads/main', commit]);
    // Whole or not at all: a run that is stopped here leaves no half repository behind.
    await rename(draft, target);
  } catch (error) {
    await rm(draft, { recursive: true, force: true });
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') throw new DemoError('git is not installed on this machine');
    throw error;
  }
}

// The same port as last time where it is free, so that a clone made then can still push.
async function serve(root: string): Promise<GitServer> {
  const file = join(root, 'port');
  const kept = Number(await readFile(file, 'utf8').catch(() => '0'));
  const port = Number.isInteger(kept) && kept > 0 && kept < 65_536 ? kept : 0;
  const server = await new GitServer({ root, allowPush: true, port }).start().catch((error: NodeJS.ErrnoException) => {
    if (port === 0 || error.code !== 'EADDRINUSE') throw error;
    return new GitServer({ root, allowPush: true }).start();
  });
  await writeFile(file, new URL(server.origin).port);
  return server;
}

/** A path (a folder, watched as it lies, or a bare repository) or a URL. */
export async function givenSource(given: string): Promise<Source> {
  if (/^[a-z][a-z0-9+.-]*:\/\//i.test(given)) return { name: nameOf(given), settings: { url: given } };
  const path = resolve(given.replace(/^~(?=\/|$)/, homedir()));
  const found = await stat(path).catch(() => undefined);
  if (found === undefined) throw new DemoError(`REPO=${given}: there is no such path; a URL begins with https://`);
  if (!found.isDirectory()) throw new DemoError(`REPO=${given}: this is not a directory`);
  const head = await readFile(join(path, 'HEAD'), 'utf8').catch(() => '');
  const branch = /^ref: refs\/heads\/(.+)$/m.exec(head)?.[1];
  if (branch !== undefined && (await exists(join(path, 'objects')))) {
    return { name: nameOf(path), settings: { path, branch } };
  }
  return { name: nameOf(path), settings: { path }, folder: path };
}

const nameOf = (source: string): string =>
  basename(withoutEnd(source.replace(/[?#].*$/, ''), '/'), '.git')
    .replace(/[^A-Za-z0-9_.-]+/g, '-')
    .slice(0, 128) || 'repository';
