// svc.bindings: which session of an agent gets the events of a target. One active row per agent and target, by a unique
// index; a row is never taken out, it is released. Writes are set-wise, and are made under the routing lock.

import { passed } from '../../../base/passing.ts';
import type { JsonObject } from '../../../domain/json.ts';
import type { BindingTarget, Continuity, EventContext, Lifecycle } from '../../../domain/spec.ts';
import type { RoutingTx } from './routing-lock.ts';
import type { Sql } from '../store.ts';
import { earlyEnd, endingEarly, jsonBytes, type Sized } from '../schema/early-end.ts';
import { storable, storableJson } from '../schema/text.ts';

export interface Binding {
  /** Version 7: bindings sort in the order in which they were made. */
  readonly id: string;
  readonly agentId: string;
  readonly agent: string;
  /** Null: an agent's claim that waits for a replacement. */
  readonly sessionId: string | null;
  readonly target: { readonly type: BindingTarget; readonly key: string };
  readonly state: 'active' | 'released';
  readonly lifecycle: Lifecycle;
  readonly continuity: Continuity;
  /** Relationship context. */
  readonly context: JsonObject | null;
  /** What annotates its transitions. */
  readonly eventContext: EventContext | null;
}

const selected = `id, agent_id as "agentId", agent, session_id as "sessionId", state, lifecycle, continuity, context,
  event_context as "eventContext", json_build_object('type', target_type, 'key', target_key) as target`;

/** Active bindings of the project that any of the conditions names; each condition may be left out. */
export async function findBindings(
  tx: RoutingTx,
  by: {
    readonly id?: string;
    readonly sessionId?: string;
    readonly agentId?: string;
    readonly target?: Binding['target'];
  },
): Promise<Binding[]> {
  const { rows } = await tx.query<Binding>(
    `select ${selected} from svc.bindings
      where project_id = $1::uuid and state = 'active' and ($2::uuid is null or id = $2::uuid)
        and ($3::uuid is null or session_id = $3::uuid) and ($4::uuid is null or agent_id = $4::uuid)
        and ($5::text is null or (target_type = $5::text and target_key = $6::text))
      order by id for update`,
    [
      tx.projectId,
      by.id ?? null,
      by.sessionId ?? null,
      by.agentId ?? null,
      by.target?.type ?? null,
      by.target === undefined ? null : storable(by.target.key),
    ],
  );
  return rows;
}

/** Rows of a page, and the bytes of their notes after which it ends: each is read, told and written again. */
const page = { rows: 64, bytes: 131_072 } as const;

/** Where a page of bindings begins. */
export interface PageOfBindings {
  /** Behind this one; null: with the first. */
  readonly after: string | null;
  /** Rows that are looked at. */
  readonly rows: number;
}

export const firstBindings: PageOfBindings = { after: null, rows: page.rows };

/** What was found, and where the page behind it begins, where there is one. */
export interface BindingsPage {
  readonly rows: readonly Binding[];
  readonly next: PageOfBindings | undefined;
}

/** The next active bindings that a session holds, or with `agentId` those of its agent that are nobody's else, oldest first. */
export async function nextHeld(
  tx: RoutingTx,
  of: { readonly sessionId: string; readonly agentId?: string },
  at: PageOfBindings,
): Promise<BindingsPage> {
  const where = `project_id = $3::uuid and state = 'active'
        and (session_id = $4::uuid or (agent_id = $5::uuid and session_id is null))`;
  return bindingsPage(tx, where, [tx.projectId, of.sessionId, of.agentId ?? null], 'next-held', at);
}

/** The same of claims of these agents that wait for a holder, in the order in which they were made. */
export async function nextWaiting(
  tx: RoutingTx,
  agentIds: readonly string[],
  at: PageOfBindings,
): Promise<BindingsPage> {
  if (agentIds.length === 0) return { rows: [], next: undefined };
  const where = `agent_id = any($3::uuid[]) and session_id is null and state = 'active'`;
  return bindingsPage(tx, where, [agentIds], 'next-waiting', at);
}

async function bindingsPage(
  sql: Sql,
  where: string,
  values: readonly unknown[],
  name: string,
  { after, rows: looked }: PageOfBindings,
): Promise<BindingsPage> {
  const listed = `select ${selected} from svc.bindings
      where ${where} and ($1::uuid is null or id > $1::uuid) order by id limit $2::int for update`;
  const text = endingEarly(listed, { size: jsonBytes('context', '"eventContext"'), order: 'id', bytesMax: page.bytes });
  const found = (await sql.query<Binding & Sized>(text, [after, looked, ...values], name)).rows;
  const { rows, isCut } = earlyEnd(found);
  // As they came, and as they were read: there may be thousands of such pages.
  passed(2 * (isCut ? page.bytes : Number(found.at(-1)?.bytesBefore ?? 0)));
  const last = rows.at(-1);
  if (last === undefined || (!isCut && rows.length < looked)) return { rows, next: undefined };
  // To find where a page ends takes reading the notes of all that are looked at: behind large ones, not many more.
  return { rows, next: { after: last.id, rows: Math.min(page.rows, 2 * rows.length) } };
}

/** Whether a session holds anything that only the platform, or an operator, takes from it. */
export async function hasHeld(tx: RoutingTx, sessionId: string): Promise<boolean> {
  const { rows } = await tx.query(
    `select from svc.bindings where project_id = $1::uuid and session_id = $2::uuid and state = 'active'
        and lifecycle = 'held' limit 1`,
    [tx.projectId, sessionId],
  );
  return rows.length > 0;
}

/** Those of these agents that have claims which wait for a holder. */
export async function agentsWithWaiting(sql: Sql, agentIds: readonly string[]): Promise<string[]> {
  if (agentIds.length === 0) return [];
  const { rows } = await sql.query<{ id: string }>(
    `select a.id from unnest($1::uuid[]) as a (id)
      where exists (select from svc.bindings b where b.agent_id = a.id and b.session_id is null and b.state = 'active')`,
    [agentIds],
    'agents-with-waiting',
  );
  return rows.map(({ id }) => id);
}

const columns = `(id uuid, agent_id uuid, agent text, session_id uuid, target_type text, target_key text, state text,
  lifecycle text, continuity text, context jsonb, event_context jsonb)`;

/** Characters of one statement: notes may be large, and those of many bindings are the same. */
const packedMax = 4 * 1_048_576;

/** As JSON, so many at a time. */
function* packed(bindings: readonly Binding[]): Generator<string> {
  let texts: string[] = [];
  let size = 0;
  for (const one of bindings) {
    const text = storableJson({
      id: one.id,
      agent_id: one.agentId,
      agent: one.agent,
      session_id: one.sessionId,
      target_type: one.target.type,
      target_key: one.target.key,
      state: one.state,
      lifecycle: one.lifecycle,
      continuity: one.continuity,
      context: one.context ?? undefined,
      event_context: (one.eventContext as JsonObject | null) ?? undefined,
    });
    texts.push(text);
    size += text.length;
    if (size < packedMax) continue;
    yield `[${texts.join()}]`;
    [texts, size] = [[], 0];
  }
  if (texts.length > 0) yield `[${texts.join()}]`;
}

/** Inserts bindings as they are; one that was bound and released within the transaction as well. */
export async function insertBindings(tx: RoutingTx, bindings: readonly Binding[], now: Date): Promise<void> {
  for (const rows of packed(bindings)) await tx.query(insertText, [tx.projectId, rows, now], 'insert-bindings');
}

const insertText = `insert into svc.bindings (id, project_id, agent_id, agent, session_id, target_type, target_key, state, lifecycle,
         continuity, context, event_context, created_at, updated_at, released_at)
       select id, $1::uuid, agent_id, agent, session_id, target_type, target_key, state, lifecycle, continuity, context,
              event_context, $3::timestamptz, $3::timestamptz,
              case when state = 'released' then $3::timestamptz end
         from json_to_recordset($2::json) as r ${columns}`;

/** Writes active bindings as they have become. Call before `insertBindings`, which may need what this releases. */
export async function updateBindings(tx: RoutingTx, bindings: readonly Binding[], now: Date): Promise<void> {
  for (const rows of packed(bindings)) await tx.query(updateText, [tx.projectId, rows, now], 'update-bindings');
}

const updateText = `update svc.bindings b set session_id = r.session_id, state = r.state, lifecycle = r.lifecycle,
         continuity = r.continuity, context = r.context, event_context = r.event_context, updated_at = $3::timestamptz,
         released_at = case when r.state = 'released' then $3::timestamptz end
       from json_to_recordset($2::json) as r ${columns}
      where b.id = r.id and b.project_id = $1::uuid and b.state = 'active'`;

/** Gives active bindings another holder, or releases them; the rest of each stays as it stands. */
export async function shiftBindings(
  tx: RoutingTx,
  bindings: readonly Pick<Binding, 'id' | 'sessionId' | 'state'>[],
  now: Date,
): Promise<void> {
  if (bindings.length === 0) return;
  await tx.query(
    `update svc.bindings b set session_id = r.session_id, state = r.state, updated_at = $5::timestamptz,
         released_at = case when r.state = 'released' then $5::timestamptz end
       from unnest($2::uuid[], $3::uuid[], $4::text[]) as r (id, session_id, state)
      where b.id = r.id and b.project_id = $1::uuid and b.state = 'active'`,
    [
      tx.projectId,
      bindings.map((one) => one.id),
      bindings.map((one) => one.sessionId),
      bindings.map((one) => one.state),
      now,
    ],
    'shift-bindings',
  );
}
