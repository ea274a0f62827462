// `make test-harness`: installs the two public adapters at their pinned versions into a directory of its own (or uses
// those of `--data-dir`) and holds the real programs against the checks, first by themselves and then behind the daemon in
// fenced sandboxes, with a stub where a model would be. A harness is SKIPPED only where the registry cannot be reached;
// where both are, that is a failure. Where bubblewrap does not work the sandboxes are plain processes, and it says so.

import { rmSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { HarnessInstallError, installHarness } from '../../internal/adapters/harness/harness.ts';
import { type Harness, harnessNames } from '../../internal/domain/spec.ts';
import { checksList } from '../../internal/harness-check/checks.ts';
import { openSandboxes } from '../../internal/adapters/sandbox/sandbox.ts';
import { createScene, type Live, type Scene } from '../../internal/harness-check/scene.ts';
import { type Place, startService } from '../../internal/harness-check/service.ts';
import { openChecks, serviceChecks } from '../../internal/harness-check/service-checks.ts';
import type { ServiceCheck } from '../../internal/harness-check/scenario.ts';

const say = (text: string): void => void process.stdout.write(`${text}\n`);
const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

async function checkAll(scene: Scene): Promise<number> {
  const started = performance.now();
  const live: Live = await scene.start();
  say(
    `  ${live.connection.agent.name} ${live.connection.agent.version}, ready in ${(performance.now() - started).toFixed(0)} ms`,
  );
  let failed = 0;
  for (const check of checksList) {
    try {
      say(`  ok    ${check.name}: ${await check.run(scene, live)}`);
    } catch (error) {
      failed += 1;
      say(`  FAIL  ${check.name}: ${messageOf(error)}`);
    }
  }
  return failed;
}

async function checkService(
  harness: Harness,
  dataDir: string,
  place: Place,
  checks: readonly ServiceCheck[],
): Promise<number> {
  const startedAt = performance.now();
  const service = await startService(harness, dataDir, place);
  let failed = 0;
  try {
    const where = `${place.sandbox}${place.fenced ? ', fenced' : ''}`;
    say(`  behind svcd, sandbox ${where}, ready in ${(performance.now() - startedAt).toFixed(0)} ms`);
    const story = { service, session: '' };
    for (const check of checks) {
      const start = performance.now();
      const took = (): string => `[${((performance.now() - start) / 1_000).toFixed(1)} s]`;
      try {
        const found = await check.run(story);
        say(`  ok    ${check.name}: ${found} ${took()}`);
      } catch (error) {
        failed += 1;
        say(`  FAIL  ${check.name}: ${messageOf(error)} ${took()}`);
        // Without a session there is nothing to go on with.
        if (story.session === '') break;
      }
    }
  } finally {
    await service.end();
  }
  return failed;
}

/** Where the daemon is held against all checks, and where against those that differ there. */
async function placesHere(): Promise<readonly [whole: Place, part?: Place]> {
  const host = { PATH: process.env['PATH'], HOME: undefined };
  const probe = await mkdtemp(join(tmpdir(), 'svc-harness-check-'));
  const { provider, facts } = await openSandboxes({ dataDir: probe, sandbox: 'auto', host });
  await provider.close();
  await rm(probe, { recursive: true, force: true });
  const plain = { sandbox: 'process', fenced: false } as const;
  if (values.sandbox === 'process') return [plain];
  const sandbox = 'bubblewrap';
  if (facts.inUse === sandbox)
    return [
      { sandbox, fenced: true },
      { sandbox, fenced: false },
    ];
  say(
    `NOT ISOLATED: ${facts.why}; the daemon is held against the checks with plain processes, and no fence is checked`,
  );
  return [plain];
}

async function checkHarness(
  harness: Harness,
  dataDir: string,
  [whole, part]: Awaited<ReturnType<typeof placesHere>>,
): Promise<'ok' | 'failed' | 'skipped'> {
  try {
    const done = await installHarness({ harness, dataDir, env: process.env });
    say(`${harness}: ${done.package} ${done.version}`);
  } catch (error) {
    if (!(error instanceof HarnessInstallError) || error.problem !== 'registry-unreachable') throw error;
    say(`${harness}: SKIPPED: ${error.message}`);
    return 'skipped';
  }
  let failed = await checkAlone(harness, dataDir);
  failed += await checkService(harness, dataDir, whole, serviceChecks);
  if (part !== undefined) failed += await checkService(harness, dataDir, part, openChecks);
  return failed === 0 ? 'ok' : 'failed';
}

async function checkAlone(harness: Harness, dataDir: string): Promise<number> {
  const scene = await createScene(harness, dataDir);
  try {
    return await checkAll(scene);
  } finally {
    await scene.end();
  }
}

const { values } = parseArgs({
  options: { 'data-dir': { type: 'string' }, only: { type: 'string' }, sandbox: { type: 'string' } },
});
const wanted = harnessNames.filter((harness) => values.only === undefined || values.only === harness);
const given = values['data-dir'];
const dataDir = given ?? (await mkdtemp(join(tmpdir(), 'svc-harness-check-')));
process.once('SIGINT', () => {
  if (given === undefined) rmSync(dataDir, { recursive: true, force: true });
  process.exit(130);
});
try {
  const places = await placesHere();
  const results: string[] = [];
  for (const harness of wanted) {
    results.push(
      await checkHarness(harness, dataDir, places).catch((error: unknown) => {
        say(`${harness}: FAIL: ${messageOf(error)}`);
        return 'failed';
      }),
    );
  }
  const all = results.every((result) => result === 'skipped');
  if (all) say('FAIL: every harness was skipped');
  process.exitCode = all || results.includes('failed') ? 1 : 0;
} finally {
  if (given === undefined) await rm(dataDir, { recursive: true, force: true });
}
