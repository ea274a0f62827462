// History that goes in slices: each is one statement over rows that an index names, of a size that does not depend on how
// much there is. A slice says where the next one goes on; whoever stops in between loses nothing, the next run begins anew.

import type { Sql } from '../store.ts';
import type { Slice } from './retention.ts';

/** Newest runs of each repository, and of each project without one, that stay however old they are; of held ones as many. */
const runsKept = 100;
/** Newest revisions of each agent that stay however old they are. */
const revisionsKept = 100;
/** Repositories, projects or agents that a slice looks at, and rows that it takes of each. */
const slice = { owners: 40, each: 50, rows: 5_000 } as const;

interface Looked {
  readonly gone: number;
  readonly last: string | null;
  readonly owners: number;
  /** Up to where all were looked at that have more of the time in question; null where nobody has. */
  readonly upTo: string | null;
}
/** A slice of owners goes on behind an owner and, of each that follows, behind a number: what may not go yet is passed. */
interface Place {
  readonly owner: string | null;
  readonly upTo: string;
}
const ownersFrom = (after: string | null): Place =>
  after === null ? { owner: null, upTo: '0' } : (JSON.parse(after) as Place);
const nextOf = ({ gone, last, owners, upTo }: Looked, { owner }: Place): Slice => {
  if (upTo !== null) return { gone, next: JSON.stringify({ owner, upTo } satisfies Place) };
  const place: Place = { owner: last, upTo: '0' };
  return { gone, next: owners === slice.owners ? JSON.stringify(place) : null };
};
/** The first slice has no place to go on from, nor has one that is repeated from there. */
const placeOf = (after: string | null): string | null => (after === '' ? null : after);

/**
 * Deletes sessions that ended before an instant and hold no binding, with all that was said in them. Of long ones the
 * transcript goes first, a part at a time. `after` is that of the slice before.
 */
export async function deleteSessions(tx: Sql, before: Date, limit: number, after: string | null): Promise<Slice> {
  const [endedAt, id] = placeOf(after) === null ? [null, null] : (JSON.parse(String(after)) as [string, string]);
  const { rows } = await tx.query<{ id: string; held: boolean; at: string }>(
    `select s.id, s.ended_at::text as at,
            exists (select from svc.bindings b where b.session_id = s.id and b.state = 'active') as held
       from svc.sessions s
      where s.ended_at < $1::timestamptz and ($3::timestamptz is null or (s.ended_at, s.id) > ($3::timestamptz, $4::uuid))
      order by s.ended_at, s.id limit $2::int for update of s skip locked`,
    [before, limit, endedAt, id],
  );
  const ids = rows.filter((row) => !row.held).map((row) => row.id);
  if (!(await deleteTranscripts(tx, ids))) return { gone: 0, next: after ?? '' };
  if (ids.length > 0) await tx.query('delete from svc.sessions where id = any($1::uuid[])', [ids]);
  const last = rows.at(-1);
  return {
    gone: ids.length,
    next: rows.length < limit || last === undefined ? null : JSON.stringify([last.at, last.id]),
  };
}

/** Deletes what was said in sessions, as much as a slice may; true where nothing is left. */
export async function deleteTranscripts(tx: Sql, sessionIds: readonly string[]): Promise<boolean> {
  if (sessionIds.length === 0) return true;
  for (const table of ['svc.inbox', 'svc.messages', 'svc.permissions', 'svc.turns']) {
    const { rowCount } = await tx.query(
      `delete from ${table} where ctid = any(array(select ctid from ${table} where session_id = any($1::uuid[]) limit $2::int))`,
      [sessionIds, slice.rows],
    );
    if (rowCount === slice.rows) return false;
  }
  return true;
}

/** Held runs and all others that are over are counted apart; each has an index. */
const kinds = [`r.status = 'held'`, `r.status not in ('running', 'held')`] as const;

// Of rows looked at, in the order of their number and as many of each owner as a slice takes: up to where the owners were
// looked at that have more from before the instant. What stands in the way (a run that began long ago and ended lately, a
// revision in use) is passed, so that no number of them keeps what is behind.
const upToSql = (number: string, group: string): string => `(select min(upto)::text from (
    select max(${number}) as upto from looked group by ${group} having count(*) filter (where isbefore) >= ${slice.each}) more)`;

// Runs that may go: of each owner the oldest few, of held ones as many, behind the newest that stay.
// They are asked for in an order that the index of their kind alone has: by their number alone they are sought among the runs
// of all owners, where one of them has few.
const runsSql = (owners: string, ofOwner: string): string => `with owners as materialized (
    select id from ${owners} where $3::uuid is null or id > $3::uuid order by id limit ${slice.owners}
  ), looked as materialized (${kinds
    .map(
      (kind, at) => `
    select o.id as owner, ${at} as kind, old.id, old.seq, old.finished_at < $1::timestamptz as isold,
           old.started_at < $1::timestamptz as isbefore
      from owners o
      cross join lateral (
        select r.seq from svc.reconciles r where ${ofOwner} and ${kind}
         order by r.repository_id, r.seq desc offset $2::int limit 1) newest
      cross join lateral (
        select r.id, r.started_at, r.finished_at, r.seq from svc.reconciles r
         where ${ofOwner} and ${kind} and r.seq > $4::bigint
         order by r.repository_id desc, r.seq limit ${slice.each}) old
     where old.seq <= newest.seq`,
    )
    .join(' union all ')}
  ), gone as (
    delete from svc.reconciles where id = any(array(select id from looked where isold)) returning id
  )
  select (select count(*)::int from gone) as gone, (select max(id::text) from owners) as last,
         (select count(*)::int from owners) as owners, ${upToSql('seq', 'owner, kind')} as "upTo"`;
const ofRepositories = runsSql('svc.repositories', 'r.repository_id = o.id and r.project_id = o.project_id').replace(
  'select id from svc.repositories',
  'select id, project_id from svc.repositories',
);
const ofProjects = runsSql('svc.projects', 'r.repository_id is null and r.project_id = o.id');

/** Deletes runs that finished before an instant, but for the newest of each repository, or of each project without one. */
export async function deleteReconciles(
  tx: Sql,
  of: 'repositories' | 'projects',
  before: Date,
  after: string | null,
): Promise<Slice> {
  const text = of === 'repositories' ? ofRepositories : ofProjects;
  const place = ownersFrom(after);
  const { rows } = await tx.query<Looked>(text, [before, runsKept, place.owner, place.upTo]);
  return nextOf(rows[0] as Looked, place);
}

/**
 * Deletes revisions of agents that are older than an instant and that no live session runs on, but for the newest of each
 * agent that is there.
 */
export async function deleteRevisions(tx: Sql, before: Date, after: string | null): Promise<Slice> {
  const place = ownersFrom(after);
  const { rows } = await tx.query<Looked>(
    `with recursive owners as (
       select (select agent_id from svc.agent_revisions where agent_id > coalesce($3::uuid, '${'0'.repeat(32)}'::uuid)
                order by agent_id limit 1) as id, 1 as nth
       union all
       select (select r.agent_id from svc.agent_revisions r where r.agent_id > o.id order by r.agent_id limit 1), o.nth + 1
         from owners o where o.id is not null and o.nth < ${slice.owners}
     ), looked as materialized (
       select o.id as owner, old.revision, old.created_at < $1::timestamptz as isbefore, old.created_at < $1::timestamptz
                and not exists (select from svc.sessions s
                                 where s.live and s.agent_id = o.id and s.revision = old.revision) as isold
         from owners o cross join lateral (
           select r.revision, r.created_at from svc.agent_revisions r where r.agent_id = o.id and r.revision > $4::int
            order by r.revision limit ${slice.each}) old
        where o.id is not null and (not exists (select from svc.agents a where a.id = o.id) or old.revision <= (
          select r.revision from svc.agent_revisions r where r.agent_id = o.id order by r.revision desc
          offset $2::int limit 1))
     ), gone as (
       delete from svc.agent_revisions r using looked l
        where l.isold and r.agent_id = l.owner and r.revision = l.revision returning r.agent_id
     )
     select (select count(*)::int from gone) as gone, (select max(id::text) from owners) as last,
            (select count(id)::int from owners) as owners, ${upToSql('revision', 'owner')} as "upTo"`,
    [before, revisionsKept, place.owner, place.upTo],
  );
  return nextOf(rows[0] as Looked, place);
}

/** Deletes rows of the ledger, or of its days, from before an instant. The sums of a day go with the calls of that day. */
export async function deleteUsage(tx: Sql, of: 'calls' | 'days', before: Date): Promise<Slice> {
  const [table, column, type] = of === 'calls' ? ['usage_ledger', 'at', 'timestamptz'] : ['usage_days', 'day', 'date'];
  const { rowCount } = await tx.query(
    `delete from svc.${table} where ctid = any(array(
       select ctid from svc.${table} where ${column} < $1::${type} order by ${column} limit $2::int))`,
    [before, slice.rows],
  );
  return { gone: rowCount, next: rowCount === slice.rows ? '' : null };
}
