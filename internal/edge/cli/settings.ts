// Which server a command speaks to and as whom (docs/reference/configuration.md#settings): flags, then environment, then what
// `svc login` keeps, then client.json of the data directory. The token of a file is used for its own address and for no other.

import { readFile } from 'node:fs/promises';
import { isAbsolute, join, resolve } from 'node:path';
import { readContexts } from './contexts.ts';
import { UsageError, refusal } from './failure.ts';
import type { Call } from './types.ts';
import { withoutEnd } from '../../domain/text.ts';

export interface ClientFile {
  readonly url: string;
  readonly token: string;
  readonly org: string;
  readonly project: string;
}

export interface ServerSettings {
  /** Without a trailing slash. */
  readonly url: string;
  readonly token: string | undefined;
  readonly org: string;
  readonly project: string;
  /** Where the address came from, for `svc doctor`. */
  readonly from: 'flag' | 'environment' | 'context' | 'login' | 'client.json';
}

const setOr = (value: string | undefined): string | undefined => (value === '' ? undefined : value);

/** What finding a server needs of a call. */
export type Finder = Pick<Call, 'io' | 'global'>;

/**
 * `--data-dir`, SVC_DATA_DIR, `dataDir` of the file that SVC_CONFIG names, `$XDG_DATA_HOME/svc`, `~/.local/share/svc`: the one
 * of a daemon with this environment. Throws UsageError for a file that cannot be used.
 */
export async function dataDirOf(call: Finder): Promise<string> {
  const { env, cwd, home } = call.io;
  const given = call.global('data-dir') ?? setOr(env['SVC_DATA_DIR']);
  if (given !== undefined) return resolve(cwd, given);
  if (setOr(env['SVC_CONFIG']) !== undefined) return dataDirOfFile(call);
  const xdg = env['XDG_DATA_HOME'];
  // A relative path there is invalid by its own rule and is ignored.
  if (xdg !== undefined && isAbsolute(xdg)) return join(xdg, 'svc');
  return join(home, '.local', 'share', 'svc');
}

/** By what a program was called with: the file is read once, and what reads such files is loaded where there is one. */
const ofFiles = new WeakMap<object, string>();

async function dataDirOfFile(call: Finder): Promise<string> {
  const { localConfig } = await import('./local-config.ts');
  const found = ofFiles.get(call.io) ?? localConfig(call).dataDir;
  ofFiles.set(call.io, found);
  return found;
}

/** What `svc login` keeps: as client.json, with the id by which the token is revoked. */
export interface LoginFile extends ClientFile {
  readonly tokenId: string | undefined;
}

/** Beside client.json. */
export const loginFile = async (call: Finder): Promise<string> => join(await dataDirOf(call), 'login.json');

/** Beside client.json. */
export const contextsFile = async (call: Finder): Promise<string> => join(await dataDirOf(call), 'contexts.json');

/** What a daemon of this machine writes. */
export const clientFile = async (call: Finder): Promise<string> => join(await dataDirOf(call), 'client.json');

/** Of the context that is in use, or that SVC_CONTEXT names, what stands for client.json; undefined for none. */
async function contextInUse(call: Finder): Promise<Partial<ClientFile> | undefined> {
  const named = setOr(call.io.env['SVC_CONTEXT']);
  const { contexts, current } = await readContexts(await contextsFile(call));
  const name = named ?? current;
  if (name === undefined || name === 'login') return undefined;
  if (name === 'local') return readClientFile(await clientFile(call));
  const found = Object.hasOwn(contexts, name) ? contexts[name] : undefined;
  if (found === undefined) throw refusal('no-such-context', `there is no context ${name}`, 'svc context list');
  return found;
}

/** Undefined where nobody has signed in; throws `Refusal` where the file cannot be read. */
export async function readLogin(call: Finder): Promise<LoginFile | undefined> {
  return (await readClientFile(await loginFile(call), 'sign in again: svc login')) as LoginFile | undefined;
}

/** Undefined where there is none; throws `Refusal` where it cannot be read. */
export async function readClientFile(
  path: string,
  hint = 'start svcd again, which writes it anew beside an embedded database; else give --url and --token',
): Promise<ClientFile | undefined> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined;
    throw refusal('client-file', `${path} cannot be read (${code})`);
  }
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    // The text holds a token: the parser's message, which quotes it, is not passed on.
    throw refusal('client-file', `${path} is not JSON`, hint);
  }
  const { url, token, org, project, tokenId } = Object(value) as { [key: string]: unknown };
  if (typeof url !== 'string' || typeof token !== 'string') {
    throw refusal('client-file', `${path} has no url or no token`, hint);
  }
  return {
    url,
    token,
    org: typeof org === 'string' ? org : 'default',
    project: typeof project === 'string' ? project : 'default',
    ...(typeof tokenId === 'string' && { tokenId }),
  };
}

/** Finds the server. Throws `Refusal` where none is known and `UsageError` for an address or token that cannot be one. */
export async function findServer(call: Finder): Promise<ServerSettings> {
  const { env } = call.io;
  const flagUrl = call.global('url');
  const envUrl = setOr(env['SVC_URL']);
  const givenUrl = flagUrl ?? envUrl;
  const givenToken = call.global('token') ?? setOr(env['SVC_TOKEN']);
  const isAllGiven = givenUrl !== undefined && givenToken !== undefined;
  const used = await fileOrNone(() => contextInUse(call), isAllGiven);
  const isContext = used?.url !== undefined && (givenUrl === undefined || sameOrigin(used.url, givenUrl));
  const login = isContext ? undefined : await fileOrNone(() => readLogin(call), isAllGiven);
  // Whoever signed in elsewhere and names this server means this one.
  const isLogin = login !== undefined && (givenUrl === undefined || sameOrigin(login.url, givenUrl));
  const file: Partial<ClientFile> | undefined = isContext
    ? used
    : isLogin
      ? login
      : await fileOrNone(async () => readClientFile(await clientFile(call)), isAllGiven);
  const url = givenUrl ?? file?.url;
  if (url === undefined) {
    throw refusal(
      'no-server',
      `no server is known: there is no ${await clientFile(call)}`,
      'start svcd, which writes that file, or give --url and --token (SVC_URL, SVC_TOKEN)',
    );
  }
  const given = flagUrl !== undefined ? '--url' : envUrl !== undefined ? 'SVC_URL' : undefined;
  const address = checkUrl(url, given ?? (await clientFile(call)));
  const token = givenToken ?? (file?.url !== undefined && sameOrigin(file.url, address) ? file.token : undefined);
  if (token !== undefined && !/^[\x21-\x7e]+$/.test(token)) {
    throw new UsageError('the token holds white space or characters that no token has');
  }
  const org = call.global('org') ?? setOr(env['SVC_ORG']) ?? file?.org ?? 'default';
  const project = call.global('project') ?? setOr(env['SVC_PROJECT']) ?? file?.project ?? 'default';
  const kept = isContext ? 'context' : isLogin ? 'login' : 'client.json';
  const from = flagUrl !== undefined ? 'flag' : envUrl !== undefined ? 'environment' : kept;
  return { url: address, token, org, project, from };
}

// Where flags or environment say everything, an unreadable file is nobody's business.
async function fileOrNone<T>(read: () => Promise<T | undefined>, optional: boolean): Promise<T | undefined> {
  if (!optional) return read();
  return read().catch(() => undefined);
}

/** The address of a server without a slash at its end. Throws UsageError over what is none, or holds credentials. */
export function checkUrl(text: string, name: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || (url.protocol !== 'http:' && url.protocol !== 'https:')) {
    throw new UsageError(`${name} must be a URL that starts with http:// or https://`);
  }
  if (url.username !== '' || url.password !== '')
    throw new UsageError(`${name} must not hold credentials; use --token`);
  return `${url.origin}${withoutEnd(url.pathname, '/')}`;
}

const sameOrigin = (a: string, b: string): boolean =>
  URL.canParse(a) && URL.canParse(b) && new URL(a).origin === new URL(b).origin;

/** `k=v` options → an object. Splits at the first `=`; a name outside the pattern is misuse (docs/reference/compile.md#variables). */
export function contextOf(call: Call): { readonly [name: string]: string } {
  const context: { [name: string]: string } = Object.create(null);
  for (const entry of call.list('context')) {
    const equals = entry.indexOf('=');
    const name = equals === -1 ? entry : entry.slice(0, equals);
    if (equals === -1) throw new UsageError(`--context takes NAME=VALUE, not "${entry}"`);
    if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) {
      throw new UsageError(
        `--context: "${name}" is not a variable name`,
        'a name is a letter or _, then letters, digits and _',
      );
    }
    context[name] = entry.slice(equals + 1);
  }
  return context;
}
