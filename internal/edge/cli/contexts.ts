// Several servers under names: contexts.json beside client.json (mode 0600), and which of them is in use. Beside those that
// were added there are always `local`, the daemon of this machine, and `login`, what `svc login` keeps.

import { chmod, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { refusal } from './failure.ts';
import { makeDirectory } from '../../base/files.ts';

export interface Context {
  readonly url: string;
  /** Absent where it is given by SVC_TOKEN. */
  readonly token?: string;
  readonly org: string;
  readonly project: string;
}

export interface Contexts {
  readonly current?: string;
  readonly contexts: { readonly [name: string]: Context };
}

export const builtIn = ['local', 'login'] as const;

/** None where there is no file; throws Refusal where it cannot be read. */
export async function readContexts(path: string): Promise<Contexts> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    if (code === 'ENOENT' || code === 'ENOTDIR') return { contexts: {} };
    throw refusal('contexts-file', `${path} cannot be read (${code})`);
  }
  try {
    const { current, contexts } = Object(JSON.parse(text)) as Partial<Contexts>;
    return { ...(typeof current === 'string' && { current }), contexts: Object(contexts) as Contexts['contexts'] };
  } catch {
    // The text holds tokens: the parser's message, which quotes it, is not passed on.
    throw refusal('contexts-file', `${path} is not JSON`, 'remove it and add the contexts again');
  }
}

export const writeContexts = (path: string, value: Contexts): Promise<void> => replaceFile(path, value);

/**
 * A file of tokens, for its owner alone; throws Refusal where it cannot be written. Written beside and moved into place: a
 * reader, and whoever comes after an end in the middle, sees the file before or after.
 */
export async function replaceFile(path: string, value: object): Promise<void> {
  const beside = `${path}.${process.pid}`;
  try {
    await makeDirectory(dirname(path));
    await writeFile(beside, `${JSON.stringify(value, null, 2)}\n`, { mode: 0o600 });
    await chmod(beside, 0o600);
    await rename(beside, path);
  } catch (error) {
    // Half of a token, or a whole one, stays nowhere else.
    await rm(beside, { force: true }).catch(() => undefined);
    throw refusal('cannot-write', `${path} cannot be written (${(error as NodeJS.ErrnoException).code})`);
  }
}
