-- Named secrets and connections. Apply checks that what agents name exists, from the first day.
create table svc.secrets (
  id uuid primary key default gen_random_uuid(),
  org_id uuid not null references svc.orgs on delete cascade,
  -- Null: organization scope.
  project_id uuid references svc.projects on delete cascade,
  name text not null check (name ~ '^[A-Za-z0-9_.-]{1,128}$'),
  description text check (length(description) <= 1024),
  protected boolean not null default true,
  -- Envelope: key version, wrapped data key and sealed value, in the format of adapters/seal.
  key_version integer not null,
  sealed bytea not null,
  injection jsonb,
  expires_at timestamptz,
  -- Ten years of 365 days.
  idle_expiry_seconds bigint check (idle_expiry_seconds between 1 and 315360000),
  -- Start of the idle clock: last value write or launch-time resolution.
  idle_since timestamptz not null default now(),
  last_accessed_at timestamptz,
  last_rotated_at timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  -- Unique per scope: nulls not distinct makes the organization scope one scope.
  unique nulls not distinct (org_id, project_id, name)
);
create index secrets_key_version on svc.secrets (key_version);
comment on table svc.secrets is 'Write-only values, sealed. An expired row stays visible and resolves as absent.';

-- Metadata is read here alone: what has no ciphertext cannot answer with it.
create view svc.secret_metadata as
  select id, org_id, project_id, name, description, protected, injection, expires_at, idle_expiry_seconds,
    last_accessed_at, last_rotated_at, created_at, updated_at,
    least(expires_at, idle_since + idle_expiry_seconds * interval '1 second') as dead_at
  from svc.secrets;
comment on view svc.secret_metadata is 'Secrets without their values. Expired from dead_at on; null: never.';

create table svc.secret_uses (
  secret_id uuid not null references svc.secrets on delete cascade,
  -- Who in the service reads it, such as repository:<id>.
  used_by text not null,
  used_at timestamptz not null,
  primary key (secret_id, used_by)
);
comment on table svc.secret_uses is 'Last audited use of a secret by the service itself: once a day and value, so that a poll writes nothing.';

create table svc.key_versions (
  version integer primary key,
  -- Keyed hash of a constant: tells another key of the same number from the one that sealed.
  fingerprint bytea not null check (length(fingerprint) = 16),
  -- Values sealed with it, also those replaced since; due for rotation long before 2^32.
  wraps bigint not null default 0,
  created_at timestamptz not null default now(),
  retired_at timestamptz
);
comment on table svc.key_versions is 'Master keys by version, never the keys. A retired version seals nothing any more; its row is the fence.';

create table svc.key_rotations (
  id uuid primary key,
  to_version integer not null,
  status text not null check (status in ('running', 'done', 'failed')),
  -- Rows to re-encrypt when it was asked for, and re-encrypted so far.
  total bigint not null,
  done bigint not null default 0,
  detail text,
  retired integer[] not null default '{}',
  started_at timestamptz not null default now(),
  finished_at timestamptz
);
create unique index key_rotations_running on svc.key_rotations ((true)) where status = 'running';
comment on table svc.key_rotations is 'Rotations of the master key: one at a time, resumed where it was killed.';

create table svc.connections (
  id uuid primary key default gen_random_uuid(),
  project_id uuid not null references svc.projects on delete cascade,
  provider text not null check (provider in ('codehost', 'tracker', 'chat', 'errtrack', 'mcp')),
  -- What an author writes as the provider of a tool, such as slack for a chat connection.
  product text not null,
  name text not null check (name ~ '^[A-Za-z0-9_.-]{1,128}$'),
  config jsonb not null default '{}',
  key_version integer,
  sealed_credentials bytea,
  status text not null default 'active' check (status in ('active', 'inactive')),
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  unique (project_id, name)
);
create index connections_key_version on svc.connections (key_version);
comment on table svc.connections is 'Connections to providers. An active one satisfies codehost., tracker. and chat. triggers at apply.';
