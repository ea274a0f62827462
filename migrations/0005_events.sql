-- Recorded events and the daemons that work on them.
create table svc.events (
  id uuid primary key default gen_random_uuid(),
  seq bigint generated always as identity unique,
  project_id uuid not null references svc.projects on delete cascade,
  key text not null,
  source text not null,
  -- SHA-256 of the deduplication scope and key; a long key would not fit a unique index.
  dedup_hash bytea,
  -- What was received, byte for byte; parsed in the process, never by the database.
  raw bytea,
  -- The normalized payload as JSON text (bytea: NUL and lone surrogates are legal JSON and illegal jsonb).
  payload bytea not null,
  received_at timestamptz not null default now(),
  router_status text not null default 'pending' check (router_status in ('pending', 'routed', 'unmatched', 'failed'))
);
alter table svc.events alter column raw set storage external;
alter table svc.events alter column payload set storage external;
create unique index events_dedup on svc.events (project_id, dedup_hash) where dedup_hash is not null;
create index events_project on svc.events (project_id, seq desc);
comment on table svc.events is 'Every event once.';

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
