// Files as imports meet them: looked up in the tree or a template, parsed once, and written down as what an agent
// depends on. What the tree does not have yet is collected as a need (docs/reference/repositories.md#files-outside).

import type { Bundle, BundleEntry } from '../../domain/bundle.ts';
import { nearest } from '../../domain/nearest.ts';
import { decodeText, readSource } from '../source/source.ts';
import type { Cache, Dependency, ParsedSource } from './cache.ts';
import { type FileRef, pathBeside } from './paths.ts';
import type { CompileInput } from './types.ts';
import { withoutEnd } from '../../domain/text.ts';

export type LookupResult =
  | { readonly kind: 'file'; readonly entry: BundleEntry; readonly bytes: Uint8Array }
  | { readonly kind: 'link'; readonly path: string; readonly what: 'symlink' | 'submodule' }
  | { readonly kind: 'too-large' | 'missing' | 'needed' };

const fileBytesMax = 1024 * 1024;
/** Missing files of a compile, and files of a folder, that are held against each other for a near name. */
const comparedMax = 200;
const namesMax = 1_000;
/** Files of one name but for folder and extension that are told apart. */
const alikeMax = 20;

const isInside = (path: string): boolean => path.startsWith('.svc/');

/** What is at this path, as text that changes when that does; null where nothing is. */
export function pathState(bundle: Bundle, path: string): string | null {
  const entry = bundle.entries.get(path);
  return entry === undefined ? null : `${entry.kind} ${entry.oid} ${entry.tooLarge === true}`;
}

/** Which version this template is, alike; null where it cannot be had. */
export function templateState(input: CompileInput, specifier: string): string | null {
  const template = input.templates.get(specifier);
  return template === undefined || 'error' in template ? null : `${template.version} ${template.integrity}`;
}

/** Paths of all folders above a path, nearest first. */
function* foldersAbove(path: string): Generator<string> {
  for (let at = path.lastIndexOf('/'); at > 0; at = path.lastIndexOf('/', at - 1)) yield path.slice(0, at);
}

export class Files {
  readonly neededPaths = new Set<string>();
  readonly neededTemplates = new Set<string>();
  /** Paths outside `.svc/` that something names. */
  readonly outside = new Set<string>();
  readonly #input: CompileInput;
  readonly #cache: Cache;
  readonly #names = new Map<object, Names>();
  #compared = 0;
  /** Of the file that was read last and is not remembered: its places are told next. */
  #latest: { readonly id: string; readonly text: string } | undefined;

  constructor(input: CompileInput, cache: Cache) {
    this.#input = input;
    this.#cache = cache;
  }

  /** Counts a path that something names. */
  named(path: string): void {
    if (!isInside(path)) this.outside.add(path);
  }

  /** Looks a file up, and adds to `dependencies` what the answer rests on. */
  find(ref: FileRef, dependencies: Dependency[]): LookupResult {
    if (ref.template !== null) return judge(ref.template.files, ref.path) ?? { kind: 'missing' };
    const { bundle } = this.#input;
    dependencies.push({ kind: 'path', name: ref.path, state: pathState(bundle, ref.path) });
    this.named(ref.path);
    const found = judge(bundle.entries, ref.path);
    if (found !== null) return found;
    if (bundle.absent.has(ref.path) || isInside(ref.path)) return { kind: 'missing' };
    this.neededPaths.add(ref.path);
    return { kind: 'needed' };
  }

  /** A file of documents, parsed once for each content, which is remembered unless `isKept` says otherwise. */
  source(ref: FileRef, entry: BundleEntry, bytes: Uint8Array, isKept = true): ParsedSource {
    const key = `${ref.id}\0${entry.oid}`;
    const known = this.#cache.sources.get(key);
    if (known !== undefined) return known;
    // Its text is there again in the bytes, for whoever has to show a place of it.
    const { text, ...source } = readSource(ref.id, bytes);
    const parsed = { ...source, length: text.length };
    if (isKept) this.#cache.sources.set(key, parsed);
    else this.#latest = { id: ref.id, text };
    return parsed;
  }

  /** A file of text for `file:`, strictly decoded. */
  text(ref: FileRef, bytes: Uint8Array): ReturnType<typeof decodeText> {
    return decodeText(ref.id, bytes, fileBytesMax);
  }

  /** The text of a file that a finding names, for its line and column. */
  textOf(id: string): string | undefined {
    if (this.#latest?.id === id) return this.#latest.text;
    const bytes = this.#input.bundle.entries.get(id)?.bytes ?? this.#templateBytes(id);
    return bytes === undefined ? undefined : decodeText(id, bytes, fileBytesMax).text;
  }

  /** True where something is at that very path. */
  has(ref: FileRef): boolean {
    return (ref.template?.files ?? this.#input.bundle.entries).has(ref.path);
  }

  /** True where the path is that of a folder. */
  isFolder(ref: FileRef): boolean {
    return this.#namesOf(ref).folders.has(withoutEnd(ref.path, '/'));
  }

  /** For a path that names no file: the first usable one with its file name, else with that but for the extension, else nearly that. */
  nearest(ref: FileRef, isUsable: (path: string) => boolean): string | undefined {
    const names = this.#namesOf(ref);
    const alike = (names.byStem.get(stem(ref.path)) ?? []).filter(isUsable);
    const name = nameOf(ref.path).toLowerCase();
    return alike.find((path) => nameOf(path).toLowerCase() === name) ?? alike[0] ?? this.#misspelt(ref, isUsable);
  }

  /** How a document of the tree, or of a template, writes a path of it. */
  textBeside(from: FileRef, path: string): string {
    return pathBeside(from, path, this.#input.root);
  }

  /** Gathered once for a tree: a broken one may ask as often as it has imports. */
  #namesOf(ref: FileRef): Names {
    const entries = ref.template?.files ?? this.#input.bundle.entries;
    const names = this.#names.get(entries) ?? namesIn(entries);
    this.#names.set(entries, names);
    return names;
  }

  /** A usable file of the same folder whose name is nearly that one. */
  #misspelt(ref: FileRef, isUsable: (path: string) => boolean): string | undefined {
    if (++this.#compared > comparedMax) return undefined;
    const folder = ref.path.slice(0, ref.path.lastIndexOf('/') + 1);
    const names = this.#namesOf(ref).byFolder.get(folder) ?? [];
    const usable = names.filter((name) => isUsable(folder + name));
    const name = nearest(nameOf(ref.path), usable);
    return name === undefined ? undefined : folder + name;
  }

  #templateBytes(id: string): Uint8Array | undefined {
    for (const template of this.#input.templates.values()) {
      if ('error' in template) continue;
      const prefix = `${template.name}@${template.version}/`;
      const bytes = id.startsWith(prefix) ? template.files.get(id.slice(prefix.length))?.bytes : undefined;
      if (bytes !== undefined) return bytes;
    }
    return undefined;
  }
}

interface Names {
  readonly folders: ReadonlySet<string>;
  /** Paths, some of many that are alike. */
  readonly byStem: ReadonlyMap<string, readonly string[]>;
  /** Names of the files of a folder, whose path ends in `/` or is empty. */
  readonly byFolder: ReadonlyMap<string, readonly string[]>;
}

function namesIn(entries: ReadonlyMap<string, BundleEntry>): Names {
  const folders = new Set<string>();
  const byStem = new Map<string, string[]>();
  const byFolder = new Map<string, string[]>();
  for (const path of [...entries.keys()].sort()) {
    for (const folder of foldersAbove(path)) folders.add(folder);
    const alike = byStem.get(stem(path)) ?? [];
    if (alike.length < alikeMax) alike.push(path);
    byStem.set(stem(path), alike);
    const folder = path.slice(0, path.lastIndexOf('/') + 1);
    const names = byFolder.get(folder) ?? [];
    if (names.length < namesMax) names.push(path.slice(folder.length));
    byFolder.set(folder, names);
  }
  return { folders, byStem, byFolder };
}

const nameOf = (path: string): string => path.slice(path.lastIndexOf('/') + 1);
const stem = (path: string): string =>
  nameOf(path)
    .replace(/\.[a-z]+$/i, '')
    .toLowerCase();

/** The entry at a path, or the link that stands in its way; null where there is neither. */
function judge(entries: ReadonlyMap<string, BundleEntry>, path: string): LookupResult | null {
  const entry = entries.get(path);
  if (entry?.kind === 'symlink' || entry?.kind === 'submodule') return { kind: 'link', path, what: entry.kind };
  if (entry !== undefined) {
    return entry.bytes === undefined ? { kind: 'too-large' } : { kind: 'file', entry, bytes: entry.bytes };
  }
  for (const folder of foldersAbove(path)) {
    const above = entries.get(folder);
    if (above?.kind === 'symlink' || above?.kind === 'submodule')
      return { kind: 'link', path: folder, what: above.kind };
  }
  return null;
}
