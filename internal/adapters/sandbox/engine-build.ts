// Steps of a preset's image in a box of an engine, as root, and what they leave in home: that lies on a volume in a sandbox,
// and is kept beside it in the image.

import { Fault } from '../../domain/fault.ts';
import { runToEnd } from './child.ts';
import { declaredHome } from './layout.ts';
import type { BuildOptions, RunOptions, RunResult, SandboxSpec } from './types.ts';
import type { Wire } from './wire.ts';

const fileMs = 30_000;
const imageHome = '/.svc-home';
const keepHome = `rm -rf ${imageHome} && cp -a ${declaredHome} ${imageHome} && chown -R 1000:1000 ${imageHome}`;
/** Shell: puts what the steps left in home into a home of its own. */
export const takeHome = `[ ! -d ${imageHome} ] || cp -a ${imageHome}/. ${declaredHome}/`;

/** Throws what a step throws, and Fault where home cannot be kept. */
export async function runSteps(
  wire: Wire,
  build: SandboxSpec['build'],
  { runStep, networkEnv, signal }: BuildOptions,
): Promise<void> {
  const { steps = [], env = {} } = build ?? {};
  const run = async (options: RunOptions): Promise<RunResult> => {
    const argv = typeof options.command === 'string' ? ['/bin/sh', '-c', options.command] : options.command;
    const root = { USER: 'root', LOGNAME: 'root', LANG: 'C.UTF-8', SHELL: '/bin/sh', HOME: declaredHome };
    const child = await wire.start({ argv, env: { ...root, ...options.env }, cwd: options.cwd ?? '/' });
    return runToEnd(child, options);
  };
  await run({ command: `mkdir -p ${declaredHome}`, timeoutMs: fileMs });
  for (const index of steps.keys()) {
    signal?.throwIfAborted();
    await runStep(run, index, { ...env, ...networkEnv });
  }
  const kept = await run({ command: keepHome, timeoutMs: 10 * fileMs });
  if (kept.code === 0) return;
  const message = `What the steps left in home cannot be kept: ${kept.output.trim()}`;
  throw new Fault('unprocessable', 'image-home', message);
}
