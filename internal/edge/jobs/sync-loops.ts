// The loops behind the reconciler: polling what is due, watching folders, taking over from daemons that are gone, and
// sweeping. Each turn is a function of flows/sync; here is only when.

import { wishChannel, wishSync } from '../../adapters/store/repositories/polls.ts';
import { lackOfRoom } from '../../adapters/store/schema/room.ts';
import { watchedFolders } from '../../adapters/store/repositories/repositories.ts';
import type { FlowContext } from '../../flows/context.ts';
import { keepPolls, openForWatch, pollTurn, scheduleAll, sweep, SyncLane, takeOver } from '../../flows/sync/sync.ts';
import { loop, wokenLoop } from './loop.ts';

const every = { pollMs: 1_000, keepMs: 10_000, foldersMs: 2_000, takeOverMs: 3_000, sweepMs: 60 * 60 * 1000 } as const;

/** Polls what is due and takes over from daemons that are gone. */
export async function startPolling(ctx: FlowContext): Promise<{ stop(): Promise<void> }> {
  const { log } = ctx.runtime;
  const lane = new SyncLane(ctx, log);
  await scheduleAll(ctx);
  const patient = { ...ctx, db: ctx.db.looks };
  // Taking over is tried again every few seconds: a daemon starts also while it is not possible.
  const loops = [
    await wokenLoop(ctx, 'poll', { pauseMs: every.pollMs, channel: wishChannel }, async () => {
      const { more } = await pollTurn(ctx, lane);
      return more ? 0 : undefined;
    }),
    loop(ctx, 'keep', every.keepMs, () => keepPolls(patient)),
    loop(ctx, 'take-over', every.takeOverMs, async () => {
      // Where a run cannot be written down, one that is begun anew every few seconds would not be either.
      if ((await lackOfRoom(patient.db)) === undefined) await takeOver(patient, lane, log);
    }),
    loop(ctx, 'sweep', every.sweepMs, (signal) => sweep(patient, log, signal)),
  ];
  return {
    async stop() {
      await Promise.all(loops.map((one) => one.stop()));
      await lane.stop();
    },
  };
}

interface Watched {
  readonly generation: number;
  stop(): Promise<void>;
}

async function watchOne(ctx: FlowContext, id: string, generation: number): Promise<Watched> {
  const source = await openForWatch(ctx, id);
  if (source === null || source.watch === undefined) {
    await source?.close();
    return { generation, stop: async () => undefined };
  }
  const { log } = ctx.runtime;
  const dirty = (): void => {
    wishSync(ctx.db, { repositoryId: id, reason: 'watch' }).catch((error: unknown) => {
      // The next poll sees what this did not say.
      log.warn({ err: error, repositoryId: id }, 'repo.watch_failed');
    });
  };
  const watching = await source.watch(dirty);
  // What changed between the last look and the moment the watch stood was told to nobody.
  dirty();
  return {
    generation,
    async stop() {
      await watching.stop();
      await source.close();
    },
  };
}

/** Watches the folders that repositories lie in. */
export async function startWatching(ctx: FlowContext): Promise<{ stop(): Promise<void> }> {
  const watched = new Map<string, Watched>();
  const turn = async (): Promise<void> => {
    const wanted = new Map((await watchedFolders(ctx.db.looks)).map((row) => [row.id, row.generation]));
    for (const [id, one] of watched) {
      if (wanted.get(id) === one.generation) continue;
      watched.delete(id);
      await one.stop();
    }
    for (const [id, generation] of wanted) {
      if (watched.has(id)) continue;
      try {
        watched.set(id, await watchOne(ctx, id, generation));
      } catch (error) {
        // A folder that is not there (yet) is polled; the watch is tried again with the next turn.
        ctx.runtime.log.debug({ err: error, repositoryId: id }, 'repo.watch_failed');
      }
    }
  };
  const running = loop(ctx, 'folders', every.foldersMs, turn);
  return {
    async stop() {
      await running.stop();
      for (const one of watched.values()) await one.stop();
      watched.clear();
    },
  };
}
