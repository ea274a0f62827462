// The two files that the daemon keeps for people: client.json and master.key, both mode 0600 and replaced as a whole.

import { randomBytes, randomUUID } from 'node:crypto';
import { access, open, readFile, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { readMasterKeys } from '../../internal/adapters/crypto/crypto.ts';
import { type Config, makesMasterKey } from '../../internal/base/config/config.ts';
import { syncDirectory } from '../../internal/base/files.ts';
import type { Client } from '../../internal/flows/tenancy/tenancy.ts';

/** Writes, replaces, both forced to the disk: a reader sees the old file or the new one. */
async function replaceFile(path: string, text: string): Promise<void> {
  const fresh = `${path}.${randomUUID()}`;
  try {
    const file = await open(fresh, 'wx', 0o600);
    try {
      await file.writeFile(text);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(fresh, path);
    await syncDirectory(dirname(path));
  } finally {
    await rm(fresh, { force: true });
  }
}

const clientFile = (dataDir: string): string => join(dataDir, 'client.json');

/** `{url, token, org, project}`: what the command line on this machine begins with (docs/reference/configuration.md#the-file). */
export async function writeClient(dataDir: string, url: string, client: Client): Promise<void> {
  const { token, org, project } = client;
  await replaceFile(clientFile(dataDir), `${JSON.stringify({ url, token, org, project }, null, 2)}\n`);
}

/** What an earlier start has written; undefined when it is missing or not of that shape. */
export async function readClient(dataDir: string): Promise<Client | undefined> {
  const text = await readFile(clientFile(dataDir), 'utf8').catch(() => '');
  let value: Partial<Client> | null;
  try {
    value = JSON.parse(text) as Partial<Client> | null;
  } catch {
    return undefined;
  }
  const { token, org, project } = value ?? {};
  if (typeof token !== 'string' || typeof org !== 'string' || typeof project !== 'string') return undefined;
  return { token, org, project };
}

const isMissing = (path: string): Promise<boolean> =>
  access(path).then(
    () => false,
    // A data directory that is no directory is told of by its own name.
    (error: NodeJS.ErrnoException) => error.code === 'ENOENT' || error.code === 'ENOTDIR',
  );

/** Reads the key file, unless it is one that the daemon is to make itself. Throws ConfigError; no message repeats a key. */
export async function checkKeyFile(config: Config): Promise<void> {
  const path = config.masterKeyFile;
  if (!(makesMasterKey(config) && (await isMissing(path)))) await readMasterKeys(path);
}

/**
 * Generates the default key file where there is none and nothing is sealed yet. Whether the file holds the keys that
 * stored values need is for the readiness to say.
 */
export async function ensureMasterKey(config: Config, isSealed: boolean): Promise<void> {
  const path = config.masterKeyFile;
  if (!makesMasterKey(config) || isSealed) return;
  if (await isMissing(path)) await replaceFile(path, `1:${randomBytes(32).toString('base64')}\n`);
}
