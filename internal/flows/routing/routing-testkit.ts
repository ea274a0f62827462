// What tests of routing share: agents by the API, deliveries through the public door, and what became of them, read from
// the rows. Only tests import this.

import assert from 'node:assert/strict';
import { createHmac, randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Database } from '../../adapters/store/store.ts';
import { lockRouting } from '../../adapters/store/routing/routing-lock.ts';
import type { Api, TestDaemon } from '../../base/testkit/daemon.ts';
import { addConnection, deliver } from '../ingest/ingest-testkit.ts';
import { endSession } from '../sessions/sessions.ts';

export const runnable = {
  harness: 'harness-a',
  environment: { name: 'default', image: { kind: 'preset', name: 'base' } },
};

export const hook = (endpoint: string, routing: object, more: object = {}): object => ({
  event: 'webhook.received',
  endpoint,
  auth: { kind: 'none' },
  routing,
  ...more,
});

/** Applies agents by name, beside those that are there; answers with the ingest paths by endpoint. */
export async function applyAgents(
  api: Api,
  agents: { readonly [name: string]: object },
  prune = false,
): Promise<{ readonly [endpoint: string]: string }> {
  const files = Object.entries(agents).map(([name, spec]) => ({
    path: `.svc/agents/${name}.yaml`,
    content: JSON.stringify({ name, ...runnable, ...spec }),
  }));
  const { status, body } = await api('POST', 'P/apply', { files, prune });
  assert.equal(status, 200, JSON.stringify(body));
  const webhooks = body['webhooks'] as unknown as { endpoint: string; ingestUrl: string }[];
  return Object.fromEntries(webhooks.map((one) => [one.endpoint, new URL(one.ingestUrl).pathname]));
}

/** Posts a body; answers with the id of its record. */
export async function post(url: string, path: string, body: object): Promise<string> {
  const response = await fetch(`${url}${path}`, { method: 'POST', body: JSON.stringify(body) });
  const answer = (await response.json()) as { eventRecordId: string };
  assert.ok(response.status === 202 || response.status === 200, `${response.status} ${JSON.stringify(answer)}`);
  return answer.eventRecordId;
}

/** Waits until no event waits. */
export async function settled(db: Database, withinMs = 120_000): Promise<void> {
  for (let waited = 0; ; waited += 20) {
    const { rows } = await db.query<{ left: number }>(
      `select count(*)::int as left from svc.events where router_status = 'pending'`,
    );
    if (rows[0]?.left === 0) return;
    assert.ok(waited < withinMs, `${rows[0]?.left} events still wait`);
    await sleep(20);
  }
}

export interface RouteRow {
  readonly event: string;
  readonly agent: string;
  readonly ordinal: number;
  readonly decision: string;
  readonly sessions: readonly string[];
  readonly because: string | null;
  readonly severity: string | null;
}

export async function routesOf(db: Database, eventId: string): Promise<RouteRow[]> {
  const { rows } = await db.query<RouteRow>(
    `select event_id as event, agent, ordinal, decision, session_ids as sessions, because, severity
       from svc.event_routes where event_id = $1::uuid order by agent collate "C", ordinal`,
    [eventId],
  );
  return rows;
}

export interface EventState {
  readonly id: string;
  readonly key: string;
  readonly status: string;
  readonly severity: string | null;
  readonly reason: string | null;
  readonly attributions: readonly { readonly sessionId: string; readonly relation: string }[] | null;
}

export async function eventState(db: Database, id: string): Promise<EventState> {
  const { rows } = await db.query<EventState>(
    'select id, key, router_status as status, severity, reason, attributions from svc.events where id = $1::uuid',
    [id],
  );
  assert.ok(rows[0]);
  return rows[0];
}

export interface SessionState {
  readonly id: string;
  readonly agent: string;
  readonly title: string;
  readonly hidden: string | null;
  readonly refs: object;
  readonly eventId: string | null;
  readonly messages: readonly {
    readonly text: string;
    readonly mode: string;
    readonly event: string | null;
    readonly state: string;
  }[];
}

/** Every session of an agent, oldest first, with what it was told. */
export async function sessionsOf(db: Database, agent: string): Promise<SessionState[]> {
  const { rows } = await db.query<SessionState>(
    `select s.id, s.agent, s.display_title as title, s.hidden_context as hidden, s.mount_refs as refs,
            s.event_id as "eventId",
            (select json_agg(json_build_object('text', m.text, 'mode', i.mode, 'event', m.event_id, 'state', i.state)
                    order by m.seq)
               from svc.messages m join svc.inbox i using (session_id, seq) where m.session_id = s.id) as messages
       from svc.sessions s where s.agent = $1::text order by s.id`,
    [agent],
  );
  return rows;
}

/** A project's id. */
async function projectId(daemon: TestDaemon): Promise<string> {
  const { rows } = await daemon.ctx.db.query<{ id: string }>(`select id from svc.projects where slug = 'default'`);
  return rows[0]?.id ?? '';
}

const providerSecret = 'the secret of the connection';
const hmac = (text: string): string => createHmac('sha256', providerSecret).update(text).digest('hex');

/** A connection to a code host whose application is `svc-app`; what it gives delivers one event and waits. */
export async function codehostDoor(daemon: TestDaemon): Promise<(event: string, body: object) => Promise<string>> {
  const config = { appId: 7, botLogin: 'svc-app' };
  const credentials = { webhookSecret: providerSecret };
  const id = await addConnection(daemon, { provider: 'codehost', name: 'hub', config, credentials });
  return async (event, body) => {
    const text = JSON.stringify(body);
    const answer = await deliver(daemon, `/api/v1/intake/codehost/${id}`, text, {
      'x-github-event': event,
      'x-github-delivery': randomUUID(),
      'x-hub-signature-256': `sha256=${hmac(text)}`,
    });
    assert.equal(answer.status, 202, JSON.stringify(answer.body));
    await settled(daemon.ctx.db);
    return String(answer.body['eventRecordId']);
  };
}

/** A connection to a chat provider whose bot is UBOT; what it gives delivers one event of workspace T1 and, if so asked, waits. */
export async function chatDoor(daemon: TestDaemon): Promise<(event: object, waits?: boolean) => Promise<string>> {
  const config = { botUserId: 'UBOT', workspaceId: 'T1' };
  const credentials = { signingSecret: providerSecret };
  const id = await addConnection(daemon, { provider: 'chat', name: 'talk', config, credentials });
  return async (event, waits = true) => {
    const text = JSON.stringify({
      type: 'event_callback',
      team_id: 'T1',
      api_app_id: 'A1',
      event_id: `Ev${randomUUID()}`,
      event: { channel: 'C1', user: 'U1', ...event },
    });
    const at = String(Math.floor(daemon.ctx.runtime.now().getTime() / 1_000));
    const answer = await deliver(daemon, `/api/v1/intake/chat/${id}`, text, {
      'x-slack-request-timestamp': at,
      'x-slack-signature': `v0=${hmac(`v0:${at}:${text}`)}`,
    });
    assert.equal(answer.status, 202, JSON.stringify(answer.body));
    if (waits) await settled(daemon.ctx.db);
    return String(answer.body['eventRecordId']);
  };
}

export interface BindingState {
  readonly agent: string;
  readonly session: string | null;
  readonly target: string;
  readonly state: string;
  readonly lifecycle: string;
  readonly continuity: string;
  readonly context: object | null;
}

/** Every binding of an agent, oldest first. */
export async function bindingsOf(db: Database, agent: string): Promise<BindingState[]> {
  const { rows } = await db.query<BindingState>(
    `select agent, session_id as session, target_type || ':' || target_key as target, state, lifecycle, continuity, context
       from svc.bindings where agent = $1::text order by created_at, id`,
    [agent],
  );
  return rows;
}

export interface Emitted {
  readonly key: string;
  readonly status: string;
  readonly depth: number;
  readonly target: string | null;
  readonly binding: { readonly sessionId: string; readonly eventContext: object | null; readonly target: object };
}

/** Binding events of an agent's bindings, in the order of recording. */
export async function emittedBy(db: Database, agent: string): Promise<Emitted[]> {
  const { rows } = await db.query<Omit<Emitted, 'binding'> & { payload: Buffer }>(
    `select e.key, e.router_status as status, e.depth, e.target_key as target, b.payload
       from svc.events e join svc.event_bodies b on b.event_id = e.id
      where e.key like 'svc.session.binding.%' order by e.seq`,
  );
  return rows
    .map(({ payload, ...row }) => ({ ...row, ...(JSON.parse(String(payload)) as { binding: Emitted['binding'] }) }))
    .filter((row) => (row.binding as unknown as { agent: string }).agent === agent);
}

/** Ends a session as its archive does. */
export async function archive(daemon: TestDaemon, sessionId: string): Promise<void> {
  const id = await projectId(daemon);
  await daemon.ctx.db.tx(async (tx) => {
    await endSession(daemon.ctx, await lockRouting(tx, id), sessionId, 'archived', 'done');
  });
  await settled(daemon.ctx.db);
}
