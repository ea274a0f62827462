// svc.key_holders: which daemon holds which master key. The key of a version that seals nothing yet may be replaced, for its
// file may have been lost before it was needed, but not under a daemon that lives with it. Invariant: the fingerprint of a
// version changes only under the lock of its row in svc.key_versions, while no value is sealed with it and no live daemon
// but the writer holds the noted key; whoever starts notes what it holds under the same lock.

import type { Sql } from '../store.ts';
import { holderLives, nothingSealedWith } from './keys.ts';

export interface KeyHolder {
  readonly daemonId: string;
  readonly host: string;
  readonly pid: number;
}

/**
 * Notes the key of a version, and that this daemon holds it: where none was noted, or another one that seals nothing and
 * that no other live daemon holds. False where the noted key is another one; that is noted as well. Call in a transaction
 * of its own.
 */
export async function registerKey(tx: Sql, by: KeyHolder, version: number, fingerprint: Buffer): Promise<boolean> {
  await tx.query(
    `insert into svc.key_versions (version, fingerprint) values ($1::int, $2::bytea) on conflict (version) do nothing`,
    [version, fingerprint],
  );
  // Waits for whoever is storing a value under the other key; the next statement sees that value.
  await tx.query('select from svc.key_versions where version = $1::int for update', [version]);
  await tx.query(
    `update svc.key_versions set fingerprint = $2::bytea, wraps = 0, retired_at = null
      where version = $1::int and fingerprint <> $2::bytea
        and ${nothingSealedWith('$1::int')}
        and not exists (select from svc.key_holders h where h.version = $1::int and h.fingerprint <> $2::bytea
          and not h.refused and h.daemon_id <> $3::uuid and ${holderLives})`,
    [version, fingerprint, by.daemonId],
  );
  const { rows } = await tx.query<{ same: boolean }>(
    `with gone as (
       delete from svc.key_holders h where not ${holderLives} and h.daemon_id <> $3::uuid
     )
     insert into svc.key_holders as k (daemon_id, version, fingerprint, host, pid, refused)
       select $3::uuid, $1::int, $2::bytea, $4::text, $5::int, v.fingerprint <> $2::bytea
         from svc.key_versions v where v.version = $1::int
     on conflict (daemon_id, version) do update
       set fingerprint = excluded.fingerprint, refused = excluded.refused, seen_at = now()
     returning not refused as same`,
    [version, fingerprint, by.daemonId, by.host, by.pid],
  );
  return rows[0]?.same === true;
}

/** A daemon that stops in order holds nothing any more. */
export async function forgetKeys(sql: Sql, daemonId: string): Promise<void> {
  await sql.query('delete from svc.key_holders where daemon_id = $1::uuid', [daemonId]);
}

export interface KeyConflict {
  readonly version: number;
  /** Takes no work: its key is another one. */
  readonly refused: KeyHolder;
  /** A live daemon with the noted key, where there is one. */
  readonly holder: KeyHolder | null;
}

/** Daemons that live and hold another key than the noted one, in the order in which they came. */
export async function findKeyConflicts(sql: Sql): Promise<KeyConflict[]> {
  const holder = (row: string): string =>
    `json_build_object('daemonId', ${row}.daemon_id, 'host', ${row}.host, 'pid', ${row}.pid)`;
  const { rows } = await sql.query<KeyConflict>(
    `select h.version, ${holder('h')} as refused, (
         select ${holder('h')} from svc.key_holders h
           where h.version = o.version and not h.refused and ${holderLives} order by h.seen_at, h.daemon_id limit 1) as holder
       from svc.key_holders o cross join lateral (select o.*) h
      where h.refused and ${holderLives} order by h.seen_at, h.daemon_id limit 20`,
  );
  return rows;
}
