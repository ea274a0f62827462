// Root file systems of presets (docs/reference/sessions.md#presets), kept by content under the data directory: made from a
// directory or an archive, and shown read-only by sandboxes that can. It decides what of a source may enter, and what its
// digest is: names, kinds, modes and contents, and nothing of when or where it was made. It runs nothing of what it
// keeps, and never follows a link of it.

import { mkdtemp, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { makeDirectory } from '../../base/files.ts';
import { removeAbandoned, removeTree } from '../../base/remove-tree.ts';
import { pathInRoot } from '../../base/root-path.ts';
import { Fault } from '../../domain/fault.ts';
import { resourceNamePattern } from '../../domain/spec.ts';
import { copyDirectory, digestOfDirectory, fingerprintOf } from './directory.ts';
import { type Limits, limitsTable, type Tree } from './tree.ts';
import { unpackArchive } from './unpack.ts';

export interface BuiltPreset {
  readonly name: string;
  /** `sha256:` and 64 hexadecimal digits. */
  readonly digest: string;
  /** ISO 8601. */
  readonly builtAt: string;
  /** What it was made from, as it was given. */
  readonly from: string;
  readonly files: number;
  readonly bytes: number;
  /** The directory, absolute. */
  readonly rootfs: string;
}

export interface RootFileSystem {
  readonly path: string;
  readonly digest: string;
}

const digestPattern = /^sha256:([0-9a-f]{64})$/;
/** A directory of the operator's own is looked at again after so long. */
const lookedMs = 30_000;

const draftPrefix = '.draft-';

/** The presets of one data directory. */
export class PresetStore {
  readonly #root: string;
  readonly #sandboxes: string;
  readonly #known = new Map<string, { at: number; fingerprint: string; digest: string }>();

  constructor(dataDir: string) {
    this.#root = join(dataDir, 'presets');
    this.#sandboxes = join(dataDir, 'sandboxes');
  }

  /**
   * Makes a preset from a directory or an archive (tar, plain or packed by gzip or zstd), in place of an earlier one of its
   * name. Throws Fault `unprocessable`: `preset-name`, `preset-source`, `preset-entry` (an entry that must not enter) and
   * `preset-not-a-system`; `preset-too-large` (`too_large`). Nothing is changed then.
   */
  async build(name: string, from: string, options: { now: Date; limits?: Partial<Limits> }): Promise<BuiltPreset> {
    checkName(name);
    const found = await stat(from).catch((error: NodeJS.ErrnoException) => {
      throw new Fault('unprocessable', 'preset-source', `${from} cannot be read (${error.code})`);
    });
    const store = join(this.#root, 'store');
    await makeDirectory(store);
    await makeDirectory(join(this.#root, 'names'));
    const draft = await mkdtemp(join(store, draftPrefix));
    try {
      await removeAbandoned(draft, draftPrefix);
      const limits = { ...limitsTable, ...options.limits };
      const tree: Tree = found.isDirectory()
        ? await copyDirectory(from, draft, limits)
        : await unpackArchive(from, draft, limits);
      if ((await pathInRoot(draft, '/bin/sh')) === null) {
        const message = `${from} holds no /bin/sh: it is no root file system that programs run in`;
        throw new Fault('unprocessable', 'preset-not-a-system', message);
      }
      const digest = tree.digest();
      const place = this.#place(digest);
      await rename(draft, place).catch((error: NodeJS.ErrnoException) => {
        // The same content is there already.
        if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') throw error;
      });
      const { files, bytes } = tree;
      const built = { name, digest, builtAt: options.now.toISOString(), from, files, bytes };
      await this.#write(name, JSON.stringify(built));
      await this.#collect();
      return { ...built, rootfs: place };
    } finally {
      await removeTree(draft);
    }
  }

  /** By name. */
  async list(): Promise<BuiltPreset[]> {
    const names = await readdir(join(this.#root, 'names')).catch(noneThere);
    const wanted = names.filter((file) => file.endsWith('.json')).map((file) => file.slice(0, -'.json'.length));
    const found = await Promise.all(wanted.sort().map((name) => this.find(name)));
    return found.filter((one) => one !== undefined);
  }

  /** Undefined where none of that name was built here. */
  async find(name: string): Promise<BuiltPreset | undefined> {
    if (!resourceNamePattern.test(name)) return undefined;
    const text = await readFile(this.#file(name), 'utf8').catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return undefined;
      throw error;
    });
    if (text === undefined) return undefined;
    const built = JSON.parse(text) as Omit<BuiltPreset, 'rootfs'>;
    return { ...built, rootfs: this.#place(built.digest) };
  }

  /** False where there is none. Throws Fault `conflict` while a sandbox of this data directory stands on it. */
  async remove(name: string): Promise<boolean> {
    const built = await this.find(name);
    if (built === undefined) return false;
    const others = (await this.list()).filter((one) => one.name !== name && one.digest === built.digest);
    const users = others.length > 0 ? [] : ((await this.#users()).get(built.rootfs) ?? []);
    if (users.length > 0) {
      const more = users.length > 3 ? ` and ${users.length - 3} more` : '';
      const message = `Preset ${name} is in use by session ${users.slice(0, 3).join(', ')}${more}.`;
      throw new Fault('conflict', 'preset-in-use', message);
    }
    await rm(this.#file(name), { force: true });
    await this.#collect();
    return true;
  }

  /** A directory of the operator's own with its digest. Throws Fault `unprocessable` where it is none. */
  async directory(path: string): Promise<RootFileSystem> {
    const known = this.#known.get(path);
    const now = performance.now();
    if (known !== undefined && now - known.at < lookedMs) return { path, digest: known.digest };
    const fingerprint = await fingerprintOf(path).catch((error: NodeJS.ErrnoException) => {
      throw new Fault('unprocessable', 'preset-rootfs', `The root file system ${path} cannot be read (${error.code})`);
    });
    const digest = known?.fingerprint === fingerprint ? known.digest : await digestOfDirectory(path, limitsTable);
    this.#known.set(path, { at: now, fingerprint, digest });
    return { path, digest };
  }

  #file(name: string): string {
    return join(this.#root, 'names', `${name}.json`);
  }

  #place(digest: string): string {
    const hex = digestPattern.exec(digest)?.[1];
    if (hex === undefined) throw new Error(`a preset cannot have the digest ${digest}`);
    return join(this.#root, 'store', hex);
  }

  /** Replaced as a whole. */
  async #write(name: string, text: string): Promise<void> {
    const next = join(this.#root, 'names', `.${name}.next`);
    await writeFile(next, text, { mode: 0o600 });
    await rename(next, this.#file(name));
  }

  /** Root file systems that sandboxes stand on, with their sessions. */
  async #users(): Promise<ReadonlyMap<string, string[]>> {
    const users = new Map<string, string[]>();
    for (const id of await readdir(this.#sandboxes).catch(noneThere)) {
      const text = await readFile(join(this.#sandboxes, id, 'sandbox.json'), 'utf8').catch(() => undefined);
      const { spec } = (text === undefined ? {} : JSON.parse(text)) as { spec?: { rootfs?: RootFileSystem } };
      if (spec?.rootfs !== undefined) users.set(spec.rootfs.path, [...(users.get(spec.rootfs.path) ?? []), id]);
    }
    return users;
  }

  /** Removes contents that no name and no sandbox has. */
  async #collect(): Promise<void> {
    const named = new Set((await this.list()).map(({ rootfs }) => rootfs));
    const users = await this.#users();
    for (const entry of await readdir(join(this.#root, 'store')).catch(noneThere)) {
      const place = join(this.#root, 'store', entry);
      if (!entry.startsWith('.') && !named.has(place) && !users.has(place)) await removeTree(place);
    }
  }
}

function checkName(name: string): void {
  if (resourceNamePattern.test(name) && !name.startsWith('.')) return;
  throw new Fault('unprocessable', 'preset-name', 'A preset is called by 1 to 128 characters of A-Za-z0-9_.-');
}

function noneThere(error: NodeJS.ErrnoException): string[] {
  if (error.code === 'ENOENT') return [];
  throw error;
}
