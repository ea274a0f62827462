-- Named secrets and connections. Apply checks that what agents name exists, from the first day.
create table svc.secrets (
  id uuid primary key default gen_random_uuid(),
  org_id uuid not null references svc.orgs on delete cascade,
  -- Null: organization scope.
  project_id uuid references svc.projects on delete cascade,
  name text not null check (name ~ '^[A-Za-z0-9_.-]{1,128}$'),
  description text,
  protected boolean not null default true,
  -- Envelope: key version, wrapped data key and sealed value, in the format of adapters/seal.
  key_version integer not null,
  sealed bytea not null,
  injection jsonb,
  expires_at timestamptz,
  idle_expiry_seconds bigint check (idle_expiry_seconds between 1 and 315576000),
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
comment on table svc.connections is 'Connections to providers. An active one satisfies codehost., tracker. and chat. triggers at apply.';
