// Configuration: flags over environment over the SVC_CONFIG file over defaults, each value checked and every error
// naming its setting (docs/reference/configuration.md#settings).
// Never reads the process by itself: environment and arguments are passed in.

import { sandboxProviders, type SandboxProviderName } from '../../domain/sandbox.ts';
import { readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, isAbsolute, join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { ConfigError, type ConfigFile, parseConfigFile } from './file.ts';
import { withoutEnd } from '../../domain/text.ts';

export { ConfigError, type ConfigFile } from './file.ts';

export const roleNames = ['api', 'sync', 'route', 'schedule', 'session'] as const;
export type Role = (typeof roleNames)[number];
export const logLevels = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const;
export type LogLevel = (typeof logLevels)[number];
export type SandboxKind = 'auto' | SandboxProviderName;

export interface Config {
  readonly dataDir: string;
  /** Absent: the embedded database under `dataDir`. */
  readonly databaseUrl?: string;
  /** The server itself, where `databaseUrl` leads to a transaction-mode pooler. */
  readonly databaseDirectUrl?: string;
  readonly listen: { readonly host: string; readonly port: number };
  /** Without a trailing slash. Absent: `http://<listen>`. */
  readonly baseUrl?: string;
  readonly roles: readonly Role[];
  readonly masterKeyFile: string;
  /** argv of each harness's program. */
  readonly harnessACommand?: readonly string[];
  readonly harnessBCommand?: readonly string[];
  readonly sandbox: SandboxKind;
  readonly allowPrivateNetwork: boolean;
  readonly logLevel: LogLevel;
  /** The parts of the SVC_CONFIG file that are richer than a string; empty without one. */
  readonly file: ConfigFile;
  /** Where relative paths in these sections start: the directory of that file. Those of plain settings start where the process does. */
  readonly fileDir: string;
  /** A variable of the environment that a section of that file names, such as the one that holds a key. */
  readonly secretEnv?: (name: string) => string | undefined;
  /** Crash tests: `name[:count]`, the point at which the process kills itself. */
  readonly failpoint?: string;
}

export interface ConfigSources {
  readonly env: { readonly [name: string]: string | undefined };
  readonly argv: readonly string[];
  /** For relative paths; default the current directory. */
  readonly cwd?: string;
}

interface Setting {
  readonly key: string;
  readonly env: string;
  readonly flag?: string;
}

/** The settings of docs/reference/configuration.md#settings; the file spells each by its key. */
export const settings: readonly Setting[] = [
  { key: 'dataDir', env: 'SVC_DATA_DIR', flag: 'data-dir' },
  { key: 'databaseUrl', env: 'SVC_DATABASE_URL', flag: 'database-url' },
  { key: 'databaseDirectUrl', env: 'SVC_DATABASE_DIRECT_URL', flag: 'database-direct-url' },
  { key: 'listen', env: 'SVC_LISTEN', flag: 'listen' },
  { key: 'baseUrl', env: 'SVC_BASE_URL', flag: 'base-url' },
  { key: 'roles', env: 'SVC_ROLES', flag: 'roles' },
  { key: 'masterKeyFile', env: 'SVC_MASTER_KEY_FILE', flag: 'master-key-file' },
  { key: 'harnessACommand', env: 'SVC_HARNESS_A_COMMAND' },
  { key: 'harnessBCommand', env: 'SVC_HARNESS_B_COMMAND' },
  { key: 'sandbox', env: 'SVC_SANDBOX', flag: 'sandbox' },
  { key: 'allowPrivateNetwork', env: 'SVC_ALLOW_PRIVATE_NETWORK' },
  { key: 'logLevel', env: 'SVC_LOG_LEVEL', flag: 'log-level' },
];

/** What makes a daemon one of an installation: the file says it of that one's, and a daemon that is thrown away is none of them. */
const ofInstallation: ReadonlySet<string> = new Set([
  ...['dataDir', 'databaseUrl', 'databaseDirectUrl', 'masterKeyFile', 'listen', 'baseUrl', 'roles'],
]);
/** Set by `svc dev` for the daemon that it starts. */
const thrownAway = 'SVC_THROWN_AWAY';
/** It tells nobody what happens in it either. */
function withoutReceivers(file: ConfigFile): ConfigFile {
  const { notifications: _, ...rest } = file;
  return rest;
}

/** A value as it was found, with the name under which the user gave it. */
interface Given {
  readonly value: unknown;
  readonly name: string;
}

/**
 * Reads the configuration. Throws ConfigError, whose message is one line that names the setting.
 * An environment variable that is set and empty counts as absent.
 */
export function loadConfig(sources: ConfigSources): Config {
  const cwd = sources.cwd ?? process.cwd();
  const flags = readFlags(sources.argv);
  const filePath = flags.get('config') ?? (sources.env['SVC_CONFIG'] || undefined);
  const fileName = flags.has('config') ? '--config' : 'SVC_CONFIG';
  const file = filePath === undefined ? { settings: {}, rest: {} } : readFile(resolve(cwd, filePath), fileName);
  const isOwn = (sources.env[thrownAway] ?? '') !== '';
  const given = (key: string): Given | undefined => {
    const setting = settings.find((candidate) => candidate.key === key);
    if (setting === undefined) throw new Error(`no setting ${key}`);
    const flag = setting.flag === undefined ? undefined : flags.get(setting.flag);
    if (flag !== undefined) return { value: flag, name: `--${setting.flag}` };
    const env = sources.env[setting.env];
    if (env !== undefined && env !== '') return { value: env, name: setting.env };
    const own = isOwn && ofInstallation.has(key) ? undefined : (file.settings as Record<string, unknown>)[key];
    return own === undefined ? undefined : { value: own, name: `${key} in ${filePath}` };
  };
  const fileDir = filePath === undefined ? cwd : dirname(resolve(cwd, filePath));
  const rest = isOwn ? withoutReceivers(file.rest) : file.rest;
  return { ...build(given, sources.env, cwd, rest), fileDir, secretEnv: (name) => sources.env[name] };
}

function build(
  given: (key: string) => Given | undefined,
  env: ConfigSources['env'],
  cwd: string,
  rest: ConfigFile,
): Omit<Config, 'fileDir'> {
  const dataDir = readPath(given('dataDir'), cwd) ?? defaultDataDir(env);
  const databaseUrl = readUrl(given('databaseUrl'), ['postgres:', 'postgresql:']);
  const databaseDirectUrl = readUrl(given('databaseDirectUrl'), ['postgres:', 'postgresql:']);
  if (databaseDirectUrl !== undefined && databaseUrl === undefined) {
    throw new ConfigError('SVC_DATABASE_DIRECT_URL', 'is the server behind SVC_DATABASE_URL, which is not set');
  }
  const baseUrl = readBaseUrl(given('baseUrl'));
  const masterKeyFile = readPath(given('masterKeyFile'), cwd);
  if (databaseUrl !== undefined && masterKeyFile === undefined) {
    throw new ConfigError(
      'SVC_MASTER_KEY_FILE',
      'is required when SVC_DATABASE_URL is set: every daemon of one database needs the same keys',
    );
  }
  const harnessACommand = readCommand(given('harnessACommand'));
  const harnessBCommand = readCommand(given('harnessBCommand'));
  const failpoint = env['SVC_FAILPOINT'];
  return {
    dataDir,
    ...(databaseUrl !== undefined && { databaseUrl }),
    ...(databaseDirectUrl !== undefined && { databaseDirectUrl }),
    listen: readListen(given('listen')),
    ...(baseUrl !== undefined && { baseUrl }),
    roles: readRoles(given('roles')),
    masterKeyFile: masterKeyFile ?? join(dataDir, 'master.key'),
    ...(harnessACommand !== undefined && { harnessACommand }),
    ...(harnessBCommand !== undefined && { harnessBCommand }),
    sandbox: readWord(given('sandbox'), ['auto', ...sandboxProviders], 'auto'),
    allowPrivateNetwork: readBoolean(given('allowPrivateNetwork')),
    logLevel: readWord(given('logLevel'), logLevels, 'info'),
    file: rest,
    ...(failpoint ? { failpoint } : {}),
  };
}

/** Whether the daemon makes the key file itself where nothing is sealed yet: the default one, beside an embedded database. */
export function makesMasterKey({ masterKeyFile, dataDir, databaseUrl }: Config): boolean {
  return masterKeyFile === join(dataDir, 'master.key') && databaseUrl === undefined;
}

function readFlags(argv: readonly string[]): Map<string, string> {
  const names = ['config', ...settings.flatMap((setting) => (setting.flag === undefined ? [] : [setting.flag]))];
  const options = Object.fromEntries(names.map((name) => [name, { type: 'string' as const, multiple: true as const }]));
  let parsed: ReturnType<typeof parseArgs>;
  try {
    parsed = parseArgs({ args: [...argv], options, strict: true, allowPositionals: false });
  } catch (error) {
    const text = error instanceof Error ? (error.message.split(/\.\s|\n/)[0] ?? '') : String(error);
    const flag = /--?[\w-]+/.exec(text)?.[0];
    throw new ConfigError(flag ?? 'arguments', `cannot be used: ${text}`);
  }
  const flags = new Map<string, string>();
  for (const [name, values] of Object.entries(parsed.values)) {
    if (!Array.isArray(values)) continue;
    if (values.length > 1) throw new ConfigError(`--${name}`, 'is given more than once');
    const value = values[0];
    if (typeof value !== 'string' || value === '') throw new ConfigError(`--${name}`, 'needs a value');
    flags.set(name, value);
  }
  return flags;
}

function readFile(path: string, name: string): ReturnType<typeof parseConfigFile> {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    throw new ConfigError(name, `names ${path}, which cannot be read (${(error as NodeJS.ErrnoException).code})`);
  }
  return parseConfigFile(text, name, path);
}

function defaultDataDir(env: ConfigSources['env']): string {
  const xdg = env['XDG_DATA_HOME'];
  // The XDG rule: a relative path there is invalid and is ignored.
  if (xdg && isAbsolute(xdg)) return join(xdg, 'svc');
  return join(env['HOME'] || accountHome(), '.local', 'share', 'svc');
}

/** Throws ConfigError where no account says it, as in a container under any number. */
function accountHome(): string {
  try {
    return homedir();
  } catch {
    throw new ConfigError('SVC_DATA_DIR', 'is needed: there is no home directory, neither by HOME nor by an account');
  }
}

function readPath(given: Given | undefined, cwd: string): string | undefined {
  if (given === undefined) return undefined;
  if (typeof given.value !== 'string' || given.value === '' || given.value.includes('\0'))
    throw new ConfigError(given.name, 'must be a path');
  return resolve(cwd, given.value);
}

function readUrl(given: Given | undefined, protocols: readonly string[]): string | undefined {
  if (given === undefined) return undefined;
  const text = String(given.value);
  const url = URL.canParse(text) ? new URL(text) : undefined;
  // The value may hold a password: the message does not repeat it.
  if (url === undefined || !protocols.includes(url.protocol)) {
    throw new ConfigError(given.name, `must be a URL that starts with ${protocols.map((p) => `${p}//`).join(' or ')}`);
  }
  return text;
}

/** The public address, without a slash at its end: paths are put behind it, and whoever is given one of them reads it. */
function readBaseUrl(given: Given | undefined): string | undefined {
  const text = readUrl(given, ['http:', 'https:']);
  if (given === undefined || text === undefined) return undefined;
  const { username, password } = new URL(text);
  if (!/^https?:\/\/[^\s?#/][^\s?#]*$/i.test(text) || username !== '' || password !== '') {
    throw new ConfigError(given.name, 'must be an address without a query, a fragment, blanks and credentials');
  }
  return withoutEnd(text, '/');
}

function readListen(given: Given | undefined): Config['listen'] {
  if (given === undefined) return { host: '127.0.0.1', port: 4400 };
  const match = /^(?:\[([0-9a-fA-F:.%\w]+)\]|([^:[\]\s]*)):(\d{1,5})$/.exec(String(given.value));
  const port = Number(match?.[3]);
  if (match === null || port > 65_535) {
    throw new ConfigError(
      given.name,
      `must be an address and a port such as 127.0.0.1:4400, not ${JSON.stringify(given.value)}`,
    );
  }
  return { host: match[1] ?? (match[2] || '0.0.0.0'), port };
}

function readRoles(given: Given | undefined): readonly Role[] {
  if (given === undefined) return roleNames;
  const words = Array.isArray(given.value) ? given.value.map(String) : String(given.value).split(',');
  const wanted = words.map((word) => word.trim()).filter((word) => word !== '');
  const unknown = wanted.find((word) => word !== 'all' && !roleNames.some((role) => role === word));
  if (unknown !== undefined || wanted.length === 0) {
    const what = unknown === undefined ? 'names no role' : `has the unknown role ${JSON.stringify(unknown)}`;
    throw new ConfigError(given.name, `${what}; known are all, ${roleNames.join(', ')}`);
  }
  return wanted.includes('all') ? roleNames : roleNames.filter((role) => wanted.includes(role));
}

function readWord<T extends string>(given: Given | undefined, words: readonly T[], fallback: T): T {
  if (given === undefined) return fallback;
  const word = words.find((candidate) => candidate === given.value);
  if (word === undefined) {
    throw new ConfigError(given.name, `must be one of ${words.join(', ')}, not ${JSON.stringify(given.value)}`);
  }
  return word;
}

function readBoolean(given: Given | undefined): boolean {
  if (given === undefined) return false;
  if (given.value === true || given.value === 'true' || given.value === '1') return true;
  if (given.value === false || given.value === 'false' || given.value === '0') return false;
  throw new ConfigError(given.name, `must be true or false, not ${JSON.stringify(given.value)}`);
}

function readCommand(given: Given | undefined): readonly string[] | undefined {
  if (given === undefined) return undefined;
  let value = given.value;
  if (typeof value === 'string') {
    try {
      value = JSON.parse(value);
    } catch {
      value = undefined;
    }
  }
  if (!Array.isArray(value) || value.length === 0 || !value.every((word) => typeof word === 'string' && word !== '')) {
    throw new ConfigError(given.name, 'must be a JSON array of strings: the program and its arguments');
  }
  return value;
}
