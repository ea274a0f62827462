// `svc reconcile …`: runs, one run, and what happens as it happens.

import * as reconciles from '../../../schemas/api/reconciles.ts';
import { type Client, connect } from './client.ts';
import { wholeId } from './ids.ts';
import { wholeNumber } from './input.ts';
import { showList } from './lists.ts';
import {
  aboutText,
  countText,
  printRun,
  type PrintOptions,
  type Run,
  runLine,
  runMs,
  shortCommit,
  statusColour,
  reasonText,
} from './print-run.ts';
import { printDiagnostics } from './diagnostics.ts';
import { clean, durationText, relativeTime } from './text.ts';
import type { Call, Handler } from './types.ts';
import { type LRUCache, recentMap } from '../../base/lru.ts';

/** Runs of which a follower remembers what it has told. */
const rememberedMax = 5000;

export const printOptions = (call: Call): PrintOptions => ({
  paint: call.screen.paint,
  width: call.screen.width,
  now: call.screen.now(),
});

export const reconcileList: Handler = async (call) => {
  const client = await connect(call);
  const now = call.screen.now();
  return showList(call, client, {
    operation: reconciles.listReconciles,
    input: { query: { repository: call.text('repo'), status: call.text('status') } },
    limit: 20,
    empty: call.text('repo') === undefined && call.text('status') === undefined ? 'no runs yet' : 'no such runs',
    whenEmpty: async () => await requireFilter(call, client),
    head: ['started', 'repository', 'status', 'commit', 'reason', 'took', 'changes', 'id'],
    row: ({ value: run }) => {
      const ms = runMs(run);
      return [
        relativeTime(run.startedAt, now),
        run.repository ?? 'manual',
        { text: run.condition ? `${run.status} (${run.condition})` : run.status, colour: statusColour(run.status) },
        shortCommit(run.commit),
        reasonText(run),
        ms === undefined ? '-' : durationText(ms),
        run.actions === undefined || run.actions.length === 0
          ? '-'
          : countText(run.actions, run.status === 'held' ? 'planned' : 'done'),
        run.id,
      ];
    },
    wide: {
      head: ['commit says', 'detail'],
      row: ({ value: run }) => [aboutText(run).trim() || '-', run.detail ?? '-'],
    },
  });
};

/** Throws where runs of a repository are asked for that is not there, rather than tell that it has none. */
async function requireFilter(call: Call, client: Client): Promise<void> {
  const name = call.text('repo');
  if (name !== undefined) await (await import('./selector.ts')).requireRepository(client, name);
}

/** The id of a run, whole or a piece of it. */
const runId = (client: Client, given: string): Promise<string> =>
  wholeId(client, { operation: reconciles.listReconciles }, given);

export const reconcileShow: Handler = async (call) => {
  const client = await connect(call);
  const run = await client.call(reconciles.getReconcile, {
    params: { id: await runId(client, call.arg('ID')) },
    query: call.flag('origins') ? { origins: 'true' } : {},
  });
  call.screen.emit(run, () => printRun(run, printOptions(call)));
  return 0;
};

export const reconcileLogs: Handler = async (call) => {
  const client = await connect(call);
  const query = { repository: call.text('repo') };
  const limit = wholeNumber(call, 'limit', 0, 10_000) ?? 10;
  const newest = async () =>
    limit === 0 ? [] : (await client.list(reconciles.listReconciles, { query }, limit)).items.toReversed();
  const printed = recentMap<string, string>(rememberedMax);
  if (!call.flag('follow')) {
    const runs = await newest();
    // One who follows may wait for a repository that is about to be added.
    if (runs.length === 0) await requireFilter(call, client);
    if (call.json) call.screen.emit({ items: runs, nextCursor: null }, () => '');
    else for (const run of runs) logRun(call, run, printed);
    return 0;
  }
  // Open before the list is read, so that no run falls between the two; what comes twice is told once.
  const { promise: opened, resolve: onOpen } = Promise.withResolvers<void>();
  const stream = client.events(reconciles.streamReconciles, { query }, onOpen);
  let next = stream.next();
  await Promise.race([opened, next]);
  for (const run of await newest()) logRun(call, run, printed);
  if (!call.json) call.screen.note('following: runs are told as they happen');
  for (let message = await next; message.done !== true; message = await next) {
    const run = parseRun(message.value.data);
    if (run !== undefined) logRun(call, run, printed);
    next = stream.next();
  }
  return 0;
};

/** A run in an event of the stream; undefined for events of another kind, such as a keep-alive. */
function parseRun(data: string): Run | undefined {
  let value: unknown;
  try {
    value = JSON.parse(data);
  } catch {
    return undefined;
  }
  const run = Object(value) as Run;
  return typeof run.id === 'string' && typeof run.status === 'string' ? run : undefined;
}

// JSON tells every change of a run, text its end; what is under way is a line in place on a terminal.
function logRun(call: Call, run: Run, printed: LRUCache<string, string>): void {
  const state = JSON.stringify([run.status, run.stages?.length, run.finishedAt]);
  if (printed.get(run.id) === state) return;
  printed.set(run.id, state);
  if (!call.json && run.status === 'running') {
    const stage = run.stages?.at(-1)?.name;
    call.screen.progress(
      `… ${clean(run.repository ?? 'manual', true)}${stage === undefined ? '' : `: ${clean(stage, true)} done`}`,
    );
  } else call.screen.stream(run, () => logText(run, printOptions(call)));
}

function logText(run: Run, options: PrintOptions): string {
  const stages = (run.stages ?? []).map(
    (stage) => `${clean(stage.name, true)} ${stage.ms === undefined ? '…' : durationText(stage.ms)}`,
  );
  const lines = [runLine(run, options)];
  if (stages.length > 0) lines.push(`    ${options.paint('grey', stages.join(' · '))}`);
  if (run.detail) lines.push(`    ${clean(run.detail)}`);
  const found = run.diagnostics ?? [];
  if (found.length > 0) lines.push(printDiagnostics(found, options.paint).replace(/^(?=.)/gm, '    '));
  return lines.join('\n');
}
