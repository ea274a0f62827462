// `svc repo sync --wait`: asks for the run until it has ended, and shows its stages as they come.

import * as reconciles from '../../../schemas/api/reconciles.ts';
import type { Client } from './client.ts';
import { printOptions } from './command-reconcile.ts';
import { Refusal, refusal } from './failure.ts';
import { patiently } from './patience.ts';
import { printRun, type Run } from './print-run.ts';
import { pause } from './sse.ts';
import { clean, durationText } from './text.ts';
import type { Call } from './types.ts';

const pollMs = 150;
const spinner = '⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏';

/** Exit 0 when the run was applied or unchanged, else 1 with its reason on stderr. */
export async function syncAndWait(
  call: Call,
  client: Client,
  name: string,
  start: () => Promise<{ reconcileId: string }>,
  timeoutSeconds: number,
): Promise<number> {
  const startedMs = call.io.now().getTime();
  let { reconcileId } = await start();
  let shown = 0;
  const look = patiently(async () => {
    const run = await readRun(client, reconcileId);
    return { run, newer: run?.status === 'superseded' ? await newestOf(client, name, run.id) : undefined };
  });
  for (let turn = 0; ; turn++) {
    const { run, newer } = (await look()) ?? {};
    if (newer !== undefined) {
      // What was asked for lives on in the run that took its place.
      call.screen.progress('');
      if (!call.json) call.screen.note(`${reconcileId} was superseded; following ${newer}`);
      reconcileId = newer;
      shown = 0;
      continue;
    }
    if (run !== undefined) shown = showStages(call, run.stages ?? [], shown);
    if (run !== undefined && run.status !== 'running') return finish(call, name, run);
    const elapsedMs = call.io.now().getTime() - startedMs;
    if (elapsedMs > timeoutSeconds * 1000) {
      throw refusal(
        'timeout',
        `${name} is still syncing after ${durationText(elapsedMs)}`,
        `svc reconcile show ${reconcileId}`,
      );
    }
    const frame = spinner[turn % spinner.length] ?? '';
    const stage = run?.stages?.at(-1)?.name ?? 'waiting for a daemon';
    call.screen.progress(`${frame} syncing ${name}: ${clean(stage, true)} (${durationText(elapsedMs)})`);
    await pause(pollMs, call.io.signal);
    if (call.io.signal.aborted) {
      throw refusal('interrupted', 'stopped waiting; the sync goes on', `svc reconcile show ${reconcileId}`);
    }
  }
}

/** The repository's newest run, where it is another one. */
async function newestOf(client: Client, repository: string, than: string): Promise<string | undefined> {
  const [newest] = (await client.list(reconciles.listReconciles, { query: { repository } }, 1)).items;
  return newest === undefined || newest.id === than ? undefined : newest.id;
}

// The run may be written a moment after its id was handed out.
async function readRun(client: Client, id: string): Promise<Run | undefined> {
  try {
    return await client.call(reconciles.getReconcile, { params: { id } });
  } catch (error) {
    if (error instanceof Refusal && error.problem.status === 404) return undefined;
    throw error;
  }
}

// A stage is listed when it has ended.
function showStages(call: Call, stages: NonNullable<Run['stages']>, from: number): number {
  const { screen } = call;
  if (!screen.json) {
    for (const stage of stages.slice(from)) {
      const took = durationText(stage.ms ?? 0);
      screen.note(`${screen.errPaint('green', '✓')} ${clean(stage.name, true)} ${screen.errPaint('grey', took)}`);
    }
  }
  return Math.max(from, stages.length);
}

function finish(call: Call, name: string, run: Run): number {
  const { screen } = call;
  screen.progress('');
  // The stages were told one by one; the text has the rest, and its diagnostics go with the reason.
  screen.emit(run, () =>
    printRun(
      { ...run, stages: [], diagnostics: run.status === 'failed' ? [] : (run.diagnostics ?? []) },
      printOptions(call),
    ),
  );
  if (run.status === 'applied' || run.status === 'unchanged') return 0;
  throw new Refusal(
    {
      type: 'about:blank',
      title: 'The sync did not apply',
      code: `sync-${run.status}`,
      detail: `${name}: ${reasonOf(run)}`,
      reconcileId: run.id,
      ...(run.condition && { condition: run.condition }),
      ...(run.diagnostics !== undefined && run.diagnostics.length > 0 && { diagnostics: run.diagnostics }),
    },
    run.status === 'held' ? `look at the changes, then: svc repo approve ${name} ${run.id}` : undefined,
  );
}

function reasonOf(run: Run): string {
  const detail = run.detail ?? undefined;
  if (run.status === 'failed') {
    const errors = (run.diagnostics ?? []).filter((diagnostic) => diagnostic.severity === 'error').length;
    const why = run.condition ? `${run.condition}${detail === undefined ? '' : `: ${detail}`}` : detail;
    return `the sync failed${why !== undefined ? `: ${why}` : errors > 0 ? `: ${errors} error${errors === 1 ? '' : 's'} in the tree` : ''}`;
  }
  if (run.status === 'held') return `held${detail === undefined ? '' : `: ${detail}`}`;
  if (run.status === 'superseded') return 'superseded by a newer sync';
  return `${run.status}${detail === undefined ? '' : `: ${detail}`}`;
}
