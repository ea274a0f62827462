// Recorded events: each once, by its deduplication hash within a project. An event is two rows: svc.events, narrow, with
// the status that changes, and svc.event_bodies, wide, written once. What was received is kept byte for byte, a large
// body as a frame of it (body-frames.ts), and the payload beside it only where it differs; both are bytea, because NUL and
// lone surrogates are legal JSON and illegal in the database. Text that the database cannot hold is written with U+FFFD in its place.

import { addJob } from '../operations/add-job.ts';
import { meantSecret } from '../secrets/credentials.ts';
import type { Database, Sql } from '../store.ts';
import type { NewEvent, Numbered, PackedEvents } from './new-event.ts';
import type { RoutingTx } from '../routing/routing-lock.ts';
import { storable } from '../schema/text.ts';

/** A secret as somebody knows it, and what the name has to mean at the time of recording for that to be true still. */
export interface SecretGuard {
  readonly orgId: string;
  readonly projectId: string;
  readonly name: string;
  readonly secretId: string;
  /** `secretMark` of the sealed value. */
  readonly mark: string;
}

export type RouterStatus = 'pending' | 'routed' | 'unmatched' | 'failed';

export interface RecordedEvent {
  readonly id: string;
  readonly routerStatus: RouterStatus;
  /** False: an event of the same deduplication hash was there already, and this is that one. */
  readonly created: boolean;
}

/** Routing is asked for by the statement that records: one job of this task with the projects that have new events. */
export const routeTask = 'event.route';

/**
 * Asks for the routing of what the caller's transaction recorded in these projects, where this daemon's intake asks for any: once,
 * after everything is recorded. Without a key: two transactions never wait for each other here, and a job too many finds nothing to do.
 */
export async function enqueueRouting(
  tx: Sql,
  intake: { readonly routing: boolean } | undefined,
  projectIds: readonly string[],
): Promise<void> {
  if (intake?.routing !== true || projectIds.length === 0) return;
  await addJob(tx, routeTask, { projects: [...new Set(projectIds)] });
}

// The hashes are inserted in order, so that two batches never wait for each other; seq is given out before that, so that
// it is the order of arrival. What comes in is packed, see `packed`. Numbers are taken behind the recording lock
// (svc.lock_recording), so that routing, which waits for it, meets the events of a project in the order of their
// numbers; whoever routes holds the routing lock itself. `guards`: what was known of secrets when proofs were held
// against them, looked up again in the statement that records; an event whose guard does not hold is left out. One row
// comes back: the guards that hold, and of the others the events that were there already.
const behindLock = `guards as materialized (
    select g.n from json_to_recordset($9::json) as g (n int, org uuid, project uuid, name text, at timestamptz, id uuid,
        mark text)
      where exists (select from (${meantSecret('g.org', 'g.project', 'g.name', 'g.at')}) s
        where s.id = g.id and substring(s.sealed for 13) = decode(g.mark, 'hex'))
  ), given as materialized (
    select svc.lock_recording($10::uuid[])
  ), one as materialized (select count(*) as given from given), `;
const isAllowed = ' where (select given from one) = 1 and (k.guard is null or k.guard in (select n from guards))';
const input = `input as materialized (
    select nextval('svc.events_seq') as seq, r.* from (
      select u.id, u.start, u.raw_size, u.payload_size, u.raw_bytes, k.project, k.key, k.endpoint, k.connection, k.target_type,
          k.target_key, k.at, k.depth, k.replay_of,
          case when k.hashed then substring($2::bytea from u.start - 32 for 32) end as hash
        from unnest($1::uuid[], $3::int[], $4::int[], $5::int[], $6::int[], $8::int[]) with ordinality
          as u (id, shared, start, raw_size, payload_size, raw_bytes, place)
        join json_to_recordset($7::json) as k (n int, project uuid, key text, endpoint uuid, connection uuid,
          target_type text, target_key text, at timestamptz, depth int, replay_of uuid, hashed bool, guard int)
          on k.n = u.shared`;
const written = `
        order by u.place) r
  ), made as (
    insert into svc.events (id, seq, project_id, key, endpoint_id, connection_id, dedup_hash, target_type, target_key,
        received_at, depth, replay_of)
      select id, seq, project, key, endpoint, connection, hash, target_type, target_key, at, coalesce(depth, 0),
        replay_of from input
        order by project, hash
      on conflict (project_id, dedup_hash) where dedup_hash is not null do nothing
      returning id, project_id
  )`;
const bodies = `, bodies as (
    insert into svc.event_bodies (event_id, raw, payload, raw_bytes)
      select id, substring($2::bytea from start for raw_size),
          substring($2::bytea from start + coalesce(raw_size, 0) for payload_size), raw_bytes
        from input join made using (id)
  )`;
const made = '(select array_agg(distinct project_id) as projects from made) m where projects is not null';
const job = `, job as (select graphile_worker.add_job('${routeTask}', payload => json_build_object('projects', projects),
    max_attempts => 100) from ${made})`;
const oneJob = `, job as (select svc.ask_routing(projects) from ${made})`;
const there = 'array(select i.id from input i where not exists (select from made m where m.id = i.id)) as there';
const bare = `with ${behindLock}${input}${isAllowed}${written}`;
const insertOrdered = `${bare}${bodies}`;
const answered = ` select ${there}, array(select n from guards) as held`;
const asked = '(select count(*) from job) as asked';
/**
 * The statement by how routing hears of the events: `inRouting`, the caller routes itself; `record`, the caller tells it;
 * `ask`, a job is added; `askOnce`, a job is added unless one waits. `bare`: the bodies are stored already.
 */
const texts = {
  inRouting: `with ${input}${written}${bodies} select ${there}, '{}'::int[] as held`,
  record: `${insertOrdered}${answered}`,
  ask: `${insertOrdered}${job}${answered}, ${asked}`,
  bareRecord: `${bare}${answered}`,
  bareAsk: `${bare}${job}${answered}, ${asked}`,
  askOnce: `${insertOrdered}${oneJob}${answered}, ${asked}`,
} as const;

/** Of a project's event with a hash: equal for two that are the same. */
export const dedupKey = (projectId: string, hash: Buffer): string => `${projectId} ${hash.toString('latin1')}`;

export interface RecordOptions {
  /** Asks for the routing of what is created, in the same statement. */
  readonly routing: boolean;
  /** The bodies were written before (event-bodies.ts). */
  readonly bare?: boolean;
}

/** An event that counts only as long as `guard` holds, where it has one. */
export interface GuardedEvent {
  readonly event: NewEvent;
  readonly guard?: SecretGuard | undefined;
}

/**
 * Records events in one statement, or finds those that have their deduplication hash, also among each other: the first
 * is the one that is created. Answers in the order given. With `routing`, asks for the routing of the created in the
 * same statement. A concurrent transaction with the same hash is waited for. From here to the commit, routing of these
 * projects waits, so that a later number is never routed first: whatever may take long, or lock, comes before.
 */
export async function recordEvents(
  sql: Sql,
  events: readonly NewEvent[],
  options: RecordOptions,
): Promise<RecordedEvent[]> {
  // Without a guard, none is refused.
  return (await recordAll(
    sql,
    events.map((event) => ({ event })),
    options.bare === true ? (options.routing ? 'bareAsk' : 'bareRecord') : options.routing ? 'ask' : 'record',
  )) as RecordedEvent[];
}

/** Records events in a transaction that holds the routing lock: nobody routes the project before it has ended. */
export async function recordInRouting(tx: RoutingTx, events: readonly NewEvent[]): Promise<void> {
  await recordAll(
    tx,
    events.map((event) => ({ event })),
    'inRouting',
  );
}

/**
 * Records events as `recordEvents` does, in a transaction of its own. Undefined stands for one that was not recorded,
 * because what its name means now is another secret than its guard says, or none. Routing is asked for only where no job
 * waits that does: whoever adds one at the same time is waited for, so this is not for a transaction that goes on.
 */
export async function recordGuarded(
  sql: Database,
  events: readonly GuardedEvent[],
  options: RecordOptions,
): Promise<(RecordedEvent | undefined)[]> {
  return recordAll(sql, events, options.routing ? 'askOnce' : 'record');
}

async function recordAll(
  sql: Sql,
  given: readonly GuardedEvent[],
  way: keyof typeof texts,
): Promise<(RecordedEvent | undefined)[]> {
  const firsts = new Firsts();
  const guards = new Guards();
  const distinct: Numbered[] = [];
  const candidates = given.map(({ event, guard }) => {
    const candidate = { event, guard: guards.add(event, guard) };
    const first = firsts.add(candidate);
    if (first === candidate) distinct.push(candidate);
    return first;
  });
  const { there, held } = await insert(sql, distinct, guards, way);
  const known = await findExisting(
    sql,
    there.size === 0 ? [] : distinct.flatMap(({ event }) => (there.has(event.id) ? [event] : [])),
  );
  return candidates.map(({ event, guard }, at) => {
    if (guard !== undefined && !held.has(guard)) return undefined;
    const { id } = event;
    if (!there.has(id)) return { id, routerStatus: 'pending', created: id === given[at]?.event.id };
    const found = event.dedupHash && known.get(dedupKey(event.projectId, event.dedupHash));
    // Gone between the two statements, by retention: nothing else deletes events.
    if (!found) throw new Error('an event that conflicts is not there');
    return { ...found, created: false };
  });
}

/** The first event of each deduplication hash in a batch; two guards are two answers, and which holds is known only then. */
class Firsts {
  /** By the beginning of the hash, which as good as no two share. */
  readonly #byHash = new Map<number, Numbered[]>();

  /** The one before that is the same, else this. */
  add(one: Numbered): Numbered {
    const { dedupHash } = one.event;
    if (dedupHash === null) return one;
    const beginning = dedupHash.readUInt32LE(0);
    const some = this.#byHash.get(beginning);
    if (some === undefined) {
      this.#byHash.set(beginning, [one]);
      return one;
    }
    const first = some.find((other) => isSame(one, other));
    if (first === undefined) some.push(one);
    return first ?? one;
  }
}

const isSame = (one: Numbered, other: Numbered): boolean =>
  one.guard === other.guard &&
  one.event.projectId === other.event.projectId &&
  other.event.dedupHash !== null &&
  one.event.dedupHash?.equals(other.event.dedupHash) === true;

/** The guards of one batch by number, each once, with the last moment that any of its events counts from. */
class Guards {
  readonly #numbers = new Map<SecretGuard, { readonly n: number; at: Date }>();

  /** Its number. */
  add(event: NewEvent, guard: SecretGuard | undefined): number | undefined {
    if (guard === undefined) return undefined;
    const known = this.#numbers.get(guard);
    if (known === undefined) {
      const n = this.#numbers.size;
      this.#numbers.set(guard, { n, at: event.receivedAt });
      return n;
    }
    if (event.receivedAt > known.at) known.at = event.receivedAt;
    return known.n;
  }

  rows(): string {
    const rows = [...this.#numbers].map(([{ orgId, projectId, name, secretId, mark }, { n, at }]) => ({
      n,
      org: orgId,
      project: projectId,
      name,
      at,
      id: secretId,
      mark,
    }));
    return JSON.stringify(rows);
  }
}

/** Those of `given` that were there already, by id, and the guards that hold, by number. */
async function insert(
  sql: Sql,
  given: readonly Numbered[],
  guards: Guards,
  way: keyof typeof texts,
): Promise<{ readonly there: ReadonlySet<string>; readonly held: ReadonlySet<number> }> {
  const { ids, bytes, shared, starts, rawSizes, payloadSizes, kinds, rawBytes } = packed(given);
  const values: unknown[] = [ids, bytes, shared, starts, rawSizes, payloadSizes, kinds, rawBytes];
  if (way !== 'inRouting') values.push(guards.rows(), [...new Set(given.map((one) => one.event.projectId))]);
  const { rows } = await sql.query<{ there: string[]; held: number[] }>(texts[way], values, `events-${way}`);
  return { there: new Set(rows[0]?.there), held: new Set(rows[0]?.held) };
}

/** Records one event inside the caller's transaction, see `recordEvents`. */
export async function recordEvent(
  sql: Sql,
  event: NewEvent,
  options: RecordOptions = { routing: false },
): Promise<RecordedEvent> {
  const [recorded] = await recordEvents(sql, [event], options);
  return recorded as RecordedEvent;
}

/** Events that have the deduplication hash of one of these, by `dedupKey`. */
export async function findExisting(
  sql: Sql,
  events: readonly NewEvent[],
): Promise<ReadonlyMap<string, { id: string; routerStatus: RouterStatus }>> {
  if (events.length === 0) return new Map();
  const { rows } = await sql.query<{ id: string; projectId: string; hash: Buffer; routerStatus: RouterStatus }>(
    `select e.id, e.project_id as "projectId", e.dedup_hash as hash, e.router_status as "routerStatus"
       from svc.events e join unnest($1::uuid[], $2::bytea[]) as u (project, hash)
         on e.project_id = u.project and e.dedup_hash = u.hash
      where e.dedup_hash is not null`,
    [events.map((event) => event.projectId), events.map((event) => event.dedupHash)],
    'find-recorded',
  );
  return new Map(
    rows.map(({ id, projectId, hash, routerStatus }) => [dedupKey(projectId, hash), { id, routerStatus }]),
  );
}

/**
 * An event's payload from the two halves it is stored in, as JSON text: what was received where nothing was normalized,
 * else what it was normalized to, with what was received under `raw`.
 */
export function wholePayload(raw: Buffer | null, payload: Buffer | null): Buffer {
  if (raw === null || payload === null) return payload ?? raw ?? Buffer.from('null');
  const isMarked = raw[0] === 0xef && raw[1] === 0xbb && raw[2] === 0xbf;
  const open = payload.subarray(0, payload.length - 1);
  const comma = open.length > 1 ? ',' : '';
  return Buffer.concat([open, Buffer.from(`${comma}"raw":`), isMarked ? raw.subarray(3) : raw, Buffer.from('}')]);
}

/**
 * A batch in its order, as the statement takes it: what all share, or many, once; hashes and bodies in one piece of bytes; ids
 * and numbers as the texts of arrays. A JSON object an event costs both sides more than all the rest.
 */
function packed(given: readonly Numbered[]): PackedEvents {
  const parts: Buffer[] = [];
  const kinds: object[] = [];
  const shared: number[] = [];
  const starts: number[] = [];
  const rawSizes: (number | null)[] = [];
  const payloadSizes: (number | null)[] = [];
  const rawBytes: (number | null)[] = [];
  let isAnyFramed = false;
  let ids = '';
  let size = 0;
  let last: Numbered | undefined;
  const place = (part: Buffer | null): number | null => {
    if (part === null) return null;
    parts.push(part);
    size += part.length;
    return part.length;
  };
  for (const one of given) {
    const { event } = one;
    // Those that come in together mostly came in by the same door, in the same millisecond.
    if (last === undefined || !isAlike(last, one)) kinds.push(kindOf(one, kinds.length));
    last = one;
    ids = ids === '' ? event.id : `${ids},${event.id}`;
    shared.push(kinds.length - 1);
    place(event.dedupHash);
    starts.push(size + 1);
    rawSizes.push(place(event.frame ?? event.raw));
    rawBytes.push(event.frame && event.raw ? event.raw.length : null);
    isAnyFramed ||= event.frame !== undefined;
    payloadSizes.push(place(event.payload === null ? null : Buffer.from(event.payload, 'utf8')));
  }
  return {
    ids: `{${ids}}`,
    bytes: parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts, size),
    shared: arrayText(shared),
    starts: arrayText(starts),
    rawSizes: arrayText(rawSizes),
    payloadSizes: arrayText(payloadSizes),
    kinds: JSON.stringify(kinds),
    rawBytes: isAnyFramed ? arrayText(rawBytes) : '{}',
  };
}

const arrayText = (numbers: readonly (number | null)[]): string => {
  let text = '';
  for (const number of numbers) text += text === '' ? `${number}` : `,${number}`;
  return `{${text}}`;
};

function isAlike(one: Numbered, other: Numbered): boolean {
  const { event: a } = one;
  const { event: b } = other;
  return (
    one.guard === other.guard &&
    a.projectId === b.projectId &&
    a.key === b.key &&
    a.receivedAt.getTime() === b.receivedAt.getTime() &&
    a.endpointId === b.endpointId &&
    a.connectionId === b.connectionId &&
    (a.dedupHash === null) === (b.dedupHash === null) &&
    a.target?.type === b.target?.type &&
    a.target?.key === b.target?.key &&
    a.depth === b.depth &&
    a.replayOf === b.replayOf
  );
}

const kindOf = ({ event, guard }: Numbered, n: number): object => ({
  n,
  project: event.projectId,
  key: storable(event.key),
  endpoint: event.endpointId,
  connection: event.connectionId,
  target_type: event.target?.type,
  target_key: event.target && storable(event.target.key),
  at: event.receivedAt,
  depth: event.depth,
  replay_of: event.replayOf,
  hashed: event.dedupHash !== null,
  guard,
});
