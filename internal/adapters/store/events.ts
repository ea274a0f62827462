// Recorded events: each once, by its deduplication hash within a project. An event is two rows: svc.events, narrow, with
// the status that changes, and svc.event_bodies, wide, written once. What was received is kept byte for byte, and the
// payload beside it only where it differs; both are bytea, because NUL and lone surrogates are legal JSON and illegal in
// the database. Text that the database cannot hold is written with U+FFFD in its place.

import { meantSecret } from './credentials.ts';
import type { Sql } from './db.ts';
import type { RoutingTx } from './routing.ts';
import { storable } from './text.ts';

export interface EventTarget {
  readonly type: string;
  readonly key: string;
}

export interface NewEvent {
  /** Version 7, see `timeOrderedId`. */
  readonly id: string;
  readonly projectId: string;
  readonly key: string;
  /** SHA-256 of the deduplication scope and key; null: nothing to deduplicate on. */
  readonly dedupHash: Buffer | null;
  /** The received body. */
  readonly raw: Buffer | null;
  /** The normalized payload as the text of a JSON object, without its `raw`; null: the received body is the payload. */
  readonly payload: string | null;
  readonly receivedAt: Date;
  readonly endpointId?: string;
  readonly connectionId?: string;
  readonly target?: EventTarget;
  /** Binding events that led to this one, one after another; absent: it came from outside. */
  readonly depth?: number;
  /** The event that this one repeats. */
  readonly replayOf?: string;
}

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

// The hashes are inserted in order, so that two batches never wait for each other; seq is given out before that, so that
// it is the order of arrival. The received bytes of all come as one parameter, cut apart by offset: quoting each costs
// more than all the rest. `ordered`: numbers are taken behind the recording lock (svc.lock_recording), so that routing,
// which waits for it, meets the events of a project in the order of their numbers; `plain`: whoever records holds the
// routing lock itself. `guards`: what was known of secrets when proofs were held against them, looked up again in the
// statement that records; an event whose guard does not hold is left out.
const plain = 'input as materialized (';
const behindLock = `guards as materialized (
    select g.n from json_to_recordset($3::json) as g (n int, org uuid, project uuid, name text, at timestamptz, id uuid,
        mark text)
      where exists (select from (${meantSecret('g.org', 'g.project', 'g.name', 'g.at')}) s
        where s.id = g.id and substring(s.sealed for 13) = decode(g.mark, 'hex'))
  ), given as materialized (
    select svc.lock_recording($4::uuid[])
  ), one as materialized (select count(*) as given from given), input as materialized (`;
const numbered = `
    select nextval('svc.events_seq') as seq, r.id, r.project, r.key, decode(r.hash, 'hex') as hash, r.endpoint,
      r.connection, r.target_type, r.target_key, r.at, r.depth, r.replay_of, r.raw_from, r.raw_size, r.payload_from,
      r.payload_size, r.guard
      from json_to_recordset($1::json) as r (id uuid, project uuid, key text, hash text, endpoint uuid, connection uuid,
        target_type text, target_key text, at timestamptz, depth int, replay_of uuid, raw_from int, raw_size int,
        payload_from int, payload_size int, guard int)`;
const inserted = `
  ), made as (
    insert into svc.events (id, seq, project_id, key, endpoint_id, connection_id, dedup_hash, target_type, target_key,
        received_at, depth, replay_of)
      select id, seq, project, key, endpoint, connection, hash, target_type, target_key, at, coalesce(depth, 0),
        replay_of from input
        order by project, hash
      on conflict (project_id, dedup_hash) where dedup_hash is not null do nothing
      returning id, project_id
  ), bodies as (
    insert into svc.event_bodies (event_id, raw, payload)
      select id, substring($2::bytea from raw_from for raw_size), substring($2::bytea from payload_from for payload_size)
        from input join made using (id)
  )`;
const job = `, job as (
    select graphile_worker.add_job('${routeTask}', payload => json_build_object('projects',
        (select json_agg(distinct project_id) from made)), max_attempts => 100) as asked
      where exists (select from made)
  )`;
const insertPlain = `with ${plain}${numbered}${inserted}`;
const insertOrdered = `with ${behindLock}${numbered}
      where (select given from one) = 1 and (r.guard is null or r.guard in (select n from guards))${inserted}`;
const made = ' select id, null::int as guard from made';
const madeAndAsked = `${job} select id, null::int as guard, (select count(*) from job) from made`;
const held = ' union all select null, n from guards';
const heldBeside = ' union all select null, n, 0 from guards';
const texts = {
  record: { plain: `${insertPlain}${made}`, ordered: `${insertOrdered}${made}${held}` },
  ask: { plain: `${insertPlain}${madeAndAsked}`, ordered: `${insertOrdered}${madeAndAsked}${heldBeside}` },
} as const;

function packed(given: readonly GuardedEvent[], guards: Guards): { readonly rows: string; readonly bytes: Buffer } {
  const parts: Buffer[] = [];
  let size = 0;
  const place = (part: Buffer | null): { from: number; size: number } | undefined => {
    if (part === null) return undefined;
    const from = size + 1;
    parts.push(part);
    size += part.length;
    return { from, size: part.length };
  };
  const rows = given.map(({ event, guard }) => {
    const raw = place(event.raw);
    const payload = place(event.payload === null ? null : Buffer.from(event.payload, 'utf8'));
    return {
      id: event.id,
      project: event.projectId,
      key: storable(event.key),
      hash: event.dedupHash?.toString('hex'),
      endpoint: event.endpointId,
      connection: event.connectionId,
      target_type: event.target?.type,
      target_key: event.target && storable(event.target.key),
      at: event.receivedAt,
      depth: event.depth,
      replay_of: event.replayOf,
      raw_from: raw?.from,
      raw_size: raw?.size,
      payload_from: payload?.from,
      payload_size: payload?.size,
      guard: guard && guards.at(guard),
    };
  });
  return { rows: JSON.stringify(rows), bytes: parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts, size) };
}

const dedupKey = (event: NewEvent): string | undefined =>
  event.dedupHash === null ? undefined : `${event.projectId} ${event.dedupHash.toString('latin1')}`;

export interface RecordOptions {
  /** Asks for the routing of what is created, in the same statement. */
  readonly routing: boolean;
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
    { ...options, ordered: true },
  )) as RecordedEvent[];
}

/** Records events in a transaction that holds the routing lock: nobody routes the project before it has ended. */
export async function recordInRouting(tx: RoutingTx, events: readonly NewEvent[]): Promise<void> {
  await recordAll(
    tx,
    events.map((event) => ({ event })),
    { routing: false, ordered: false },
  );
}

/**
 * Records events as `recordEvents` does. Undefined stands for one that was not recorded, because what its
 * name means now is another secret than its guard says, or none.
 */
export async function recordGuarded(
  sql: Sql,
  events: readonly GuardedEvent[],
  options: RecordOptions,
): Promise<(RecordedEvent | undefined)[]> {
  return recordAll(sql, events, { ...options, ordered: true });
}

async function recordAll(
  sql: Sql,
  given: readonly GuardedEvent[],
  options: RecordOptions & { readonly ordered: boolean },
): Promise<(RecordedEvent | undefined)[]> {
  const firsts = new Map<string, GuardedEvent>();
  const guards = new Guards();
  const distinct = given.filter((one) => {
    // Two guards, two answers: which of them holds is known only then.
    const key = keyOf(one, guards);
    if (key === undefined) return true;
    if (firsts.has(key)) return false;
    firsts.set(key, one);
    return true;
  });
  const { created, held } = await insert(sql, distinct, guards, options);
  const isRefused = (one: GuardedEvent): boolean => one.guard !== undefined && !held.has(guards.at(one.guard));
  const known = await findExisting(
    sql,
    distinct.filter((one) => !created.has(one.event.id) && !isRefused(one)).map((one) => one.event),
  );
  return given.map((one) => {
    const { id } = one.event;
    if (created.has(id)) return { id, routerStatus: 'pending', created: true };
    if (isRefused(one)) return undefined;
    const first = firsts.get(keyOf(one, guards) ?? '')?.event.id;
    if (first !== undefined && created.has(first)) return { id: first, routerStatus: 'pending', created: false };
    const found = known.get(dedupKey(one.event) ?? '');
    // Gone between the two statements, by retention: nothing else deletes events.
    if (found === undefined) throw new Error('an event that conflicts is not there');
    return { ...found, created: false };
  });
}

/** The guards of one batch by number, each once, with the last moment that any of its events counts from. */
class Guards {
  readonly #numbers = new Map<SecretGuard, { readonly n: number; at: Date }>();

  at(guard: SecretGuard): number {
    return this.#numbers.get(guard)?.n ?? -1;
  }

  add({ event, guard }: GuardedEvent): number | undefined {
    if (guard === undefined) return undefined;
    const known = this.#numbers.get(guard);
    if (known === undefined) this.#numbers.set(guard, { n: this.#numbers.size, at: event.receivedAt });
    else if (event.receivedAt > known.at) known.at = event.receivedAt;
    return this.at(guard);
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

/** Under which two events of one statement are the same; those of different guards are told apart by the index. */
function keyOf(one: GuardedEvent, guards: Guards): string | undefined {
  const guard = guards.add(one);
  const key = dedupKey(one.event);
  return key === undefined || guard === undefined ? key : `${guard} ${key}`;
}

/** What was made, by id, and the guards that hold, by number. */
async function insert(
  sql: Sql,
  given: readonly GuardedEvent[],
  guards: Guards,
  options: RecordOptions & { readonly ordered: boolean },
): Promise<{ readonly created: ReadonlySet<string>; readonly held: ReadonlySet<number> }> {
  const order = options.ordered ? 'ordered' : 'plain';
  const what = options.routing ? 'ask' : 'record';
  const { rows, bytes } = packed(given, guards);
  const values: unknown[] = [rows, bytes];
  if (order === 'ordered') values.push(guards.rows(), [...new Set(given.map((one) => one.event.projectId))]);
  const made = await sql.query<{ id: string | null; guard: number }>(texts[what][order], values, `${what}-${order}`);
  const created = new Set<string>();
  const held = new Set<number>();
  for (const { id, guard } of made.rows) {
    if (id === null) held.add(guard);
    else created.add(id);
  }
  return { created, held };
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

async function findExisting(
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
    rows.map(({ id, projectId, hash, routerStatus }) => [
      `${projectId} ${hash.toString('latin1')}`,
      { id, routerStatus },
    ]),
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
