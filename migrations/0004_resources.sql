-- What agent files become.
create table svc.agents (
  -- resourceId: stable for the life of the name.
  id uuid primary key default gen_random_uuid(),
  project_id uuid not null references svc.projects on delete cascade,
  name text not null check (name ~ '^[A-Za-z0-9_.-]{1,128}$'),
  -- Owner: a repository, or null for manual.
  repository_id uuid references svc.repositories,
  revision integer not null,
  spec jsonb not null,
  spec_hash text not null,
  -- The generated resources it refers to, beside the spec so that planning does not unpack a thousand specs.
  environment text generated always as (spec ->> 'environment') stored,
  identity text generated always as (spec ->> 'identity') stored,
  source jsonb not null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  unique (project_id, name)
);
create index agents_owner on svc.agents (repository_id);
comment on table svc.agents is 'Stored agents, canonical spec. Equal hash means unchanged.';

create table svc.agent_revisions (
  agent_id uuid not null references svc.agents on delete cascade,
  revision integer not null,
  spec jsonb not null,
  spec_hash text not null,
  reconcile_id uuid,
  commit text,
  created_at timestamptz not null default now(),
  primary key (agent_id, revision)
);
comment on table svc.agent_revisions is 'Every spec that an agent has had.';

create table svc.generated_resources (
  id uuid primary key default gen_random_uuid(),
  project_id uuid not null references svc.projects on delete cascade,
  kind text not null check (kind in ('Environment', 'Identity')),
  name text not null check (name ~ '^[A-Za-z0-9_.-]{1,128}$'),
  spec jsonb not null,
  spec_hash text not null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  unique (project_id, kind, name)
);
comment on table svc.generated_resources is 'Environments and identities that inline objects compile into.';

create table svc.generated_resource_users (
  resource_id uuid not null references svc.generated_resources on delete cascade,
  agent_id uuid not null references svc.agents on delete cascade,
  primary key (resource_id, agent_id)
);
create index generated_resource_users_agent on svc.generated_resource_users (agent_id);
comment on table svc.generated_resource_users is 'Which agents generate a resource; it goes with its last user.';

create table svc.assets (
  project_id uuid not null references svc.projects on delete cascade,
  sha256 text not null check (sha256 ~ '^[0-9a-f]{64}$'),
  media_type text not null,
  bytes bytea not null,
  created_at timestamptz not null default now(),
  primary key (project_id, sha256)
);
alter table svc.assets alter column bytes set storage external;
comment on table svc.assets is 'Avatars by content hash.';

create table svc.endpoints (
  id uuid primary key default gen_random_uuid(),
  project_id uuid not null references svc.projects on delete cascade,
  name text not null check (name ~ '^[A-Za-z0-9_.-]{1,128}$'),
  slug text not null unique,
  auth jsonb,
  status text not null check (status in ('ready', 'reserved')),
  reserved_until timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  unique (project_id, name),
  check ((status = 'ready') = (auth is not null)),
  check ((status = 'reserved') = (reserved_until is not null))
);
comment on table svc.endpoints is 'Webhook endpoints. They outlive their triggers: an outside system holds the URL.';

create table svc.triggers (
  id uuid primary key default gen_random_uuid(),
  project_id uuid not null references svc.projects on delete cascade,
  agent_id uuid not null references svc.agents on delete cascade,
  ordinal integer not null check (ordinal >= 0),
  kind text not null check (kind in ('event', 'heartbeat')),
  -- For a heartbeat: heartbeat.<agentResourceId>.<ordinal>.
  event text not null,
  endpoint_id uuid references svc.endpoints,
  connection_id uuid references svc.connections on delete set null,
  spec jsonb not null,
  spec_hash text not null,
  status text not null check (status in ('active', 'skipped')),
  unique (agent_id, ordinal)
);
create index triggers_event on svc.triggers (project_id, event);
create index triggers_endpoint on svc.triggers (endpoint_id) where endpoint_id is not null;
comment on table svc.triggers is 'One row per event key and heartbeat. Skipped: optional, and its connection has no active grant.';

create table svc.schedules (
  -- heartbeat-<agentResourceId>-<ordinal>
  id text primary key,
  project_id uuid not null references svc.projects on delete cascade,
  agent_id uuid not null references svc.agents on delete cascade,
  ordinal integer not null,
  cron text not null,
  timezone text not null,
  next_at timestamptz not null,
  last_at timestamptz,
  last_status text,
  unique (agent_id, ordinal)
);
create index schedules_due on svc.schedules (next_at);
comment on table svc.schedules is 'One durable schedule per heartbeat trigger, reconciled by every apply.';
