// One clone: which commit a ref is, the objects, the size of its tree, and only then its files. Refs are asked for by
// full name, so that none can be taken for an option or for another kind of ref.

import { mkdir } from 'node:fs/promises';
import { join } from 'node:path/posix';
import { Fault } from '../../domain/fault.ts';
import { isRef } from '../../domain/git-ref.ts';
import { findProgram } from './bubblewrap.ts';
import { addSettings } from './git-settings.ts';
import { type GitResult, type GitRun, harmlessMistakes, lastLine, runGit, tooOld } from './git-program.ts';
import type { LocalGit, Measured, Mirror } from './mirrors.ts';
import type { MountOptions, MountRequest } from './mount-types.ts';
import { packBytesOf } from './pack-files.ts';
import { removeTree } from '../../base/remove-tree.ts';
import { treeDifference } from './tree-difference.ts';
import { treeSize } from './tree-size.ts';
import { fillWorkTree, type Spare } from './work-tree.ts';

interface Place {
  /** For messages: `Mount /path`. */
  readonly name: string;
  /** An empty directory. */
  readonly stage: string;
  readonly address: string | null;
}

export interface Fetched {
  readonly commit: string;
  readonly branch: string | null;
}

interface Ref {
  readonly id: string;
  /** In full; null for an object that is asked for by its id. */
  readonly name: string | null;
}

/** A stage that was filled from a mirror. */
interface Brought {
  readonly commit: string;
  readonly spare: Spare | null;
}

const objectId = /^[0-9a-f]{40}$|^[0-9a-f]{64}$/;
const sizeCheckMs = 250;
const refsBytes = 64 * 1024 * 1024;
const pathBytes = 64 * 1024;
const defaults = {
  timeoutMs: 15 * 60_000,
  maxPackBytes: 4 * 1024 ** 3,
  maxTreeBytes: 8 * 1024 ** 3,
  maxFiles: 1_000_000,
};

/** Clones into `place.stage`. Faults as `mountRepository`. */
export async function fetchCommit(request: MountRequest, options: MountOptions, place: Place): Promise<Fetched> {
  const program = await findProgram('git', options.path);
  if (program === null) {
    throw new Fault('unavailable', 'mount-unreachable', `${place.name}: there is no git program on this machine`);
  }
  await requireVersion(program, options.path, place);
  const limits = { ...defaults, ...options };
  const time = AbortSignal.timeout(limits.timeoutMs);
  const signal = options.signal === undefined ? time : AbortSignal.any([time, options.signal]);
  const clone = new Clone(program, request, limits, place, signal);
  try {
    return await clone.run();
  } catch (error) {
    if (!time.aborted || options.signal?.aborted === true) throw error;
    const message = `${place.name}: ${request.url} was not cloned within ${limits.timeoutMs / 1000} s`;
    throw new Fault('unavailable', 'mount-unreachable', message);
  }
}

async function requireVersion(program: string, path: string, place: Place): Promise<void> {
  const version = await tooOld(program, path, place.stage);
  if (version === null) return;
  const message = `${place.name}: mounts need git 2.37 or later, and this machine has ${version || 'none that works'}`;
  throw new Fault('unavailable', 'mount-unreachable', message);
}

class Clone {
  readonly #program: string;
  readonly #request: MountRequest;
  readonly #limits: MountOptions & typeof defaults;
  readonly #place: Place;
  readonly #signal: AbortSignal;
  #remoteConfig: Record<string, string> = {};

  constructor(
    program: string,
    request: MountRequest,
    limits: MountOptions & typeof defaults,
    place: Place,
    signal: AbortSignal,
  ) {
    this.#program = program;
    this.#request = request;
    this.#limits = limits;
    this.#place = place;
    this.#signal = signal;
  }

  async run(): Promise<Fetched> {
    const { ref, url } = this.#request;
    if (ref !== undefined && !isRef(ref)) throw this.#fault('mount-ref', `${JSON.stringify(ref)} is not a ref`);
    const authorization = await this.#request.authorization?.();
    this.#remoteConfig = this.#remote(authorization);
    const found = await this.#resolve();
    const branch = found.name?.startsWith('refs/heads/') === true ? found.name.slice('refs/heads/'.length) : null;
    const { mirrors } = this.#limits;
    const mirror = mirrors?.kept.of({ scope: mirrors.scope, url, ...this.#shallow(found) });
    if (mirrors === undefined || mirror === undefined) {
      const { commit } = await this.#clone(found, branch);
      return { commit, branch };
    }
    const git: LocalGit = (cwd, args, signal) => this.#localIn(cwd, args, signal);
    await mirrors.kept.ready(mirror, this.#signal);
    const kept = await mirrors.kept.inTurn(mirror, () => this.#bring(found, mirror, git), this.#signal);
    const isOut = kept !== null && (await this.#checkOutKept(kept, branch, mirror));
    const { commit } = isOut
      ? kept
      : await this.#clone(found, branch, (measured) =>
          mirrors.kept.inTurn(mirror, () => mirror.fill(this.#place.stage, measured, git, this.#signal), this.#signal),
        );
    mirrors.kept.prepare(mirror, git);
    return { commit, branch };
  }

  async #clone(
    found: Ref,
    branch: string | null,
    keep?: (measured: Measured) => Promise<unknown>,
  ): Promise<{ readonly commit: string }> {
    const { stage } = this.#place;
    await this.#local(['init', '--quiet', '--template=', `--object-format=${formatOf(found.id)}`, '.']);
    await this.#setOrigin();
    await this.#fetch(found, stage, join(stage, '.git'));
    const commit = await this.#commit(found, stage);
    const measured = await this.#measure(commit, stage, join(stage, '.git'), null);
    await this.#checkOut(commit, branch, null);
    await keep?.(measured);
    return { commit };
  }

  /** Fetches the difference to the mirror, and fills the stage from there; null where there is no mirror that can be used. */
  async #bring(found: Ref, mirror: Mirror, git: LocalGit): Promise<Brought | null> {
    if (!(await mirror.isThere())) return null;
    const { stage } = this.#place;
    try {
      await this.#fetch(found, mirror.bare, mirror.bare);
      await git(mirror.bare, ['pack-refs', '--all'], this.#signal);
      const commit = await this.#commit(found, mirror.bare);
      const measured = await mirror.measured();
      const isSame = measured?.commit === commit;
      const difference =
        measured === null || isSame
          ? null
          : await treeDifference((run) => this.#git({ ...run, cwd: mirror.bare }), measured.commit, commit);
      if (!isSame || measured.limits !== this.#limitsText()) {
        const from = measured === null || difference === null ? null : { size: measured, difference };
        await mirror.setMeasured(await this.#measure(commit, mirror.bare, mirror.bare, from));
      }
      const spare = await mirror.furnish(stage, git, this.#signal);
      await this.#setOrigin();
      return { commit, spare: spare === null ? null : { commit: spare, difference } };
    } catch (error) {
      // What the remote says holds. What is wrong with the mirror, a clone does not have.
      if (this.#signal.aborted || (error instanceof Fault && /^mount-re/.test(error.code))) throw error;
      const isUnreachable = error instanceof Fault && error.code === 'mount-unreachable';
      if (isUnreachable && (await mirror.isWhole(git, this.#signal))) throw error;
      await this.#startAnew(mirror);
      return null;
    }
  }

  async #startAnew(mirror: Mirror): Promise<void> {
    await mirror.drop();
    await removeTree(this.#place.stage);
    await mkdir(this.#place.stage, { mode: 0o755 });
  }

  /** False where objects that came from the mirror cannot be read, which is dropped for that. */
  async #checkOutKept({ commit, spare }: Brought, branch: string | null, mirror: Mirror): Promise<boolean> {
    try {
      await this.#checkOut(commit, branch, spare);
      return true;
    } catch (error) {
      if (this.#signal.aborted || !(error instanceof Fault)) throw error;
      await this.#limits.mirrors?.kept.inTurn(mirror, () => this.#startAnew(mirror), this.#signal);
      return false;
    }
  }

  async #setOrigin(): Promise<void> {
    const settings = { url: this.#request.url, fetch: '+refs/heads/*:refs/remotes/origin/*' };
    await addSettings(this.#place.stage, [{ section: 'remote', name: 'origin', settings }]);
  }

  #shallow(found: Ref): { readonly shallow?: { readonly depth: number; readonly ref: string } } {
    const { depth } = this.#request;
    return depth === undefined ? {} : { shallow: { depth, ref: found.name ?? found.id } };
  }

  #limitsText(): string {
    const { maxFiles, maxTreeBytes, maxPackBytes } = this.#limits;
    return [maxFiles, maxTreeBytes, maxPackBytes].join(' ');
  }

  /** The credential is for this server alone, and no answer of it leads elsewhere. */
  #remote(authorization: string | undefined): Record<string, string> {
    const { protocol, origin } = new URL(this.#request.url);
    if (authorization !== undefined && /[\0-\x1f\x7f]/.test(authorization)) {
      throw this.#fault('mount-refused', 'its credential cannot be a header');
    }
    return {
      [`protocol.${protocol.slice(0, -1)}.allow`]: 'always',
      'http.followRedirects': 'false',
      'transfer.fsckObjects': 'true',
      // A pack whatever it holds: what is copied from a mirror, and measured, are packs.
      'fetch.unpackLimit': '1',
      ...Object.fromEntries(harmlessMistakes.map((id) => [`fetch.fsck.${id}`, 'ignore'])),
      ...(this.#place.address === null ? {} : { 'http.curloptResolve': this.#place.address }),
      ...(authorization === undefined ? {} : { [`http.${origin}/.extraHeader`]: `Authorization: ${authorization}` }),
    };
  }

  /** The full name and object of the ref: a branch before a tag, as people mean it; an object id as it is. */
  async #resolve(): Promise<Ref> {
    const { url } = this.#request;
    const ref = this.#request.ref === 'HEAD' ? undefined : this.#request.ref;
    const names =
      ref === undefined
        ? ['HEAD']
        : [...(ref.startsWith('refs/') ? [ref] : []), `refs/heads/${ref}`, `refs/tags/${ref}`];
    const result = await this.#git({ args: ['ls-remote', '--symref', '--', url, ...names], isRemote: true });
    if (result.code !== 0) throw this.#remoteFault(result);
    const lines = result.stdout.split('\n').map((line) => line.split('\t'));
    const ids = new Map(lines.map(([id = '', name = '']) => [name, id]));
    if (ref === undefined) {
      const head = lines.find(([target, name]) => name === 'HEAD' && target?.startsWith('ref: '))?.[0]?.slice(5);
      const id = lines.find(([target = '', name]) => name === 'HEAD' && objectId.test(target))?.[0];
      if (id !== undefined) return { id, name: head ?? null };
      throw this.#fault('mount-ref', `${url} has no default branch`);
    }
    for (const name of names) {
      const id = ids.get(name);
      if (id !== undefined && objectId.test(id)) return { id, name };
    }
    if (objectId.test(ref)) return { id: ref, name: null };
    throw this.#fault('mount-ref', `${url} has no branch or tag ${ref}`);
  }

  /** `repository`: where its objects are, for one that has a work tree or none. */
  async #fetch(found: Ref, cwd: string, repository: string): Promise<void> {
    const { depth } = this.#request;
    const shallow = depth === undefined ? [] : [`--depth=${depth}`];
    const kept = keptAs(found);
    const own = `+${found.name ?? found.id}${kept === null ? '' : `:${kept}`}`;
    // Without a depth it is a clone as people know it: every branch and tag.
    const all = depth === undefined ? ['+refs/heads/*:refs/remotes/origin/*', '+refs/tags/*:refs/tags/*'] : [];
    // A branch that is gone is not in a clone of now.
    const prune = depth === undefined ? ['--prune'] : [];
    const options = ['--quiet', '--no-tags', '--no-recurse-submodules', ...prune, ...shallow];
    const args = ['fetch', ...options, 'origin', own, ...all];
    const watch = new AbortController();
    const size = this.#watchSize(watch, repository);
    const result = await this.#git({ args, cwd, isRemote: true, signal: watch.signal }).finally(() => size.stop());
    if (result.code === 0) return;
    if (found.name === null && /not our ref|unadvertised|couldn't find remote ref/i.test(result.stderr)) {
      throw this.#fault('mount-ref', `${this.#request.url} has no commit ${found.id}`);
    }
    throw this.#remoteFault(result);
  }

  /** Ends the fetch when what it wrote is over the limit. */
  #watchSize(watch: AbortController, repository: string): { stop: () => void } {
    const limit = this.#limits.maxPackBytes;
    const check = async (): Promise<void> => {
      const bytes = await packBytesOf(repository);
      if (bytes > limit) watch.abort(this.#tooLarge(`more than ${limit} bytes of objects`));
    };
    // A directory that changes while it is read is looked at again.
    const timer = setInterval(() => void check().catch(() => undefined), sizeCheckMs);
    return { stop: () => clearInterval(timer) };
  }

  async #commit(found: Ref, cwd: string): Promise<string> {
    // What was fetched: a branch may have moved since it was asked for.
    const name = keptAs(found) ?? found.id;
    const result = await this.#git({ args: ['rev-parse', '--verify', '--quiet', `${name}^{commit}`], cwd });
    const commit = result.stdout.trim();
    if (result.code === 0 && objectId.test(commit)) return commit;
    throw this.#fault('mount-ref', `${this.#request.ref ?? 'HEAD'} of ${this.#request.url} is no commit`);
  }

  async #measure(
    commit: string,
    cwd: string,
    repository: string,
    known: Parameters<typeof treeSize>[2],
  ): Promise<Measured> {
    const { maxFiles, maxTreeBytes, maxPackBytes } = this.#limits;
    const packed = await packBytesOf(repository);
    if (packed > maxPackBytes) throw this.#tooLarge(`more than ${maxPackBytes} bytes of objects`);
    const size = await treeSize(
      (run) => this.#git({ ...run, cwd }),
      commit,
      known,
      ({ files, bytes, longestPath }) => {
        if (longestPath > pathBytes) throw this.#fault('mount-tree', 'its tree has a path of more than 64 KiB');
        if (files > maxFiles) throw this.#tooLarge(`more than ${maxFiles} files`);
        if (bytes > maxTreeBytes) throw this.#tooLarge(`more than ${maxTreeBytes} bytes of files`);
      },
    );
    if ('failed' in size) throw this.#fault('mount-tree', `its tree cannot be read: ${lastLine(size.failed)}`);
    return { commit, ...size, limits: this.#limitsText() };
  }

  async #checkOut(commit: string, branch: string | null, spare: Spare | null): Promise<void> {
    const author = this.#request.commitAuthor;
    await addSettings(this.#place.stage, [
      ...(author === undefined ? [] : [{ section: 'user', settings: { name: author.name, email: author.email } }]),
      ...(branch === null
        ? []
        : [{ section: 'branch', name: branch, settings: { remote: 'origin', merge: `refs/heads/${branch}` } }]),
    ]);
    if (branch === null) await this.#local(['update-ref', '--no-deref', 'HEAD', commit]);
    else {
      await this.#local(['update-ref', `refs/heads/${branch}`, commit]);
      await this.#local(['symbolic-ref', 'HEAD', `refs/heads/${branch}`]);
    }
    const failed = await fillWorkTree((run) => this.#git(run), this.#place.stage, commit, spare);
    if (failed !== null) throw this.#fault('mount-tree', `its files cannot be written: ${lastLine(failed)}`);
  }

  async #local(args: readonly string[]): Promise<void> {
    const result = await this.#git({ args });
    if (result.code !== 0) throw this.#fault('mount-tree', `git ${args[0]} failed: ${lastLine(result)}`);
  }

  async #localIn(cwd: string, args: readonly string[], signal: AbortSignal): Promise<string> {
    const result = await runGit(this.#program, this.#limits.path, { args, cwd, signal, keptBytes: refsBytes });
    if (result.code !== 0) throw new Error(`git ${args[0]} of a mirror failed: ${lastLine(result)}`);
    if (result.stdout.length >= refsBytes)
      throw new Error(`git ${args[0]} of a mirror says more than ${refsBytes} bytes`);
    return result.stdout;
  }

  #git(
    run: Pick<GitRun, 'args' | 'read' | 'input'> & { cwd?: string; isRemote?: boolean; signal?: AbortSignal },
  ): Promise<GitResult> {
    return runGit(this.#program, this.#limits.path, {
      args: run.args,
      cwd: run.cwd ?? this.#place.stage,
      signal: run.signal === undefined ? this.#signal : AbortSignal.any([this.#signal, run.signal]),
      ...(run.isRemote === true && { config: this.#remoteConfig }),
      ...(run.read !== undefined && { read: run.read }),
      ...(run.input !== undefined && { input: run.input }),
    });
  }

  #fault(code: string, what: string): Fault {
    return new Fault('unprocessable', code, `${this.#place.name}: ${what}`);
  }

  #tooLarge(what: string): Fault {
    return new Fault('too_large', 'mount-too-large', `${this.#place.name}: ${this.#request.url} has ${what}`);
  }

  #remoteFault(result: GitResult): Fault {
    const { stderr } = result;
    const { url } = this.#request;
    if (
      /terminal prompts disabled|could not read Username|Authentication failed|error: 40[134]|not found/i.test(stderr)
    ) {
      return this.#fault('mount-refused', `${url} is refused to this credential, or is no repository`);
    }
    if (/fsck error|error: object \w+:|invalid (path|object)|index-pack failed/i.test(stderr)) {
      return this.#fault('mount-tree', `${url} holds what no honest repository does: ${lastLine(result)}`);
    }
    const message = `${this.#place.name}: ${url} cannot be cloned now: ${lastLine(result)}`;
    return new Fault('unavailable', 'mount-unreachable', message);
  }
}

/** The name in the clone of a branch or tag of the remote. */
function keptAs({ name }: Ref): string | null {
  if (name?.startsWith('refs/heads/') === true) return `refs/remotes/origin/${name.slice('refs/heads/'.length)}`;
  return name?.startsWith('refs/tags/') === true ? name : null;
}

const formatOf = (id: string): string => (id.length === 64 ? 'sha256' : 'sha1');
