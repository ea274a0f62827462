// The configuration file as offline commands need it, beside what the environment says of the same. Loaded only where a file is
// named; a file that cannot be used is misuse, as it is for the daemon.

import { type CompileSettings, compileSettings } from '../../base/config/compile-settings.ts';
import { asMisuse, localConfig } from './local-config.ts';
import type { Call } from './types.ts';

export interface OfflineSettings extends CompileSettings {
  readonly allowPrivateNetwork: boolean;
}

/** Reads the file that `--config` names (`flag`), else SVC_CONFIG, as a daemon in this environment would. */
export function loadOfflineConfig(call: Call, flag: string | undefined): OfflineSettings {
  const { file, fileDir, sandbox, allowPrivateNetwork } = localConfig(
    call,
    ['SVC_SANDBOX', 'SVC_ALLOW_PRIVATE_NETWORK'],
    flag,
  );
  return { ...asMisuse(() => compileSettings(file, fileDir, sandbox)), allowPrivateNetwork };
}
