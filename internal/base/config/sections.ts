// All sections of the SVC_CONFIG file at once: what svcd refuses before it has a database, and what `svc upgrade check` tells
// beforehand.

import { accessSync, constants, statSync } from 'node:fs';
import { conditionsList } from '../../domain/notification.ts';
import { chatSettings } from './chat-settings.ts';
import { codehostSettings } from './codehost-settings.ts';
import { compileSettings } from './compile-settings.ts';
import { type Config, ConfigError } from './config.ts';
import { errtrackSection } from './errtrack-settings.ts';
import { modelSettings } from './model-settings.ts';
import { notificationSettings } from './notification-settings.ts';
import { checkOauthSettings } from './oauth-settings.ts';
import { retentionSettings } from './retention-settings.ts';
import { templateFault } from './sandbox-command.ts';
import { namedProviders, sandboxesSettings } from './sandbox-settings.ts';
import type { SetupCacheSettings } from './setup-cache-settings.ts';
import { sessionSettings } from './session-settings.ts';
import { signinSettings } from './signin-settings.ts';
import { sourceSettings, syncSettings } from './sync-settings.ts';

/** Throws ConfigError naming the first key that cannot be used. */
export function checkSections(config: Config): void {
  compileSettings(config.file, config.fileDir);
  syncSettings(config.file);
  sourceSettings(config.file);
  sessionSettings(config.file);
  sandboxesSettings(config.file, config.fileDir);
  retentionSettings(config.file);
  codehostSettings(config);
  chatSettings(config);
  errtrackSection(config.file, config.fileDir);
  checkOauthSettings(config);
  notificationSettings(config, conditionsList);
  modelSettings(config.file, config.fileDir);
  signinSettings(config);
  checkProviders(config);
}

/** A file or directory that a setting names. */
export interface NamedFile {
  readonly key: string;
  readonly path: string;
}

/** Those that svcd begins without: what needs one waits for it, or is refused. */
export function filesNeededLater({ file, fileDir, roles }: Config): readonly NamedFile[] {
  // Of a key each daemon that runs sessions has its own file.
  const keys = roles.includes('session') ? Object.entries(modelSettings(file, fileDir).keys) : [];
  const secret = errtrackSection(file, fileDir)?.secret;
  return [
    ...keys.flatMap(([provider, place]) =>
      place.kind === 'file' ? [{ key: `providers.model.${provider}.keyFile`, path: place.path }] : [],
    ),
    ...(secret?.kind === 'file' ? [{ key: 'providers.errtrack.clientSecretFile', path: secret.path }] : []),
    ...compileSettings(file, fileDir).templateSources.flatMap((source, at) =>
      'directory' in source ? [{ key: `templates.${at}.directory`, path: source.directory }] : [],
    ),
  ];
}

/** A provider of sandboxes that is named, here or by a preset, has its section, which can be used, where sessions run. */
function checkProviders(config: Config): void {
  const { sandbox, roles, file, fileDir } = config;
  if (!roles.includes('session')) return;
  const { docker, kubernetes, presets, setupCache } = sandboxesSettings(file, fileDir);
  const { command } = sessionSettings(file);
  const sections = new Map<string, readonly [name: string, section: unknown]>([
    ['command', ['sessions.command', command]],
    ['docker', ['sandboxes.docker', docker]],
    ['kubernetes', ['sandboxes.kubernetes', kubernetes]],
  ]);
  const named = namedProviders(sandbox, presets);
  for (const [key, provider] of named) {
    const [name, section] = sections.get(provider) ?? [];
    if (name !== undefined && section === undefined)
      throw new ConfigError(key, `cannot be used: ${provider} needs ${name} in the file of SVC_CONFIG`);
    const fault = provider === 'command' && command !== undefined ? templateFault(command) : undefined;
    if (fault !== undefined) throw new ConfigError(fault.key, `cannot be used: ${fault.what}`);
  }
  for (const [name, { rootfs }] of Object.entries(presets))
    requireDirectory(`sandboxes.presets.${name}.rootfs`, rootfs);
  const tls = named.some(([, provider]) => provider === 'docker') ? docker?.tls : undefined;
  for (const [name, path] of Object.entries(tls ?? {})) requireReadable(`sandboxes.docker.tls.${name}`, path);
  const kubeconfig = named.some(([, provider]) => provider === 'kubernetes') ? kubernetes?.kubeconfig : undefined;
  if (kubeconfig !== undefined) requireReadable('sandboxes.kubernetes.kubeconfig', kubeconfig);
  if (setupCache?.s3 !== undefined) checkStore(setupCache.s3, config);
}

/** The keys of the store are there; what they hold is read where it is used. */
function checkStore(s3: NonNullable<SetupCacheSettings['s3']>, { secretEnv }: Config): void {
  const { accessKeyIdEnv, secretAccessKeyEnv, secretAccessKeyFile } = s3;
  const requireSet = (name: string, variable: string): void => {
    if ((secretEnv?.(variable) ?? '') === '')
      throw new ConfigError(`sandboxes.setupCache.s3.${name}`, `cannot be used: ${variable} is not set`);
  };
  requireSet('accessKeyIdEnv', accessKeyIdEnv);
  if (secretAccessKeyFile === undefined) requireSet('secretAccessKeyEnv', secretAccessKeyEnv);
  else requireReadable('sandboxes.setupCache.s3.secretAccessKeyFile', secretAccessKeyFile);
}

function requireDirectory(key: string, path: string | undefined): void {
  if (path !== undefined && !isDirectory(path)) throw new ConfigError(key, `cannot be used: ${path} is no directory`);
}

function isDirectory(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch {
    return false;
  }
}

/** Throws ConfigError. */
export function requireReadable(key: string, path: string): void {
  try {
    accessSync(path, constants.R_OK);
  } catch (error) {
    throw new ConfigError(key, `cannot be used: ${path} cannot be read (${(error as NodeJS.ErrnoException).code})`);
  }
}
