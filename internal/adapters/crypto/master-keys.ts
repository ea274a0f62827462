// The master keys (docs/reference/configuration.md#settings): one `version:base64(32 bytes)` a line, the last one current.
// What is wrong with the file is said by line number; a key or a piece of one never stands in a message.

import type { KeyObject } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { sha256 } from '../../base/hash.ts';
import { ConfigError } from '../../base/config/config.ts';
import { keyBytes, keyOf } from './gcm.ts';

export interface MasterKeys {
  /** The version that seals. */
  readonly current: number;
  readonly byVersion: ReadonlyMap<number, KeyObject>;
}

/** `key_version` is an integer column. */
const versionMax = 2_147_483_647;
const fileBytesMax = 64 * 1024;
/** Of UTF-8, which some editors write in front. */
const byteOrderMark = Buffer.from('\uFEFF');

/** Reads the text of a key file. Throws ConfigError naming `setting` and the line. */
export function parseMasterKeys(text: string, setting = 'SVC_MASTER_KEY_FILE'): MasterKeys {
  const byVersion = new Map<number, KeyObject>();
  const prints = new Set<string>();
  let current: number | undefined;
  const lines = text.split(/\r?\n/);
  for (const [index, line] of lines.entries()) {
    if (line.trim() === '') continue;
    const refuse = (what: string): ConfigError => new ConfigError(setting, `line ${index + 1} ${what}`);
    const match = /^\s*([1-9][0-9]{0,9}):([A-Za-z0-9+/]{43}=)\s*$/.exec(line);
    const version = Number(match?.[1]);
    const key = Buffer.from(match?.[2] ?? '', 'base64');
    if (match === null || version > versionMax || key.length !== keyBytes) {
      throw refuse('is not version:base64(32 bytes), with a version from 1 up');
    }
    if (byVersion.has(version)) throw refuse(`names version ${version} a second time`);
    const print = sha256(key);
    if (prints.has(print)) throw refuse(`gives version ${version} the key of an earlier version`);
    prints.add(print);
    byVersion.set(version, keyOf(key));
    key.fill(0);
    current = version;
  }
  if (current === undefined) throw new ConfigError(setting, 'names a file that holds no key');
  return { current, byVersion };
}

/** As a message tells it: a key may have been written where the name of its file belongs, and what is said at a start is logged. */
const shownPath = (path: string): string => path.replace(/[A-Za-z0-9+/]{43}=$/, (key) => '*'.repeat(key.length));

/** Reads the key file. Throws ConfigError where it is missing or cannot be used. */
export async function readMasterKeys(path: string, setting = 'SVC_MASTER_KEY_FILE'): Promise<MasterKeys> {
  let bytes: Buffer;
  try {
    bytes = await readFile(path);
  } catch (error) {
    throw new ConfigError(
      setting,
      `names ${shownPath(path)}, which cannot be read (${(error as NodeJS.ErrnoException).code})`,
    );
  }
  try {
    if (bytes.length > fileBytesMax) throw new ConfigError(setting, `names ${path}, which is too large for a key file`);
    const isMarked = bytes.subarray(0, byteOrderMark.length).equals(byteOrderMark);
    return parseMasterKeys(bytes.subarray(isMarked ? byteOrderMark.length : 0).toString('latin1'), setting);
  } finally {
    bytes.fill(0);
  }
}
