// Git repositories for tests, benches and the demo: made with the git program in a clean environment, filled through
// `git fast-import`, so that a commit of any size is one process and equal calls give equal commit ids.

import { existsSync } from 'node:fs';
import { mkdir, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { startProgram } from './programs.ts';

/** What to write at a path: text, bytes, a link, a submodule, an executable file; null deletes. */
export type FixtureFile =
  | string
  | Uint8Array
  | null
  | { readonly symlink: string }
  | { readonly submodule: string }
  | { readonly executable: string };

export interface CommitOptions {
  readonly branch?: string;
  readonly message?: string;
  /** Seconds since 1970; each commit defaults to one later than the one before. */
  readonly time?: number;
  /** Start a new history instead of growing the branch. */
  readonly orphan?: boolean;
}

/** The environment in which git runs: nothing of the machine's or user's configuration. */
export function gitEnvironment(more: Readonly<Record<string, string>> = {}): Record<string, string> {
  return {
    PATH: process.env['PATH'] ?? '',
    HOME: tmpdir(),
    LC_ALL: 'C',
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_CONFIG_GLOBAL: '/dev/null',
    GIT_TERMINAL_PROMPT: '0',
    GIT_AUTHOR_NAME: 'Demo',
    GIT_AUTHOR_EMAIL: 'demo@example.com',
    GIT_COMMITTER_NAME: 'Demo',
    GIT_COMMITTER_EMAIL: 'demo@example.com',
    ...more,
  };
}

/** Runs git and gives its standard output. Throws with git's words where it fails. */
export async function runGit(
  args: readonly string[],
  options: {
    readonly cwd: string;
    readonly input?: Iterable<string | Uint8Array> | AsyncIterable<string | Uint8Array>;
    readonly env?: Readonly<Record<string, string>>;
  },
): Promise<Buffer> {
  const { cwd } = options;
  const git = startProgram({ file: 'git', args, cwd, env: gitEnvironment(options.env) });
  const out: Buffer[] = [];
  git.stdout.on('data', (chunk: Buffer) => out.push(chunk));
  // A git that ends early closes its input; its own words say why, so the broken pipe itself is not the news.
  const fed = pipeline(Readable.from(options.input ?? []), git.stdin).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE' && error.code !== 'ERR_STREAM_PREMATURE_CLOSE') throw error;
  });
  const { code, stderr } = await git.ended;
  await fed;
  if (code !== 0) throw new Error(`git ${args[0]} failed (${code}): ${stderr.trim()}`);
  return Buffer.concat(out);
}

export class GitFixture {
  readonly dir: string;
  #time = 1_700_000_000;

  private constructor(dir: string) {
    this.dir = dir;
  }

  /** A new repository at `dir` (bare unless told otherwise) whose HEAD names `branch`. */
  static async create(
    dir: string,
    options: { readonly branch?: string; readonly bare?: boolean; readonly objectFormat?: 'sha1' | 'sha256' } = {},
  ): Promise<GitFixture> {
    await mkdir(dir, { recursive: true });
    const bare = options.bare === false ? [] : ['--bare'];
    const format = options.objectFormat === undefined ? [] : [`--object-format=${options.objectFormat}`];
    await runGit(['init', '-q', ...bare, ...format, '-b', options.branch ?? 'main', '.'], { cwd: dir });
    return new GitFixture(dir);
  }

  async git(args: readonly string[], input?: string | Uint8Array): Promise<string> {
    return (await this.gitBytes(args, input)).toString('utf8').trimEnd();
  }

  async gitBytes(args: readonly string[], input?: string | Uint8Array): Promise<Buffer> {
    return runGit(args, { cwd: this.dir, ...(input === undefined ? {} : { input: [input] }) });
  }

  /** Commits changes of files on top of the branch (which it makes) and gives the commit id. */
  async commit(files: Readonly<Record<string, FixtureFile>>, options: CommitOptions = {}): Promise<string> {
    return this.commitMany(Object.entries(files), options);
  }

  /** The same for a stream of files of any length: they are never held together. */
  async commitMany(
    files: Iterable<readonly [string, FixtureFile]> | AsyncIterable<readonly [string, FixtureFile]>,
    options: CommitOptions = {},
  ): Promise<string> {
    const branch = options.branch ?? 'main';
    const ref = `refs/heads/${branch}`;
    const exists = options.orphan !== true && (await this.#at(ref)) !== undefined;
    this.#time = options.time ?? this.#time + 1;
    const message = options.message ?? 'Change files';
    const head = `commit ${ref}\ncommitter Demo <demo@example.com> ${this.#time} +0000\ndata ${Buffer.byteLength(message)}\n${message}\n`;
    const input = async function* () {
      if (options.orphan === true) yield `reset ${ref}\n`;
      yield head;
      if (exists) yield `from ${ref}^0\n`;
      for await (const [path, file] of files) yield change(path, file);
      yield '\ndone\n';
    };
    await runGit(['fast-import', '--quiet', '--force', '--done'], { cwd: this.dir, input: input() });
    return (await this.#at(ref)) ?? this.head(branch);
  }

  /** Where a ref points, read from its file: a program for each would take most of a commit's time. */
  async #at(ref: string): Promise<string | undefined> {
    const git = existsSync(join(this.dir, '.git')) ? join(this.dir, '.git') : this.dir;
    const loose = await readFile(join(git, ref), 'utf8').catch(() => '');
    if (/^[0-9a-f]{40,64}$/.test(loose.trim())) return loose.trim();
    const packed = await readFile(join(git, 'packed-refs'), 'utf8').catch(() => '');
    return packed
      .split('\n')
      .find((line) => line.endsWith(` ${ref}`))
      ?.split(' ')[0];
  }

  /** The commit id of a branch. */
  async head(branch = 'main'): Promise<string> {
    return this.git(['rev-parse', '--verify', `refs/heads/${branch}`]);
  }

  /** Writes an object without asking whether it makes sense, for hostile trees. */
  async writeObject(type: 'blob' | 'tree' | 'commit', bytes: Uint8Array): Promise<string> {
    return this.git(['hash-object', '-t', type, '-w', '--stdin', '--literally'], bytes);
  }

  /** A commit of a tree that is there already, with the branch moved to it. */
  async commitTree(tree: string, options: CommitOptions = {}): Promise<string> {
    this.#time = options.time ?? this.#time + 1;
    const who = `Demo <demo@example.com> ${this.#time} +0000`;
    const text = `tree ${tree}\nauthor ${who}\ncommitter ${who}\n\n${options.message ?? 'Change files'}\n`;
    const commit = await this.writeObject('commit', Buffer.from(text));
    await this.git(['update-ref', `refs/heads/${options.branch ?? 'main'}`, commit]);
    return commit;
  }
}

/** Files of a large repository: `count` source files, spread over directories, and `svcCount` under `.svc/agents/`. */
export function* largeTree(count: number, svcCount: number): Generator<readonly [string, string]> {
  for (let index = 0; index < count; index += 1) {
    const path = `src/d${index % 97}/e${index % 1009}/file-${index}.txt`;
    yield [path, `file ${index}\n${`${(index * 2_654_435_761) >>> 0} `.repeat(40)}\n`];
  }
  for (let index = 0; index < svcCount; index += 1) {
    yield [`.svc/agents/agent-${index}.yaml`, `name: agent-${index}\nsystemPrompt: |\n  You are number ${index}.\n`];
  }
}

function change(path: string, file: FixtureFile): Buffer {
  const name = quoted(path);
  if (file === null) return Buffer.from(`D ${name}\n`);
  if (typeof file === 'object' && 'submodule' in file) return Buffer.from(`M 160000 ${file.submodule} ${name}\n`);
  const [mode, content] =
    typeof file === 'string' || file instanceof Uint8Array
      ? (['100644', file] as const)
      : 'symlink' in file
        ? (['120000', file.symlink] as const)
        : (['100755', file.executable] as const);
  const bytes = Buffer.from(content as Uint8Array);
  return Buffer.concat([Buffer.from(`M ${mode} inline ${name}\ndata ${bytes.length}\n`), bytes, Buffer.from('\n')]);
}

/** A path as fast-import reads it: quoted, with every unusual byte in octal. */
function quoted(path: string): string {
  let text = '"';
  for (const byte of Buffer.from(path)) {
    const plain = byte >= 0x20 && byte < 0x7f && byte !== 0x22 && byte !== 0x5c;
    text += plain ? String.fromCharCode(byte) : `\\${byte.toString(8).padStart(3, '0')}`;
  }
  return `${text}"`;
}
