// Work that survives its host (docs/reference/sessions.md#snapshots): home and work of a session are kept when its host lets go
// of it, sealed by a data key of their own under the master key, and put back by a daemon that has not its files. Only where
// daemons share a database that is not one's own: else nobody could go on with them.

import { createZstdCompress, createZstdDecompress, constants } from 'node:zlib';
import { newDataKey, openPiece, sealPiece } from '../../adapters/crypto/crypto.ts';
import {
  packPart,
  restoreParts,
  type Sandbox,
  type SnapshotPart,
  snapshotParts,
} from '../../adapters/sandbox/sandbox.ts';
import type { ClaimedSession } from '../../adapters/store/sessions/hosts.ts';
import type { LaunchFacts } from '../../adapters/store/sessions/launch.ts';
import {
  countPieces,
  dropSnapshots,
  putPiece,
  putSnapshot,
  readPiece,
  snapshotOf,
  type SnapshotRow,
} from '../../adapters/store/sessions/snapshots.ts';
import { countWraps } from '../../adapters/store/secrets/keys.ts';
import type { Sql } from '../../adapters/store/store.ts';
import { createLimiter } from '../../base/concurrency.ts';
import { sandboxesSettings } from '../../base/config/sandbox-settings.ts';
import { pipeThrough } from '../../base/through.ts';
import { unlessAborted, within } from '../../base/waits.ts';
import { Fault } from '../../domain/fault.ts';
import { type FlowContext, sealingOf, type ProjectRef } from '../context.ts';
import { type Launching, leftToOthersMs, untilStop } from './launching.ts';
import { PieceSpool } from './piece-spool.ts';

const pieceBytes = 1024 * 1024;
/** For one, and for all that a daemon keeps when it stops. */
const keepMs = 20_000;
/** Archives that are made at a time; one place is left for the work of other projects. */
const atOnce = createLimiter(4, 3);
/** Each holds a connection. */
const writing = createLimiter(2, 1);
const dayMs = 24 * 60 * 60 * 1_000;
const dropMax = 50;

type Where = Pick<ProjectRef, 'id' | 'orgId'>;

const bindingOf = (project: Where, sessionId: string) =>
  ({ orgId: project.orgId, projectId: project.id, name: sessionId, use: 'session-snapshot' }) as const;

const limitsOf = (ctx: FlowContext) => sandboxesSettings(ctx.config.file, ctx.config.fileDir).snapshots;

/** Whether this daemon keeps the work of sessions at all. */
export const keepsWork = (ctx: FlowContext): boolean => ctx.config.databaseUrl !== undefined && limitsOf(ctx).maxMB > 0;

class TooLarge extends Error {}

/** Keeps what a sandbox holds, in place of what was kept before. Says in the log where it could not, and why. */
export async function keepWork(
  ctx: FlowContext,
  of: {
    readonly session: ClaimedSession;
    readonly project: Where;
    readonly sandbox: Sandbox;
    /** The daemon stops: the wait for one's turn counts. */
    readonly isLast?: boolean;
  },
): Promise<void> {
  const { maxMB } = limitsOf(ctx);
  if (!keepsWork(ctx)) return;
  const { sessionId } = of.session;
  const began = performance.now();
  try {
    const last = of.isLast === true ? { signal: AbortSignal.timeout(keepMs) } : undefined;
    const act = () => {
      const signal = last?.signal ?? AbortSignal.timeout(keepMs);
      // A sandbox that says nothing does not hear of the end of its time.
      return unlessAborted(keep(ctx, of, maxMB * 1024 * 1024, signal), signal);
    };
    const bytes = await atOnce(of.project.id, act, last);
    if (bytes === undefined) return;
    ctx.runtime.log.info({ sessionId, bytes, ms: Math.round(performance.now() - began) }, 'session.work_kept');
  } catch (error) {
    const why = error instanceof TooLarge ? { reason: `more than ${maxMB} MB, packed` } : { err: error };
    ctx.runtime.log.warn({ sessionId, ...why }, 'session.work_not_kept');
  }
}

/** A sandbox in which no program starts within this says nothing: its wire counts as cut after longer than a daemon that stops has. */
const answerMs = 3_000;

/** Whether a program starts in it within three seconds. Never throws. */
export async function answers(sandbox: Sandbox): Promise<boolean> {
  const started = sandbox.run({ command: ':', cwd: '/', timeoutMs: answerMs }).then(
    () => true,
    () => false,
  );
  return (await within(started, answerMs))?.value === true;
}

/** What has all of a sandbox kept before it is stopped, and after its harness is, once it is called. */
export function keptAtEnd(
  { ctx, session, signal, stops }: Launching,
  of: { readonly project: Where; readonly sandbox: Sandbox },
): () => void {
  let isKept = false;
  stops.push(async () => {
    if (!isKept || !keepsWork(ctx)) return;
    const { sessionId } = session;
    const isHeard = await answers(of.sandbox);
    const keep = () => keepWork(ctx, { ...of, session, isLast: signal.aborted });
    if (isHeard) await untilStop(keep(), signal, leftToOthersMs.work);
    else ctx.runtime.log.warn({ sessionId, reason: 'its sandbox says nothing' }, 'session.work_not_kept');
  });
  return () => void (isKept = true);
}

async function keep(
  ctx: FlowContext,
  of: Parameters<typeof keepWork>[1],
  maxBytes: number,
  signal: AbortSignal,
): Promise<number | undefined> {
  const { project, sandbox } = of;
  const parts = snapshotParts(sandbox);
  const key = newDataKey();
  const spool = await PieceSpool.open(ctx.config.dataDir);
  try {
    let bytes = 0;
    for (const [index, part] of parts.entries()) {
      if (part.root === 'none') continue;
      await cut(packed(sandbox, part, signal), async (number, plain, isLast) => {
        bytes += plain.length;
        if (bytes > maxBytes) throw new TooLarge();
        await spool.add({ part: index, number, piece: sealPiece(key, { part: index, number, isLast }, plain) });
      });
    }
    const write = (): Promise<boolean> => putWork(ctx, of, { parts, bytes, key, spool, signal });
    return (await writing(project.id, write, { signal })) ? bytes : undefined;
  } finally {
    key.fill(0);
    await spool.close();
  }
}

/** False where the session is another host's. */
async function putWork(
  ctx: FlowContext,
  { session, project, sandbox }: Parameters<typeof keepWork>[1],
  packed: {
    readonly parts: readonly SnapshotPart[];
    readonly bytes: number;
    readonly key: Buffer;
    readonly spool: PieceSpool;
    readonly signal: AbortSignal;
  },
): Promise<boolean> {
  const { parts, bytes, key, spool, signal } = packed;
  const { sealer } = sealingOf(ctx);
  const kept = sealer.seal(key, bindingOf(project, session.sessionId));
  const fingerprint = sealer.fingerprint(kept.keyVersion);
  const id = ctx.runtime.uuid();
  return ctx.db.tx(async (tx) => {
    if (!(await putSnapshot(tx, session, { id, provider: sandbox.provider, parts, bytes, ...kept }))) return false;
    for await (const one of spool.pieces()) {
      signal.throwIfAborted();
      await putPiece(tx, { id, ...one });
    }
    // Last: all that is sealed anywhere waits for this row until the commit.
    if (fingerprint !== undefined) await countWraps(tx, { version: kept.keyVersion, fingerprint, count: 1 });
    return true;
  });
}

function packed(sandbox: Sandbox, part: SnapshotPart, signal: AbortSignal): AsyncIterable<Buffer> {
  const level = { params: { [constants.ZSTD_c_compressionLevel]: 1 } };
  return pipeThrough(packPart(sandbox, part, signal), createZstdCompress(level));
}

/** Cuts a stream into pieces of one size; the last may be shorter, and is empty for an empty stream. */
async function cut(
  stream: AsyncIterable<Buffer>,
  write: (number: number, piece: Buffer, isLast: boolean) => Promise<void>,
): Promise<void> {
  let held: Buffer[] = [];
  let size = 0;
  let number = 0;
  for await (const chunk of stream) {
    held.push(chunk);
    size += chunk.length;
    while (size > pieceBytes) {
      const all = Buffer.concat(held);
      await write(number++, all.subarray(0, pieceBytes), false);
      held = [all.subarray(pieceBytes)];
      size -= pieceBytes;
    }
  }
  await write(number, Buffer.concat(held), true);
}

/** Puts back what was kept into a fresh sandbox; undefined where nothing fits it. Gives what it was. */
async function restoreWork(
  ctx: FlowContext,
  of: { readonly sessionId: string; readonly project: Where; readonly sandbox: Sandbox },
): Promise<SnapshotRow | undefined> {
  const { sessionId, project, sandbox } = of;
  const found = await snapshotOf(ctx.db, sessionId);
  if (found === undefined || found.provider !== sandbox.provider) return undefined;
  const key = sealingOf(ctx).sealer.open(found, bindingOf(project, sessionId));
  try {
    const parts = found.parts as readonly SnapshotPart[];
    await restoreParts(sandbox, parts, (part) => pipeThrough(pieces(ctx.db, found, part, key), createZstdDecompress()));
  } finally {
    key.fill(0);
  }
  ctx.runtime.log.info({ sessionId, takenAt: found.takenAt }, 'session.work_restored');
  return found;
}

async function* pieces(sql: Sql, { id }: SnapshotRow, part: number, key: Buffer): AsyncGenerator<Buffer> {
  const count = await countPieces(sql, id, part);
  for (let number = 0; number < count; number += 1) {
    const piece = await readPiece(sql, id, part, number);
    if (piece === undefined) throw new Fault('unavailable', 'snapshot-gone', 'The snapshot of the session is gone.');
    yield openPiece(key, { part, number, isLast: number === count - 1 }, piece);
  }
}

/** Those of sessions that have ended, and old ones. */
export async function dropOldWork(ctx: FlowContext): Promise<void> {
  const before = new Date(ctx.runtime.now().getTime() - limitsOf(ctx).days * dayMs);
  await dropSnapshots(ctx.db, before, dropMax);
}

/** Puts what another daemon kept of its work into the sandbox, and gives what it was; undefined where nothing was. */
export async function restoredOf(
  ctx: FlowContext,
  { sessionId, harnessSession }: ClaimedSession,
  { project }: LaunchFacts,
  sandbox: Sandbox,
): Promise<SnapshotRow | undefined> {
  return harnessSession === null ? undefined : restoreWork(ctx, { sessionId, project, sandbox });
}
