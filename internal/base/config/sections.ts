// All sections of the SVC_CONFIG file at once: what svcd refuses before it has a database, and what `svc upgrade check` tells
// beforehand.

import { conditionsList } from '../../domain/notification.ts';
import { chatSettings } from './chat-settings.ts';
import { codehostSettings } from './codehost-settings.ts';
import { compileSettings } from './compile-settings.ts';
import type { Config } from './config.ts';
import { errtrackSection } from './errtrack-settings.ts';
import { modelSettings } from './model-settings.ts';
import { notificationSettings } from './notification-settings.ts';
import { checkOauthSettings } from './oauth-settings.ts';
import { retentionSettings } from './retention-settings.ts';
import { sandboxesSettings } from './sandbox-settings.ts';
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
}
