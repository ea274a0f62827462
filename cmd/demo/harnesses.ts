// Which programs the demo's sessions run: the real adapters where they are installed or configured, else the scripted
// agent, which only repeats what it is told and says so by its name.

import { join } from 'node:path';
import { resolveHarness, variableOf } from '../../internal/adapters/harness/harness.ts';
import type { Config } from '../../internal/base/config/config.ts';
import { harnessNames } from '../../internal/domain/spec.ts';

const scriptedAgent = join(import.meta.dirname, '../../testdata/scripted-agent/agent.mjs');

export interface HarnessFallbacks {
  /** Settings for svcd. */
  readonly environment: { readonly [name: string]: string };
  /** What a person should know; empty where every harness is there. */
  readonly notes: readonly string[];
}

/** What stands in for harnesses that are not there. */
export async function harnessFallbacks(config: Config): Promise<HarnessFallbacks> {
  const environment: Record<string, string> = {};
  const missing: string[] = [];
  const configured = { 'harness-a': config.harnessACommand, 'harness-b': config.harnessBCommand };
  for (const harness of harnessNames) {
    const found = await resolveHarness({
      harness,
      dataDir: config.dataDir,
      configured: configured[harness],
      nodePath: process.execPath,
    });
    if ('argv' in found) continue;
    environment[variableOf(harness)] = JSON.stringify([process.execPath, scriptedAgent]);
    missing.push(harness);
  }
  if (missing.length === 0) return { environment, notes: [] };
  return {
    environment,
    notes: [
      `no program is installed for ${missing.join(' and ')}: the scripted agent stands in, which repeats what it is told.`,
      '`svc harness install harness-a` brings a real one; it needs a key, SVC_PROVIDER_A_KEY.',
    ],
  };
}
