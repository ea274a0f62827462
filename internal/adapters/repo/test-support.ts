// For the tests of this room: a temporary directory, a git server on it, sources that read from it, packs made by hand.

import { createHash } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { deflateSync } from 'node:zlib';
import { GitFixture } from '../../base/testkit/git-fixture.ts';
import { GitServer, type GitServerOptions } from '../../base/testkit/git-server.ts';
import { createHostCache, openRepository } from './repo.ts';
import {
  type BlobStore,
  type OpenOptions,
  RepoCondition,
  type RepoSource,
  type RepoTarget,
  type Snapshot,
} from './types.ts';

export interface Cleanup {
  after(fn: () => Promise<void>): void;
}

/** A directory that goes away with the test. */
export async function temporary(t: Cleanup): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'svc-repo-'));
  t.after(() => rm(dir, { recursive: true, force: true }));
  return dir;
}

/** A repository `r.git` and a server that serves it. */
export async function served(t: Cleanup, options: Omit<GitServerOptions, 'root'> = {}) {
  const root = await temporary(t);
  const repo = await GitFixture.create(join(root, 'r.git'));
  const server = await new GitServer({ root, ...options }).start();
  t.after(() => server.stop());
  return { root, repo, server, url: server.url('r.git') };
}

export class MemoryBlobs implements BlobStore {
  readonly held = new Map<string, Uint8Array>();
  asked = 0;

  async has(oids: readonly string[]): Promise<ReadonlySet<string>> {
    return new Set(oids.filter((oid) => this.held.has(oid)));
  }

  async get(oids: readonly string[]): Promise<ReadonlyMap<string, Uint8Array>> {
    this.asked += oids.length;
    return new Map(oids.flatMap((oid) => (this.held.has(oid) ? [[oid, this.held.get(oid) as Uint8Array]] : [])));
  }

  keep(snapshot: Snapshot): void {
    for (const { oid, bytes } of snapshot.bundle?.entries.values() ?? [])
      if (bytes !== undefined) this.held.set(oid, bytes);
  }
}

export type TestOptions = Partial<OpenOptions> & { readonly branch?: string; readonly root?: string };

/** A source of a remote on loopback, with a host cache of its own. */
export function remote(t: Cleanup, url: string, options: TestOptions = {}): RepoSource {
  const { branch, root = '', ...open } = options;
  const target: RepoTarget = { kind: 'remote', url, root, ...(branch === undefined ? {} : { branch }) };
  const source = openRepository(target, {
    network: { allowPrivate: true },
    hostCache: createHostCache(),
    now: () => new Date('2026-01-01T00:00:00Z'),
    ...open,
  });
  t.after(() => source.close());
  return source;
}

/** The contents of a snapshot by path, as text; links and too large files as words. */
export function contents(snapshot: Snapshot): Record<string, string> {
  const entries = [...(snapshot.bundle?.entries.values() ?? [])];
  return Object.fromEntries(
    entries.map(({ path, kind, bytes, tooLarge }) => [
      path,
      tooLarge ? '<too large>' : kind === 'file' ? Buffer.from(bytes ?? []).toString() : `<${kind}>`,
    ]),
  );
}

/** Judges that a call ends in a condition: for `assert.rejects`. */
export function condition(word: string, message?: RegExp) {
  return (error: unknown): boolean => {
    if (!(error instanceof RepoCondition)) throw error;
    if (error.condition !== word) throw new Error(`${error.condition} instead of ${word}: ${error.message}`);
    if (message !== undefined && !message.test(error.message))
      throw new Error(`not the expected words: ${error.message}`);
    return true;
  };
}

const typeNumbers = { commit: 1, tree: 2, blob: 3, tag: 4 } as const;

export function entryHead(type: number, size: number): Buffer {
  const bytes = [(type << 4) | (size & 15)];
  let rest = Math.floor(size / 16);
  while (rest > 0) {
    bytes[bytes.length - 1] = (bytes.at(-1) as number) | 0x80;
    bytes.push(rest & 0x7f);
    rest = Math.floor(rest / 128);
  }
  return Buffer.from(bytes);
}

export function packOf(entries: readonly Buffer[], count = entries.length): Buffer {
  const head = Buffer.alloc(12);
  head.write('PACK');
  head.writeUInt32BE(2, 4);
  head.writeUInt32BE(count, 8);
  const body = Buffer.concat([head, ...entries]);
  return Buffer.concat([body, createHash('sha1').update(body).digest()]);
}

export function wholeEntry(type: keyof typeof typeNumbers, bytes: Uint8Array, claimed = bytes.length): Buffer {
  return Buffer.concat([entryHead(typeNumbers[type], claimed), deflateSync(bytes)]);
}

export function ofsDelta(distance: number, delta: Buffer): Buffer {
  const bytes = [distance & 0x7f];
  for (let rest = Math.floor(distance / 128); rest > 0; rest = Math.floor(rest / 128))
    bytes.unshift(0x80 | (--rest & 0x7f));
  return Buffer.concat([entryHead(6, delta.length), Buffer.from(bytes), deflateSync(delta)]);
}

export function refDelta(base: string, delta: Buffer): Buffer {
  return Buffer.concat([entryHead(7, delta.length), Buffer.from(base, 'hex'), deflateSync(delta)]);
}

export function sizeBytes(value: number): Buffer {
  const bytes: number[] = [];
  let rest = value;
  do {
    bytes.push((rest & 0x7f) | (rest > 127 ? 0x80 : 0));
    rest = Math.floor(rest / 128);
  } while (rest > 0);
  return Buffer.from(bytes);
}
