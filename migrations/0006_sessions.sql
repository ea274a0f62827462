-- Sessions as records: what routing makes, what a host runs, and the claims that keep both from happening twice.

-- A session keeps the revision that it was started from, also when its agent is gone: revisions no longer go with the agent.
alter table svc.agent_revisions add column project_id uuid references svc.projects on delete cascade;
update svc.agent_revisions r set project_id = a.project_id from svc.agents a where a.id = r.agent_id;
alter table svc.agent_revisions alter column project_id set not null;
alter table svc.agent_revisions drop constraint agent_revisions_agent_id_fkey;

-- Raised by every transaction that changes what events are routed by; whoever keeps compiled triggers compares it in the
-- transaction that routes.
create table svc.routing_generations (
  project_id uuid primary key references svc.projects on delete cascade,
  generation bigint not null
);
comment on table svc.routing_generations is 'One number per project: raised whenever its agents or triggers change.';
create function svc.raise_routing_generation() returns trigger language plpgsql as $$
begin
  insert into svc.routing_generations (project_id, generation)
    select distinct c.project_id, 1 from changed c join svc.projects p on p.id = c.project_id order by 1
    on conflict (project_id) do update set generation = svc.routing_generations.generation + 1;
  return null;
end $$;
create trigger agents_inserted after insert on svc.agents
  referencing new table as changed for each statement execute function svc.raise_routing_generation();
create trigger agents_updated after update on svc.agents
  referencing new table as changed for each statement execute function svc.raise_routing_generation();
create trigger agents_deleted after delete on svc.agents
  referencing old table as changed for each statement execute function svc.raise_routing_generation();
create trigger triggers_inserted after insert on svc.triggers
  referencing new table as changed for each statement execute function svc.raise_routing_generation();
create trigger triggers_updated after update on svc.triggers
  referencing new table as changed for each statement execute function svc.raise_routing_generation();
create trigger triggers_deleted after delete on svc.triggers
  referencing old table as changed for each statement execute function svc.raise_routing_generation();

create table svc.sessions (
  -- Version 7.
  id uuid primary key,
  project_id uuid not null references svc.projects on delete cascade,
  -- A session outlives its agent: no reference.
  agent_id uuid not null,
  agent text not null,
  revision integer not null,
  origin text not null check (origin in ('event', 'manual', 'session', 'replacement')),
  -- What it was spawned for: event and trigger, or the session that spawned it or that it replaces.
  event_id uuid,
  ordinal integer,
  parent_id uuid,
  idempotency_key text,
  state text not null default 'queued' check (state in ('queued', 'provisioning', 'starting', 'idle', 'running',
    'waiting_permission', 'interrupting', 'suspended', 'blocked', 'archived', 'replaced', 'failed')),
  live boolean not null generated always as (state not in ('archived', 'replaced', 'failed')) stored,
  -- Why it is blocked, suspended or ended.
  reason text,
  display_title text not null,
  -- For the system prompt, under its heading.
  hidden_context text,
  -- Mount path -> ref, rendered when it was spawned.
  mount_refs jsonb not null default '{}',
  -- Fencing: raised by every claim; a write that names an older one changes nothing.
  epoch bigint not null default 0,
  leased_by uuid,
  lease_until timestamptz,
  -- The harness's own name for the conversation, to resume it by.
  harness_session text,
  -- SHA-256 of the token that its tools are called with; null: none.
  token_hash bytea unique,
  -- What its sandbox is and cannot enforce.
  sandbox jsonb,
  usage jsonb not null default '{}',
  created_at timestamptz not null,
  started_at timestamptz,
  active_at timestamptz not null,
  ended_at timestamptz,
  check ((leased_by is null) = (lease_until is null)),
  check (live or leased_by is null),
  check (live = (ended_at is null))
);
create unique index sessions_spawned_once on svc.sessions (event_id, agent_id, ordinal)
  where event_id is not null and origin = 'event';
create unique index sessions_idempotent on svc.sessions (parent_id, idempotency_key) where idempotency_key is not null;
create index sessions_project on svc.sessions (project_id, id desc);
create index sessions_agent_live on svc.sessions (agent_id, id) where live;
create index sessions_waiting on svc.sessions (id) where state in ('queued', 'suspended');
create index sessions_leased on svc.sessions (lease_until) where lease_until is not null;
comment on table svc.sessions is 'Every session once, live or ended. `running` is backed by a lease and never trusted without.';

-- A claim stands as long as its session lives, and whoever inserts first wins (spec, Routing rules 1 and 2).
create table svc.session_claims (
  agent_id uuid not null,
  kind text not null check (kind in ('slot', 'thread')),
  -- Thread: the target's key; slot: empty.
  key text not null check (length(key) <= 1000),
  session_id uuid not null references svc.sessions on delete cascade,
  primary key (agent_id, kind, key)
);
create index session_claims_session on svc.session_claims (session_id);
comment on table svc.session_claims is 'Concurrency slot and chat thread of live sessions.';

create table svc.bindings (
  id uuid primary key,
  project_id uuid not null references svc.projects on delete cascade,
  agent_id uuid not null,
  agent text not null,
  -- Null: an agent's claim that waits for a replacement.
  session_id uuid references svc.sessions on delete cascade,
  target_type text not null,
  target_key text not null check (length(target_key) <= 1000),
  state text not null default 'active' check (state in ('active', 'released')),
  lifecycle text not null check (lifecycle in ('manual', 'held')),
  continuity text not null check (continuity in ('session', 'agent')),
  context jsonb,
  -- {bound?, updated?, unbound?}: what annotates its transitions.
  event_context jsonb,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  released_at timestamptz,
  check ((state = 'released') = (released_at is not null)),
  check (session_id is not null or continuity = 'agent' or state = 'released')
);
-- One active binding per agent and target (contract, section 5); also the claim on a continuation target.
create unique index bindings_active on svc.bindings (agent_id, target_type, target_key) where state = 'active';
create index bindings_target on svc.bindings (project_id, target_type, target_key) where state = 'active';
create index bindings_session on svc.bindings (session_id);
create index bindings_project on svc.bindings (project_id, id desc);
comment on table svc.bindings is 'Which session of an agent gets the events of a target.';

-- What a session made or said outside: how events of it are attributed to the session.
create table svc.session_ties (
  project_id uuid not null references svc.projects on delete cascade,
  target_type text not null,
  target_key text not null check (length(target_key) <= 1000),
  session_id uuid not null references svc.sessions on delete cascade,
  agent text not null,
  -- created, authored, posted, subscribed
  relation text not null,
  created_at timestamptz not null,
  primary key (project_id, target_type, target_key, session_id, relation)
);
create index session_ties_session on svc.session_ties (session_id);
comment on table svc.session_ties is 'Sessions tied to a target, for svc.attributions.';

-- The transcript, append-only: what was said to a session stands from the moment it was accepted.
create sequence svc.messages_seq as bigint cache 1;
create table svc.messages (
  session_id uuid not null references svc.sessions on delete cascade,
  seq bigint not null default nextval('svc.messages_seq'),
  role text not null check (role in ('user', 'assistant', 'tool', 'system')),
  -- prompt, text, thought, tool_call, tool_result, plan, notice, permission
  kind text not null,
  text text not null,
  -- Structured rest: tool name, status, sender.
  detail jsonb,
  event_id uuid,
  at timestamptz not null,
  primary key (session_id, seq)
);
comment on table svc.messages is 'What a session was told, did and answered, in the order of recording; never changed.';

-- The narrow half of what a session is told: its state changes. `seq` is that of the message.
create table svc.inbox (
  session_id uuid not null,
  seq bigint not null,
  state text not null default 'pending' check (state in ('pending', 'in_flight', 'done', 'failed')),
  mode text not null check (mode in ('interrupt', 'defer')),
  -- event, operator, session, platform
  sender text not null,
  event_id uuid,
  agent_id uuid,
  ordinal integer,
  -- Times that it went in; above one it is labelled as delivered again.
  attempts integer not null default 0,
  turn_id uuid,
  reason text,
  primary key (session_id, seq),
  foreign key (session_id, seq) references svc.messages on delete cascade
);
create index inbox_open on svc.inbox (session_id, seq) where state in ('pending', 'in_flight');
-- An event reaches a session once per trigger.
create unique index inbox_once on svc.inbox (event_id, session_id, agent_id, ordinal) where event_id is not null;
comment on table svc.inbox is 'Messages on their way into a session: pending, in flight, done or failed.';

create table svc.turns (
  id uuid primary key,
  session_id uuid not null references svc.sessions on delete cascade,
  -- From 1.
  number integer not null,
  epoch bigint not null,
  state text not null check (state in ('running', 'done', 'cancelled', 'failed', 'lost')),
  stop_reason text,
  error text,
  usage jsonb not null default '{}',
  started_at timestamptz not null,
  ended_at timestamptz,
  unique (session_id, number),
  check ((state = 'running') = (ended_at is null))
);
-- One prompt in flight, ever.
create unique index turns_running on svc.turns (session_id) where state = 'running';
comment on table svc.turns is 'One row per prompt that went into a harness.';

create table svc.event_routes (
  event_id uuid not null,
  agent_id uuid not null,
  ordinal integer not null,
  agent text not null,
  decision text not null,
  -- The sessions that got it, the one that was made among them.
  session_ids uuid[] not null default '{}',
  because text,
  severity text check (severity in ('warning', 'error')),
  primary key (event_id, agent_id, ordinal)
);
comment on table svc.event_routes is 'What each matched trigger decided on an event: once per event and trigger.';

-- Who an event was attributed to when it was routed; binding events that led to this one; what it repeats.
alter table svc.events add column attributions jsonb;
alter table svc.events add column depth integer not null default 0;
alter table svc.events add column replay_of uuid;
alter table svc.events add column reason text;
drop index svc.events_pending;
create index events_pending on svc.events (project_id, seq) where router_status = 'pending';

create table svc.checks (
  id uuid primary key,
  project_id uuid not null references svc.projects on delete cascade,
  agent_id uuid not null,
  agent text not null,
  connection_id uuid,
  target_key text not null check (length(target_key) <= 1000),
  name text not null,
  cycle integer not null,
  head_sha text not null,
  -- The declared check as it was when the cycle began.
  spec jsonb not null,
  state text not null check (state in ('queued', 'in_progress', 'concluded', 'superseded')),
  conclusion text,
  title text,
  summary text,
  timed_out boolean not null default false,
  deadline_at timestamptz,
  event_id uuid not null,
  ordinal integer not null,
  session_id uuid,
  -- The code host's own id of it, and whether it knows the present state.
  external_id text,
  reported boolean not null default false,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  unique (agent_id, target_key, name, cycle),
  check ((state = 'concluded') = (conclusion is not null))
);
create unique index checks_current on svc.checks (agent_id, target_key, name) where state <> 'superseded';
create index checks_due on svc.checks (deadline_at) where deadline_at is not null and state in ('queued', 'in_progress');
create index checks_session on svc.checks (session_id);
comment on table svc.checks is 'Checks on pull requests, one row per cycle (spec, PR check).';
