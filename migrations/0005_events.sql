-- Recorded events and the daemons that work on them.
create sequence svc.events_seq as bigint cache 1;
create table svc.events (
  -- Version 7, so that ids grow with time and the bodies can be cut by it.
  id uuid primary key,
  -- The order of recording.
  seq bigint not null default nextval('svc.events_seq'),
  project_id uuid not null references svc.projects on delete cascade,
  key text not null,
  -- Where it came in: neither is a reference, an event outlives both.
  endpoint_id uuid,
  connection_id uuid,
  -- SHA-256 of the deduplication scope and key; a long key would not fit a unique index.
  dedup_hash bytea,
  -- The routing target that the payload names; null where it names none.
  target_type text,
  target_key text,
  received_at timestamptz not null default now(),
  router_status text not null default 'pending' check (router_status in ('pending', 'routed', 'unmatched', 'failed')),
  severity text check (severity in ('warning', 'error')),
  check ((target_type is null) = (target_key is null))
);
create unique index events_dedup on svc.events (project_id, dedup_hash) where dedup_hash is not null;
create index events_project on svc.events (project_id, seq desc);
create index events_pending on svc.events (seq) where router_status = 'pending';
comment on table svc.events is 'Every event once: the narrow row, whose status changes.';

create table svc.event_bodies (
  event_id uuid primary key,
  -- What was received, byte for byte; parsed in the process, never by the database.
  raw bytea,
  -- The payload as JSON text (bytea: NUL and lone surrogates are legal JSON and illegal in jsonb). Null: `raw` is the
  -- payload. Where both are there, `raw` also stands under that name in the payload, and is not written twice.
  payload bytea,
  check (raw is not null or payload is not null)
) partition by range (event_id);
alter table svc.event_bodies alter column raw set storage external;
alter table svc.event_bodies alter column payload set storage external;
create table svc.event_bodies_rest partition of svc.event_bodies default;
comment on table svc.event_bodies_rest is 'Bodies for which no partition was made.';
comment on table svc.event_bodies is 'The wide half of an event, written once and never changed.';

-- A body goes with its event. No foreign key: it would be looked up for every event that comes in.
create function svc.drop_event_bodies() returns trigger language plpgsql as $$
begin
  delete from svc.event_bodies where event_id in (select id from gone);
  return null;
end $$;
create trigger events_gone after delete on svc.events
  referencing old table as gone for each statement execute function svc.drop_event_bodies();

create table svc.provider_facts (
  connection_id uuid not null references svc.connections on delete cascade,
  kind text not null check (kind in ('mergeable', 'label', 'state', 'user', 'thread')),
  key text not null check (length(key) <= 1000),
  value text not null,
  updated_at timestamptz not null,
  primary key (connection_id, kind, key)
);
comment on table svc.provider_facts is 'What a provider last said of a thing, where a later delivery gives only its id, or a change is the fact.';

-- Whoever keeps endpoints in memory forgets them: the payload is a slug, or empty for all.
create function svc.tell_endpoints() returns trigger language plpgsql as $$
begin
  if tg_table_name <> 'endpoints' then
    perform pg_notify('svc_endpoints', '');
  elsif tg_op = 'DELETE' then
    perform pg_notify('svc_endpoints', old.slug);
  else
    perform pg_notify('svc_endpoints', new.slug);
  end if;
  return null;
end $$;
create trigger endpoints_told after insert or update or delete on svc.endpoints
  for each row execute function svc.tell_endpoints();
create trigger projects_told after update of archived_at, org_id on svc.projects
  for each row execute function svc.tell_endpoints();

create table svc.daemons (
  id uuid primary key,
  roles text[] not null,
  host text not null,
  pid integer not null,
  -- graphile-worker ids of its pool, so that a dead daemon''s jobs can be unlocked.
  worker_ids text[] not null default '{}',
  started_at timestamptz not null default now(),
  beat_at timestamptz not null default now()
);
comment on table svc.daemons is 'A heartbeat per daemon; one that is silent for 15 s is dead, and its jobs and runs are taken over.';
