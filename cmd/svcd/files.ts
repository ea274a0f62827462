// The two files that the daemon keeps for people: client.json and master.key, both mode 0600 and replaced as a whole.

import { randomBytes, randomUUID } from 'node:crypto';
import { open, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { type Config, ConfigError } from '../../internal/base/config/config.ts';
import type { Client } from '../../internal/flows/tenancy/tenancy.ts';

/** Writes, forces to disk, then replaces: a reader sees the old file or the new one. */
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
  } finally {
    await rm(fresh, { force: true });
  }
}

const clientFile = (dataDir: string): string => join(dataDir, 'client.json');

/** Contract, section 1: `{url, token, org, project}`. */
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

/**
 * Makes sure that the key file can be used: generates the default one for a database that holds nothing sealed, and
 * checks its lines. Throws ConfigError; no message repeats a key.
 */
export async function ensureMasterKey(config: Config, holdsSealed: boolean): Promise<void> {
  const path = config.masterKeyFile;
  const wrong = (what: string): ConfigError => new ConfigError('SVC_MASTER_KEY_FILE', `${what} (${path})`);
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    const mayGenerate =
      code === 'ENOENT' && path === join(config.dataDir, 'master.key') && config.databaseUrl === undefined;
    if (!mayGenerate) throw wrong(`names a file that cannot be read: ${code}`);
    if (holdsSealed)
      throw wrong('is missing, and the database holds secrets that only the lost key opens: put the file back');
    await replaceFile(path, `1:${randomBytes(32).toString('base64')}\n`);
    return;
  }
  const versions = new Set<number>();
  for (const [index, line] of text.split(/\r?\n/).entries()) {
    if (line.trim() === '') continue;
    const [, version = '', key = ''] = /^(\d{1,9}):([A-Za-z0-9+/]+={0,2})\s*$/.exec(line) ?? [];
    if (Buffer.from(key, 'base64').length !== 32 || Number(version) < 1) {
      throw wrong(`must hold lines of version:base64(32 bytes); line ${index + 1} is not`);
    }
    if (versions.has(Number(version))) throw wrong(`has version ${version} twice`);
    versions.add(Number(version));
  }
  if (versions.size === 0) throw wrong('holds no key');
}
