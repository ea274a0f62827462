// `svc harness list` and `svc harness install` (docs/reference/cli.md, docs/reference/sessions.md#harnesses): on this
// machine, for the daemon that uses the same data directory. No server is asked.

import {
  HarnessInstallError,
  harnessPackage,
  installHarness,
  type ResolvedHarness,
  resolveHarness,
  variableOf,
} from '../../adapters/harness/harness.ts';
import { type Harness, harnessNames } from '../../domain/spec.ts';
import { refusal } from './failure.ts';
import { localConfig } from './local-config.ts';
import { clean } from './text.ts';
import type { Call, Handler } from './types.ts';

interface Surroundings {
  readonly dataDir: string;
  readonly commands: { readonly [harness in Harness]: readonly string[] | undefined };
}

function surroundingsOf(call: Call): Surroundings {
  const { dataDir, harnessACommand, harnessBCommand } = localConfig(call, harnessNames.map(variableOf));
  return { dataDir, commands: { 'harness-a': harnessACommand, 'harness-b': harnessBCommand } };
}

function textOf(harness: Harness, found: ResolvedHarness): string {
  const words = [harness.padEnd(10), found.state.padEnd(11)];
  if ('message' in found) return [...words, found.message].join(' ');
  const version = found.version === undefined ? '' : `${harnessPackage(harness).name} ${found.version}  `;
  return [...words, `${version}${found.argv.join(' ')}`].join(' ');
}

export const harnessList: Handler = async (call) => {
  const { dataDir, commands } = surroundingsOf(call);
  const items = await Promise.all(
    harnessNames.map(async (name) => {
      const found = await resolveHarness({
        harness: name,
        dataDir,
        configured: commands[name],
        nodePath: process.execPath,
      });
      return { name, found };
    }),
  );
  const rows = items.map(({ name, found }) => ({
    name,
    state: found.state,
    package: harnessPackage(name).name,
    pinnedVersion: harnessPackage(name).version,
    ...(found.version !== undefined && { version: found.version }),
    ...('argv' in found ? { command: found.argv } : { message: found.message }),
  }));
  call.screen.emit({ items: rows }, () => items.map(({ name, found }) => clean(textOf(name, found), true)).join('\n'));
  if (!call.json && items.some(({ found }) => found.state === 'missing')) {
    call.screen.note('as seen from here: svcd may be told otherwise by its own environment; `svc doctor` asks it');
  }
  return 0;
};

/** What runs each harness here, as settings for a daemon that has not this one's data directory. */
export async function harnessCommands(call: Call): Promise<{ [variable: string]: string | undefined }> {
  const { dataDir, commands } = surroundingsOf(call);
  const found: { [variable: string]: string | undefined } = {};
  for (const harness of harnessNames) {
    const one = await resolveHarness({ harness, dataDir, configured: commands[harness], nodePath: process.execPath });
    if ('argv' in one) found[variableOf(harness)] = JSON.stringify(one.argv);
  }
  return found;
}

export const harnessInstall: Handler = async (call) => {
  const harness = call.arg('HARNESS') as Harness;
  const { dataDir, commands } = surroundingsOf(call);
  const { name, version } = harnessPackage(harness);
  call.screen.progress(`installing ${name} ${version} …`);
  try {
    const done = await installHarness({ harness, dataDir, env: call.io.env, signal: call.io.signal });
    call.screen.emit(
      done,
      () => `${harness}: ${name} ${version} ${done.already ? 'is' : 'was'} installed in ${done.directory}`,
    );
  } catch (error) {
    if (error instanceof HarnessInstallError) throw refusal(error.problem, error.message, hintFor(error));
    const code = (error as NodeJS.ErrnoException).code;
    if (code === undefined) throw error;
    throw refusal('cannot-write', `${dataDir} cannot be written (${code})`);
  }
  if (commands[harness] !== undefined) call.screen.note(`${variableOf(harness)} is set and goes before it`);
  return 0;
};

function hintFor({ problem }: HarnessInstallError): string | undefined {
  switch (problem) {
    case 'npm-missing':
      return 'install Node.js with npm, or put npm on PATH';
    case 'registry-unreachable':
      return 'check the network, the proxy settings and `npm config get registry`, then run it again';
    default:
      return undefined;
  }
}
