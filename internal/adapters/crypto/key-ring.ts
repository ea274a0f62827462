// The master keys of a running daemon. The file is read again when it has changed (size or time), looked at every two
// seconds by the daemon and before a rotation: a key that was appended is known at once and seals from then on. A file
// that cannot be used, or that lacks a version it held, changes nothing while the daemon runs: the keys in memory stay.

import { stat } from 'node:fs/promises';
import { Fault } from '../../domain/fault.ts';
import { createSealer, type Sealer } from './envelope.ts';
import { type MasterKeys, readMasterKeys } from './master-keys.ts';

export interface KeyRing {
  /** Seals and opens with whatever the ring holds at that moment. */
  readonly sealer: Sealer;
  /** Every version that the file holds, as it was last read, in order. */
  versions(): number[];
  /** Versions that have another key in the file, as it was last read, than the one that is held. */
  changed(): number[];
  /** Reads the file again if it has changed. Throws ConfigError where it cannot be used; the ring stays as it was. */
  reload(): Promise<void>;
  /** Refuses to seal and open, with this reason, until it is called with undefined. */
  block(reason: string | undefined): void;
}

const none: MasterKeys = { current: 0, byVersion: new Map() };

/** Reads the key file; with `mayBeMissing`, a ring without keys waits for one that is not there. Throws ConfigError. */
export async function openKeyRing(path: string, options: { readonly mayBeMissing?: boolean } = {}): Promise<KeyRing> {
  let stamp = await stampOf(path);
  let keys = options.mayBeMissing && stamp === missing ? none : await readMasterKeys(path);
  let inFile = [...keys.byVersion.keys()];
  let changed: number[] = [];
  let inner = createSealer(keys);
  let blocked: string | undefined;
  const open = (): Sealer => {
    if (blocked !== undefined) throw new Fault('unavailable', 'master-key-unusable', blocked);
    return inner;
  };
  return {
    sealer: {
      get currentVersion() {
        return inner.currentVersion;
      },
      knows: (version) => inner.knows(version),
      fingerprint: (version) => inner.fingerprint(version),
      seal: (plaintext, binding) => open().seal(plaintext, binding),
      open: (stored, binding) => open().open(stored, binding),
      reseal: (stored, binding) => open().reseal(stored, binding),
    },
    versions: () => [...inFile].sort((a, b) => a - b),
    changed: () => changed,
    async reload() {
      const seen = await stampOf(path);
      if (seen === stamp) return;
      const read = await readMasterKeys(path);
      inFile = [...read.byVersion.keys()];
      keys = merged(keys, read, blocked !== undefined);
      inner = createSealer(keys);
      changed = othersOf(createSealer(read), inner, inFile);
      stamp = seen;
    },
    block(reason) {
      blocked = reason;
    },
  };
}

/**
 * A version that was dropped from the file still opens what this process may have to open; a version never changes its
 * key while the daemon runs, unless the daemon waits for the right one.
 */
function merged(held: MasterKeys, read: MasterKeys, anew: boolean): MasterKeys {
  if (anew) return read;
  return { current: read.current, byVersion: new Map([...read.byVersion, ...held.byVersion]) };
}

/** Which of the versions are not the same key in both. */
const othersOf = (a: Sealer, b: Sealer, versions: readonly number[]): number[] =>
  versions.filter((version) => {
    const fingerprint = b.fingerprint(version);
    return fingerprint === undefined || a.fingerprint(version)?.equals(fingerprint) !== true;
  });

const missing = 'missing';

async function stampOf(path: string): Promise<string> {
  try {
    const found = await stat(path, { bigint: true });
    return `${found.ino}:${found.size}:${found.mtimeNs}:${found.ctimeNs}`;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ENOENT' ? missing : 'unreadable';
  }
}
