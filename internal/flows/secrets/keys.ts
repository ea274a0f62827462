// Master keys as the daemon uses them: whether it holds the right ones, and their rotation. A rotation is a job that
// re-reads the world: killed anywhere, it goes on where rows of another version are left.

import { hostname } from 'node:os';
import { recordAudit } from '../../adapters/store/tenancy/audit.ts';
import { addJob } from '../../adapters/store/operations/add-job.ts';
import type { Database, Sql } from '../../adapters/store/store.ts';
import {
  advanceRotation,
  countStale,
  endRotation,
  firstOrgId,
  holdRotation,
  lastRotation,
  type KeyVersionRow,
  listKeyVersions,
  openRotation,
  readStale,
  replaceSealed,
  type ResealedRow,
  retireUnused,
  type RotationRow,
  rotationById,
  type SealedRow,
  type SealedUse,
  sealedUses,
} from '../../adapters/store/secrets/keys.ts';
import { findKeyConflicts, type KeyHolder, registerKey } from '../../adapters/store/secrets/key-holders.ts';
import type { KeyRing } from '../../adapters/crypto/crypto.ts';
import { failpoint } from '../../base/failpoint.ts';
import { Fault } from '../../domain/fault.ts';
import { type Actor, type FlowContext, sealingOf } from '../context.ts';
import { countSealed } from './manage.ts';

const batchMax = 200;
/** Of 2^32 that random nonces allow. */
const wrapsDue = 2 ** 31;

/** This daemon, as it is noted with its keys. */
export const keyHolder = (daemonId: string): KeyHolder => ({ daemonId, host: hostname(), pid: process.pid });

/** As a person finds it: `host (pid 12)`. */
const nameOf = ({ host, pid }: KeyHolder): string => `${host} (pid ${pid})`;

/**
 * Whether this daemon holds every key that stored values need, and the right ones. Undefined when it does; else what is
 * wrong, naming the versions. Keys that nobody has noted yet are noted; with `anew`, also that this daemon holds them.
 * Reads the key file again where it has changed.
 */
export async function checkKeys(
  db: Database,
  ring: KeyRing,
  by: KeyHolder,
  options: { readonly anew?: boolean } = {},
): Promise<string | undefined> {
  await ring.reload();
  const { sealer } = ring;
  const rows = await listKeyVersions(db);
  const lacking = rows
    .filter((row) => row.rows > 0 && !ring.versions().includes(row.version))
    .map((row) => row.version);
  const wrong: number[] = [];
  for (const version of ring.versions()) {
    const fingerprint = sealer.fingerprint(version);
    const row = rows.find((one) => one.version === version);
    // A key that neither seals nor sealed anything is nobody's business yet.
    if (fingerprint === undefined || (row === undefined && version !== sealer.currentVersion)) continue;
    const isNoted = options.anew !== true && row?.fingerprint?.equals(fingerprint) === true;
    if (!isNoted && !(await db.tx((tx) => registerKey(tx, by, version, fingerprint)))) wrong.push(version);
  }
  const retired = rows.find((row) => row.version === sealer.currentVersion && row.retiredAt !== null);
  const changed = ring.changed();
  const reasons = [
    ...(ring.versions().length === 0 ? ['there is no master key file'] : []),
    ...(lacking.length > 0 ? [`the master key file lacks version ${lacking.join(', ')}`] : []),
    ...(wrong.length > 0 ? await Promise.all(wrong.map((version) => whyWrong(db, by, version, rows))) : []),
    ...(changed.length > 0
      ? [
          `the master key file now has another key as version ${changed.join(', ')} than the one that this daemon began with and still seals with`,
        ]
      : []),
    ...(retired === undefined ? [] : [`version ${retired.version}, the last of the master key file, has been retired`]),
  ];
  return reasons.length === 0 ? undefined : reasons.join('; ');
}

async function whyWrong(db: Database, by: KeyHolder, version: number, rows: readonly KeyVersionRow[]): Promise<string> {
  const another = `the master key file has another key as version ${version} than the one`;
  const quarrels = await findKeyConflicts(db);
  const holder = quarrels.find((one) => one.version === version)?.holder ?? null;
  const held = holder === null ? '' : ` and that ${nameOf(holder)} holds`;
  const isSealing = rows.some((row) => row.version === version && row.rows > 0);
  if (isSealing) return `${another} that seals stored values${holder === null ? '' : held}`;
  return `${another} of this installation${held === '' ? '' : `, which ${held.replace(' and that ', '')}`}; this daemon is ${nameOf(by)}`;
}

/**
 * What `svc doctor` says of daemons that hold another key than the rest: both are named, to who `operates` the installation,
 * as the list of daemons names them to nobody else.
 */
export async function diagnoseKeys(
  ctx: FlowContext,
  { operates }: { readonly operates: boolean },
): Promise<{ readonly name: string; readonly status: 'error'; readonly message: string; readonly hint: string }[]> {
  const quarrels = await findKeyConflicts(ctx.db);
  if (quarrels.length > 0 && !operates) {
    const message = 'a daemon holds another master key than the rest, and takes no work';
    const hint = 'svc doctor of the administrators of the installation says which';
    return [{ name: 'keys', status: 'error', message, hint }];
  }
  return quarrels.map(({ version, refused, holder }) => ({
    name: 'keys',
    status: 'error',
    message: `the daemon ${nameOf(refused)} holds another key as version ${version} than ${holder === null ? 'the one of this installation' : nameOf(holder)}, and takes no work`,
    hint: `give ${refused.host} the master key file of ${holder?.host ?? 'the daemon that began'}, or stop it`,
  }));
}

export interface KeyReport {
  readonly current: number;
  readonly versions: readonly {
    readonly version: number;
    readonly status: 'current' | 'in-use' | 'unused' | 'retired';
    readonly rows: number;
    readonly wraps: number;
    /** Whether this daemon holds it. */
    readonly held: boolean;
    /** Whether it has sealed so much that it should be replaced. */
    readonly due: boolean;
  }[];
  readonly rotation: RotationRow | null;
}

/** Versions, what each seals, and the latest rotation. */
export async function keyReport(ctx: FlowContext): Promise<KeyReport> {
  const { sealer } = sealingOf(ctx);
  const current = sealer.currentVersion;
  const rows = await listKeyVersions(ctx.db);
  return {
    current,
    versions: rows.map(({ version, rows: count, wraps, retiredAt }) => ({
      version,
      status: version === current ? 'current' : retiredAt !== null ? 'retired' : count > 0 ? 'in-use' : 'unused',
      rows: count,
      wraps,
      held: sealer.knows(version),
      due: version === current && wraps >= wrapsDue,
    })),
    rotation: (await lastRotation(ctx.db)) ?? null,
  };
}

/**
 * Asks for every stored value to be sealed with the current key. One rotation runs at a time: asked again, the one under
 * way takes the newer version. Throws Fault `unavailable` where the key file cannot serve.
 */
export async function startRotation(ctx: FlowContext, actor: Actor): Promise<RotationRow> {
  const { keyRing } = sealingOf(ctx);
  const reason = await checkKeys(ctx.db, keyRing, keyHolder(ctx.daemonId));
  if (reason !== undefined) throw new Fault('unavailable', 'master-key-unusable', reason);
  const toVersion = keyRing.sealer.currentVersion;
  const now = ctx.runtime.now();
  return ctx.db.tx(async (tx) => {
    const total = await countStale(tx, toVersion);
    const row = await openRotation(tx, { id: ctx.runtime.uuid(), toVersion, total, now });
    await recordAudit(tx, {
      orgId: await firstOrgId(tx),
      projectId: null,
      principal: actor,
      action: 'keys.rotation_started',
      subject: { kind: 'MasterKey', name: String(toVersion) },
      detail: { rotation: row.id, values: total },
    });
    await addJob(tx, 'keys.rotate', { rotationId: row.id }, { jobKey: 'keys.rotate' });
    return row;
  });
}

export type RotationOutcome = 'done' | 'later';

/**
 * Goes on with a rotation until nothing is left, a batch a transaction. `later`: this daemon does not hold the key yet,
 * or other daemons still seal with an older one. A value that does not open is left as it is, counted and reported.
 */
export async function runRotation(
  ctx: FlowContext,
  job: { readonly rotationId: string; readonly signal: AbortSignal },
): Promise<RotationOutcome> {
  const { keyRing } = sealingOf(ctx);
  await keyRing.reload();
  const rotation = await rotationById(ctx.db, job.rotationId);
  if (rotation === undefined || rotation.status !== 'running') return 'done';
  if (keyRing.sealer.currentVersion !== rotation.toVersion) return 'later';
  let broken = 0;
  for (const use of sealedUses) {
    let after: string | null = null;
    for (;;) {
      if (job.signal.aborted) return 'later';
      const rows = await readStale(ctx.db, use, { current: rotation.toVersion, after, limit: batchMax });
      const last = rows.at(-1);
      if (last === undefined) break;
      after = last.id;
      broken += await resealBatch(ctx, rotation, use, rows);
    }
  }
  return finish(ctx, rotation, broken);
}

/** The number of rows that did not open. */
async function resealBatch(
  ctx: FlowContext,
  rotation: RotationRow,
  use: SealedUse,
  rows: readonly SealedRow[],
): Promise<number> {
  const { sealer } = sealingOf(ctx);
  const resealed: ResealedRow[] = [];
  let broken = 0;
  for (const row of rows) {
    const binding = { orgId: row.orgId, projectId: row.projectId ?? undefined, name: row.name, use };
    try {
      resealed.push({ id: row.id, before: row.sealed, ...sealer.reseal(row, binding) });
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      broken += 1;
      ctx.runtime.log.error({ err: error, rotation: rotation.id, use, id: row.id }, 'keys.value_does_not_open');
    }
  }
  if (resealed.length === 0) return broken;
  failpoint('keys.before-batch');
  await ctx.db.tx(async (tx) => {
    const count = await replaceSealed(tx, use, resealed);
    await advanceRotation(tx, rotation.id, count);
    await countSealed(ctx, tx, resealed[0]?.keyVersion ?? rotation.toVersion, resealed.length);
    failpoint('keys.before-commit');
  });
  failpoint('keys.after-batch');
  return broken;
}

async function finish(ctx: FlowContext, rotation: RotationRow, broken: number): Promise<RotationOutcome> {
  const { db, runtime } = ctx;
  const now = runtime.now();
  const { keyRing } = sealingOf(ctx);
  const known = keyRing.versions().filter((version) => version !== keyRing.sealer.currentVersion);
  return db.tx(async (tx) => {
    // Asked for again meanwhile, with a newer key: it goes on to that one.
    if (!(await holdRotation(tx, rotation))) return 'later';
    const left = await countStale(tx, rotation.toVersion);
    // Another daemon sealed with an older key meanwhile: it reads the key file within seconds.
    if (left > broken) return 'later';
    const retired = await retireUnused(tx, { current: rotation.toVersion, known, now });
    const status = broken === 0 ? 'done' : 'failed';
    const detail =
      broken === 0 ? null : `${broken} stored values do not open and were left as they are; the log has their ids`;
    await endRotation(tx, rotation.id, { status, detail, retired, now });
    await auditEnd(tx, rotation, { retired, broken });
    runtime.log.info({ rotation: rotation.id, toVersion: rotation.toVersion, retired, broken }, 'keys.rotated');
    return 'done';
  });
}

async function auditEnd(
  tx: Sql,
  rotation: RotationRow,
  end: { readonly retired: readonly number[]; readonly broken: number },
): Promise<void> {
  await recordAudit(tx, {
    orgId: await firstOrgId(tx),
    projectId: null,
    principal: { kind: 'system', id: null, name: 'key-rotation' },
    action: 'keys.rotated',
    subject: { kind: 'MasterKey', name: String(rotation.toVersion) },
    detail: { rotation: rotation.id, retired: [...end.retired], unopened: end.broken },
  });
}
