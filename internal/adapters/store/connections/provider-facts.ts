// svc.provider_facts: what a provider last said of a thing. Readers that act on a change hold the connection's lock on
// that thing for their transaction, so that two deliveries do not see the same change.

import type { Fact, FactKey } from '../../../domain/delivery.ts';
import type { Sql } from '../store.ts';

/** The last values of facts, read under a lock of this connection that the transaction holds until its end. */
export async function readFacts(
  tx: Sql,
  connectionId: string,
  facts: readonly FactKey[],
): Promise<ReadonlyMap<string, string>> {
  if (facts.length === 0) return new Map();
  await tx.query(`select pg_advisory_xact_lock(hashtextextended('svc.provider_facts ' || $1::text, 0))`, [
    connectionId,
  ]);
  const { rows } = await tx.query<{ id: string; value: string }>(
    `select f.kind || ' ' || f.key as id, f.value
       from svc.provider_facts f join unnest($2::text[], $3::text[]) as w (kind, key)
         on f.kind = w.kind and f.key = w.key
      where f.connection_id = $1::uuid`,
    [connectionId, facts.map((fact) => fact.kind), facts.map((fact) => storable(fact.key))],
  );
  return new Map(rows.map((row) => [row.id, row.value]));
}

/** The name of a fact in what `readFacts` gives. */
export const factId = (fact: FactKey): string => `${fact.kind} ${storable(fact.key)}`;

/** So many facts go at once; a delivery of very many holds the event loop up no longer than one of these. */
const slice = 2_000;

/** Writes what has changed, in the order of keys; what is said again is noted once a month, to know that it is alive. */
export async function writeFacts(tx: Sql, connectionId: string, facts: readonly Fact[], now: Date): Promise<void> {
  const distinct = [...new Map(facts.map((fact) => [factId(fact), fact]))];
  // All of a delivery in one order, so that of two that say the same neither waits for the other.
  if (distinct.length > slice) distinct.sort(([one], [two]) => (one < two ? -1 : 1));
  for (let from = 0; from < distinct.length; from += slice) {
    const part = distinct.slice(from, from + slice).map(([, fact]) => fact);
    await tx.query(
      `insert into svc.provider_facts (connection_id, kind, key, value, updated_at)
       select $1::uuid, f.kind, f.key, f.value, $5::timestamptz
         from unnest($2::text[], $3::text[], $4::text[]) as f (kind, key, value) order by f.kind, f.key
       on conflict (connection_id, kind, key) do update
         set value = excluded.value, updated_at = excluded.updated_at
       where svc.provider_facts.value is distinct from excluded.value
          or svc.provider_facts.updated_at < excluded.updated_at - interval '30 days'`,
      [
        connectionId,
        part.map((fact) => fact.kind),
        part.map((fact) => storable(fact.key)),
        part.map((fact) => storable(fact.value)),
        now,
      ],
    );
  }
}

const forgottenAfterDays = 180;

/** Forgets up to `limit` facts that no delivery has said for half a year; the number that went. */
export async function forgetFacts(sql: Sql, now: Date, limit: number): Promise<number> {
  const { rowCount } = await sql.query(
    `with old as (
       select connection_id, kind, key from svc.provider_facts
        where updated_at < $1::timestamptz - $2::int * interval '1 day'
        order by updated_at limit $3::int for update skip locked)
     delete from svc.provider_facts f using old
      where f.connection_id = old.connection_id and f.kind = old.kind and f.key = old.key`,
    [now, forgottenAfterDays, limit],
  );
  return rowCount;
}

/** Text that the database can hold, and that an index can. */
const storable = (text: string): string => text.toWellFormed().replaceAll('\0', '\uFFFD').slice(0, 500).toWellFormed();

/** What a project's agents are called. */
export async function agentUsernames(sql: Sql, projectId: string): Promise<string[]> {
  const { rows } = await sql.query<{ username: string }>(
    `select distinct spec ->> 'username' as username from svc.generated_resources
      where project_id = $1::uuid and kind = 'Identity' and spec ->> 'username' is not null`,
    [projectId],
  );
  return rows.map((row) => row.username);
}
