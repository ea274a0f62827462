// Managed templates: turns `@scope/name@version` into the files of a package, from a configured directory or an npm
// registry, and says which version and which bytes it took (docs/reference/compile.md#templates).
// A lock repeats an earlier resolution exactly or fails; integrity is always verified.
// It never runs anything of a package, never writes outside its cache, never decides which file of a package an import
// means (that is compile's), and never throws for a template: what went wrong is a value that compile reports.

import { Readable, Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGunzip, gzip } from 'node:zlib';
import { buffer } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { extract, pack as createPack } from 'tar-stream';
import { satisfies } from 'semver';
import { sha256 } from '../../../base/hash.ts';
import type { BundleEntry, ResolvedTemplate, TemplateLock, UnresolvedTemplate } from '../../../domain/bundle.ts';
import { directoryIntegrity, fileCollector, tooMuch } from './files.ts';
import { entryHeaderBytesMax, TemplateFailure, unpackedBytesMax } from './limits.ts';
import { readDirectory, type ReadTemplate } from './directory.ts';
import { createDispatcher, type TemplateNetwork } from './guard.ts';
import {
  chooseRelease,
  fetchPackument,
  fetchTarball,
  matchesIntegrity,
  type RegistryAccess,
  tarballIntegrity,
} from './registry.ts';

export type { TemplateNetwork } from './guard.ts';

export type TemplateSource =
  | { readonly scope: string; readonly directory: string }
  | { readonly scope: string; readonly registry: string; readonly tokenSecretRef?: string | undefined };

export interface ResolveOptions {
  /** One for each scope, as configured; `@svc/templates` is always there. */
  readonly sources: readonly TemplateSource[];
  /** Specifiers in it resolve to that version with those bytes, or not at all. */
  readonly lock?: TemplateLock;
  readonly cache?: TemplateCache;
  readonly network?: TemplateNetwork;
  /** The value of a source's `tokenSecretRef`; undefined where the secret does not exist. */
  readonly token?: (secretRef: string) => Promise<string | undefined>;
  readonly signal?: AbortSignal;
  /** Where `@svc/templates` lies; for tests. */
  readonly shippedDirectory?: string;
}

const shippedName = '@svc/templates';
const shippedDirectory = join(import.meta.dirname, '../../../../templates');
const specifierPattern = /^(@[a-z0-9][a-z0-9._~-]*)\/([a-z0-9][a-z0-9._~-]*)@(.{1,256})$/;

interface Work {
  readonly options: ResolveOptions;
  readonly network: TemplateNetwork;
  /** Started once for each package, however many versions of it are asked for. */
  readonly packuments: Map<string, Promise<unknown>>;
  readonly access: Map<string, Promise<RegistryAccess>>;
  readonly dispatcher: () => ReturnType<typeof createDispatcher>;
}

/** Resolves each specifier (`@scope/name@requested`); every one of them is a key of the result. */
export async function resolveTemplates(
  specifiers: readonly string[],
  options: ResolveOptions,
): Promise<Map<string, ResolvedTemplate | UnresolvedTemplate>> {
  const network = options.network ?? {};
  let dispatcher: ReturnType<typeof createDispatcher> | undefined;
  const work: Work = {
    options,
    network,
    packuments: new Map(),
    access: new Map(),
    dispatcher: () => (dispatcher ??= createDispatcher(network)),
  };
  const results = new Map<string, ResolvedTemplate | UnresolvedTemplate>();
  try {
    // One after the other: there are few, and a registry that is slow is not asked for everything at once.
    for (const specifier of new Set(specifiers)) results.set(specifier, await resolveOne(work, specifier));
  } finally {
    await dispatcher?.close();
  }
  return results;
}

async function resolveOne(work: Work, specifier: string): Promise<ResolvedTemplate | UnresolvedTemplate> {
  const [, scope, base, requested] = specifierPattern.exec(specifier) ?? [];
  if (scope === undefined || base === undefined || requested === undefined) {
    return { specifier, error: 'not-found', detail: 'is not of the form @scope/name@version' };
  }
  const name = `${scope}/${base}`;
  try {
    const read = await readTemplate(work, specifier, name, requested);
    return { specifier, name, requested, ...read };
  } catch (error) {
    if (!(error instanceof TemplateFailure)) throw error;
    return { specifier, error: error.error, detail: `${name}: ${error.message}` };
  }
}

async function readTemplate(work: Work, specifier: string, name: string, requested: string): Promise<ReadTemplate> {
  const { options } = work;
  const locked =
    options.lock !== undefined && Object.hasOwn(options.lock, specifier) ? options.lock[specifier] : undefined;
  if (locked !== undefined) {
    const cached = await readCached(options.cache, locked);
    if (cached !== undefined) return cached;
  }
  const [scope, base = ''] = name.split('/');
  if (name === shippedName)
    return fromDirectory(work, options.shippedDirectory ?? shippedDirectory, { requested, locked });
  const source = options.sources.find((candidate) => candidate.scope === scope);
  if (source === undefined) {
    throw new TemplateFailure('unknown-source', `no template source is configured for ${scope}`);
  }
  if ('directory' in source) return fromDirectory(work, join(source.directory, base), { requested: undefined, locked });
  return fromRegistry(work, source, name, requested, locked);
}

type Locked = TemplateLock[string];

async function readCached(cache: TemplateCache | undefined, locked: Locked): Promise<ReadTemplate | undefined> {
  const bytes = await cache?.get(locked.integrity);
  if (bytes === undefined) return undefined;
  try {
    const isDirectory = locked.integrity.startsWith('dir-');
    if (!isDirectory && !matchesIntegrity(bytes, locked.integrity)) return undefined;
    const files = await unpack(bytes);
    if (isDirectory && directoryIntegrity(files) !== locked.integrity) return undefined;
    return { ...locked, files };
  } catch (error) {
    // A damaged entry is as good as none: the source is asked again.
    if (error instanceof TemplateFailure) return undefined;
    throw error;
  }
}

async function fromDirectory(
  work: Work,
  directory: string,
  { requested, locked }: { readonly requested: string | undefined; readonly locked: Locked | undefined },
): Promise<ReadTemplate> {
  const read = await readDirectory(directory);
  // What ships has one version, and the only tag is `latest`. An operator's directory is whatever it holds.
  const isThere = requested === undefined || requested === 'latest' || satisfies(read.version, requested);
  if (!isThere) {
    throw new TemplateFailure('not-found', `its source has version ${read.version} alone`);
  }
  if (locked !== undefined && locked.integrity !== read.integrity) {
    throw new TemplateFailure('integrity-mismatch', 'its directory has changed since the resolution that is asked for');
  }
  const packed = work.options.cache === undefined ? undefined : await pack(read.files);
  if (packed !== undefined) await work.options.cache?.put(read.integrity, packed);
  return read;
}

async function fromRegistry(
  work: Work,
  source: Extract<TemplateSource, { registry: string }>,
  name: string,
  requested: string,
  locked: Locked | undefined,
): Promise<ReadTemplate> {
  const access = await once(work.access, source.scope, () => openRegistry(work, source));
  const packument = await once(work.packuments, name, () => fetchPackument(access, name));
  const release = chooseRelease(packument, locked?.version ?? requested);
  const bytes = await fetchTarball(access, release);
  const integrity = tarballIntegrity(bytes);
  if (locked !== undefined && !matchesIntegrity(bytes, locked.integrity)) {
    throw new TemplateFailure('integrity-mismatch', `${release.version} is not what was resolved before`);
  }
  const files = await unpack(bytes);
  await work.options.cache?.put(integrity, bytes);
  return { version: release.version, integrity, files };
}

async function openRegistry(
  work: Work,
  source: Extract<TemplateSource, { registry: string }>,
): Promise<RegistryAccess> {
  const { options, network } = work;
  const { tokenSecretRef } = source;
  const token = tokenSecretRef === undefined ? undefined : await options.token?.(tokenSecretRef);
  if (tokenSecretRef !== undefined && token === undefined) {
    throw new TemplateFailure('unreachable', `the secret ${tokenSecretRef} of its source does not exist`);
  }
  return {
    url: source.registry,
    dispatcher: work.dispatcher(),
    network,
    ...(token !== undefined && { token }),
    ...(options.signal !== undefined && { signal: options.signal }),
  };
}

function once<T>(made: Map<string, Promise<T>>, key: string, make: () => Promise<T>): Promise<T> {
  let value = made.get(key);
  if (value === undefined) {
    value = make();
    made.set(key, value);
  }
  return value;
}

// Contents of resolved templates by their integrity, so that an earlier reconcile can be repeated when the registry is
// away or the directory has changed. Whoever reads an entry verifies it; a broken one counts as absent.

export interface TemplateCache {
  get(integrity: string): Promise<Uint8Array | undefined>;
  put(integrity: string, bytes: Uint8Array): Promise<void>;
}

/** A cache in a directory of this machine; entries appear whole or not at all. */
export function folderCache(directory: string): TemplateCache {
  const fileOf = (integrity: string): string => join(directory, `${sha256(integrity)}.tgz`);
  return {
    async get(integrity) {
      try {
        return await readFile(fileOf(integrity));
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
        throw error;
      }
    },
    async put(integrity, bytes) {
      await mkdir(directory, { recursive: true, mode: 0o700 });
      const target = fileOf(integrity);
      const draft = `${target}.${process.pid}.${process.hrtime.bigint()}`;
      try {
        await writeFile(draft, bytes, { mode: 0o600 });
        await rename(draft, target);
      } catch (error) {
        await rm(draft, { force: true });
        throw error;
      }
    },
  };
}

// A directory template as a tarball for the cache: the same files always give the same entries, in order.

const compress = promisify(gzip);

/** Undefined where the files cannot be carried whole (a link, or a file listed without its bytes). */
export async function pack(files: ReadonlyMap<string, BundleEntry>): Promise<Uint8Array | undefined> {
  const archive = createPack();
  const packed = buffer(archive);
  for (const [path, entry] of files) {
    if (entry.bytes === undefined) {
      archive.destroy();
      await packed.catch(() => undefined); // The stream that was just destroyed on purpose.
      return undefined;
    }
    archive.entry({ name: `package/${path}`, mtime: new Date(0) }, Buffer.from(entry.bytes));
  }
  archive.finalize();
  return await compress(await packed);
}

// A package's tarball → files. Nothing is written to a disk; sizes are counted after decompression, while it streams.

/** Headers and padding come on top of the contents. */
const tarBytesMax = unpackedBytesMax + 4 * 1024 * 1024;

const blockBytes = 512;

/** Counts, and refuses what the reader of archives would take in one turn, and once more for each entry behind it. */
function checked(): Transform {
  let total = 0;
  let held: Buffer = Buffer.alloc(0);
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      total += chunk.length;
      if (total > tarBytesMax) return done(tooMuch());
      const bytes = held.length === 0 ? chunk : Buffer.concat([held, chunk]);
      const whole = bytes.length - (bytes.length % blockBytes);
      for (let at = 0; at < whole; at += blockBytes) {
        if (isLongHeader(bytes.subarray(at, at + blockBytes)))
          return done(new TemplateFailure('corrupt', 'holds an entry with too many words about it'));
      }
      held = bytes.subarray(whole);
      done(null, chunk);
    },
  });
}

/** Kinds of headers that say something of an entry behind them: its long name, the target of its link, further words. */
const longKinds = 'xgLNK';
const [sizeAt, kindAt, magicAt] = [124, 156, 257] as const;

/** Whether a block announces more than may stand before an entry. Wherever the reader takes a header from, it is a whole block. */
function isLongHeader(block: Buffer): boolean {
  if (!longKinds.includes(String.fromCharCode(block[kindAt] as number))) return false;
  if (block.toString('latin1', magicAt, magicAt + 5) !== 'ustar') return false;
  const size = block
    .toString('latin1', sizeAt, sizeAt + 12)
    .replaceAll('\0', ' ')
    .trim();
  const isBinary = ((block[sizeAt] as number) & 0x80) !== 0;
  return isBinary || Number.parseInt(size, 8) > entryHeaderBytesMax;
}

/** The files of an npm tarball without its first directory (`package/`). Links and devices are refused. */
export async function unpack(tarball: Uint8Array): Promise<ReadonlyMap<string, BundleEntry>> {
  const collector = fileCollector();
  const archive = extract();
  const reading = (async () => {
    for await (const entry of archive) {
      const { name, type } = entry.header;
      const chunks: Buffer[] = [];
      for await (const chunk of entry) chunks.push(chunk as Buffer);
      if (type === 'directory') continue;
      if (type !== 'file' && type !== 'contiguous-file') {
        throw new TemplateFailure('corrupt', `holds a ${type} at ${JSON.stringify(name.slice(0, 100))}`);
      }
      const cut = name.indexOf('/');
      if (cut <= 0)
        throw new TemplateFailure('corrupt', `holds ${JSON.stringify(name.slice(0, 100))} outside its directory`);
      // `..` as the first directory would be stripped unseen.
      if (name.slice(0, cut) === '..') throw new TemplateFailure('corrupt', 'holds a hostile path');
      collector.add(name.slice(cut + 1), Buffer.concat(chunks));
    }
  })();
  const outcomes = await Promise.allSettled([
    reading,
    pipeline(Readable.from([tarball]), createGunzip(), checked(), archive),
  ]);
  const causes = outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [outcome.reason as unknown] : []));
  // One side's failure ends the other with a bare "premature close": the one that says why is the story.
  const told = causes.find((cause) => cause instanceof TemplateFailure);
  if (told !== undefined) throw told;
  if (causes.length > 0) throw new TemplateFailure('corrupt', 'its tarball cannot be read');
  const files = collector.entries();
  if (files.size === 0) throw new TemplateFailure('corrupt', 'its tarball holds no files');
  return files;
}
