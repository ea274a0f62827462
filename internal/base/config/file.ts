// The SVC_CONFIG file: the same settings as the environment, and what is richer than a string.

import * as v from 'valibot';
import { type Document, parseAllDocuments } from 'yaml';
import type { Json } from '../../domain/json.ts';
import { nearest } from '../../domain/nearest.ts';

/** A setting that cannot be used. `message` is one line that names it; the process ends with exit code 2. */
export class ConfigError extends Error {
  readonly setting: string;

  constructor(setting: string, what: string) {
    super(`${setting} ${what}`.replaceAll(/\s*\n\s*/g, ' '));
    this.name = 'ConfigError';
    this.setting = setting;
  }
}

/** What the file may hold beyond the plain settings; each part is checked by the module that reads it. */
export interface ConfigFile {
  /** Environment presets, model lists, harness defaults: extends the shipped catalog (catalog.ts). */
  readonly catalog?: Json;
  /** Managed template sources. */
  readonly templates?: Json;
  /** How the reconciler keeps time (sync-settings.ts). */
  readonly sync?: Json;
  /** What may be read, and for how long (sync-settings.ts). */
  readonly sources?: Json;
  /** What a host of sessions does (session-settings.ts). */
  readonly sessions?: Json;
  /** Where sessions run: presets, what their network reaches (sandbox-settings.ts). */
  readonly sandboxes?: Json;
  /** Provider applications, by provider. */
  readonly providers?: Json;
  /** Whom the installation tells of what happens in its projects (notification-settings.ts). */
  readonly notifications?: Json;
  /** How long events, sessions and runs are kept (retention-settings.ts). */
  readonly retention?: Json;
  /** How long audit entries are kept; for ever when absent. */
  readonly audit?: { readonly retentionDays?: number | undefined };
  /** How people sign in (signin-settings.ts). */
  readonly signIn?: Json;
}

const json = v.custom<Json>((value) => value !== undefined);
/** Sections of `providers`: each is read by a module of its own, and one of another name by none. */
const providers = v.strictObject({
  model: v.optional(json),
  codehost: v.optional(json),
  chat: v.optional(json),
  tracker: v.optional(json),
  errtrack: v.optional(json),
  oauth: v.optional(json),
});
const schema = v.strictObject({
  dataDir: v.optional(v.string()),
  databaseUrl: v.optional(v.string()),
  databaseDirectUrl: v.optional(v.string()),
  listen: v.optional(v.string()),
  baseUrl: v.optional(v.string()),
  roles: v.optional(v.union([v.string(), v.array(v.string())])),
  masterKeyFile: v.optional(v.string()),
  harnessACommand: v.optional(v.array(v.string())),
  harnessBCommand: v.optional(v.array(v.string())),
  sandbox: v.optional(v.string()),
  allowPrivateNetwork: v.optional(v.boolean()),
  logLevel: v.optional(v.string()),
  catalog: v.optional(json),
  templates: v.optional(json),
  sync: v.optional(json),
  sources: v.optional(json),
  sessions: v.optional(json),
  sandboxes: v.optional(json),
  providers: v.optional(v.nullable(providers)),
  notifications: v.optional(json),
  retention: v.optional(json),
  signIn: v.optional(json),
  audit: v.optional(
    v.strictObject({
      retentionDays: v.optional(v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(36_500))),
    }),
  ),
});

const keys = [...Object.keys(schema.entries), ...Object.keys(providers.entries).map((name) => `providers.${name}`)];

/** What the document says. Throws ConfigError over an alias that names nothing, or too many of them. */
function valueOf(document: Document, name: string, path: string): unknown {
  try {
    return document.toJS({ maxAliasCount: 100 });
  } catch (error) {
    if (!(error instanceof ReferenceError)) throw error;
    const hint = 'a value that begins with * stands in quotes';
    throw new ConfigError(name, `names ${path}, which is not valid YAML: ${error.message}; ${hint}`);
  }
}

/** The one map that the text is; a document of nothing beside it is none. Throws ConfigError where it is anything else. */
function read(text: string, name: string, path: string): unknown {
  const found = parseAllDocuments(text, { version: '1.2', prettyErrors: true, logLevel: 'silent' });
  const documents = 'empty' in found ? [] : found;
  const broken = documents.flatMap(({ errors }) => errors)[0];
  if (broken !== undefined) {
    const what = (broken.message.split('\n')[0] ?? '').replace(/:$/, '');
    throw new ConfigError(name, `names ${path}, which is not valid YAML: ${what}`);
  }
  const [value, more] = documents.map((document) => valueOf(document, name, path)).filter((held) => held !== null);
  if (more !== undefined) throw new ConfigError(name, `names ${path}, which holds more than one document`);
  if (value !== undefined && (typeof value !== 'object' || Array.isArray(value)))
    throw new ConfigError(name, `names ${path}, which is no map of settings`);
  return value ?? {};
}

/** Parses the text of the file. Throws ConfigError naming `name` (how the file was given) and the key that is wrong. */
export function parseConfigFile(
  text: string,
  name: string,
  path: string,
): { settings: Omit<v.InferOutput<typeof schema>, keyof ConfigFile>; rest: ConfigFile } {
  const parsed = v.safeParse(schema, read(text, name, path));
  if (!parsed.success) {
    const issue = parsed.issues[0];
    const key = v.getDotPath(issue);
    if (issue.expected === 'never' && key !== null) {
      const near = nearest(key, keys);
      throw new ConfigError(`${key} in ${path}`, `is no setting${near === undefined ? '' : `; did you mean ${near}?`}`);
    }
    throw new ConfigError(key === null ? name : `${key} in ${path}`, `cannot be used: ${issue.message}`);
  }
  const {
    catalog,
    templates,
    sync,
    sources,
    sessions,
    sandboxes,
    providers,
    notifications,
    retention,
    audit,
    signIn,
    ...settings
  } = parsed.output;
  return {
    settings,
    rest: {
      ...(catalog !== undefined && { catalog }),
      ...(templates !== undefined && { templates }),
      ...(sync !== undefined && { sync }),
      ...(sources !== undefined && { sources }),
      ...(sessions !== undefined && { sessions }),
      ...(sandboxes !== undefined && { sandboxes }),
      ...(providers !== undefined && { providers: providers as Json }),
      ...(notifications !== undefined && { notifications }),
      ...(retention !== undefined && { retention }),
      ...(audit !== undefined && { audit }),
      ...(signIn !== undefined && { signIn }),
    },
  };
}
