-- The error-tracking connection: attempts of its setup, what they publish, and what may happen once alone.
create table svc.oauth_tokens (
  id uuid primary key,
  org_id uuid not null references svc.orgs on delete cascade,
  -- Null: organization scope.
  project_id uuid references svc.projects on delete cascade,
  -- Whose tokens, and which generation of them: bound into the seal.
  name text not null,
  key_version integer not null,
  sealed bytea not null,
  created_at timestamptz not null default now()
);
create index oauth_tokens_key_version on svc.oauth_tokens (key_version);
create index oauth_tokens_org on svc.oauth_tokens (org_id);
create index oauth_tokens_project on svc.oauth_tokens (project_id) where project_id is not null;
comment on table svc.oauth_tokens is 'Tokens that a provider gave by consent, sealed. A row is one generation; the one before is deleted with its making.';

create table svc.errtrack_attempts (
  id uuid primary key,
  org_id uuid not null references svc.orgs on delete cascade,
  -- Where it was begun.
  project_id uuid not null references svc.projects on delete cascade,
  user_id uuid not null,
  state text not null check (state in ('awaiting_authorization', 'exchanging', 'awaiting_selection', 'completing',
    'completed', 'failed', 'expired', 'cancelled', 'uncertain')),
  reason text,
  -- SHA-256; the state itself is in the browser alone.
  state_hash bytea not null unique,
  destinations uuid[] not null,
  installation_id uuid,
  -- {id, slug, name} and the projects, as they were verified.
  provider_organization jsonb,
  region text check (region in ('us', 'de')),
  choices jsonb,
  -- Pending credential; gone with every end.
  token_id uuid references svc.oauth_tokens on delete set null,
  token_expires_at timestamptz,
  grant_id uuid,
  created_at timestamptz not null,
  expires_at timestamptz not null,
  updated_at timestamptz not null
);
create index errtrack_attempts_user on svc.errtrack_attempts (user_id, created_at desc);
create index errtrack_attempts_org on svc.errtrack_attempts (org_id);
create index errtrack_attempts_project on svc.errtrack_attempts (project_id);
comment on table svc.errtrack_attempts is 'Setup attempts of error-tracking connections. A transition is an update where the state is the expected one. Kept for 30 days after their end.';

create table svc.errtrack_codes (
  code_hash bytea primary key,
  attempt_id uuid not null,
  claimed_at timestamptz not null
);
comment on table svc.errtrack_codes is 'Codes of consent by their hash. The insert is the right to the one exchange; it is never given back. Kept for 30 days, far beyond the life of a code.';

create table svc.errtrack_installation_claims (
  installation_id uuid primary key,
  attempt_id uuid not null,
  org_id uuid not null,
  claimed_at timestamptz not null
);
comment on table svc.errtrack_installation_claims is 'Installations by who proved them with a good exchange and an exact readback. Never given back, not even by a cancel: kept for ever, one small row each.';

create table svc.errtrack_uninstalls (
  installation_id uuid primary key,
  at timestamptz not null
);
comment on table svc.errtrack_uninstalls is 'Installations that the provider said are gone, known here or not. Kept for ever: one comes at most once for each installation.';

create table svc.errtrack_grants (
  id uuid primary key,
  org_id uuid not null references svc.orgs on delete cascade,
  -- Name of the connection in every project that it is allocated to.
  name text not null check (name ~ '^[A-Za-z0-9_.-]{1,128}$'),
  installation_id uuid not null unique,
  app_slug text not null,
  provider_organization_id text not null,
  organization_slug text not null,
  organization_name text not null,
  region text not null check (region in ('us', 'de')),
  -- [{id, slug}], as recorded at the publication.
  projects jsonb not null,
  status text not null default 'ready' check (status in ('ready', 'refreshing', 'uncertain', 'revoked', 'removed')),
  token_id uuid references svc.oauth_tokens on delete set null,
  generation integer not null default 1,
  token_expires_at timestamptz not null,
  -- The one refresh that is under way. `refresh_sent_at` is committed before anything is sent.
  refresh_owner uuid,
  refresh_until timestamptz,
  refresh_sent_at timestamptz,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  unique (org_id, name)
);
create unique index errtrack_grants_provider on svc.errtrack_grants (provider_organization_id) where status <> 'removed';
comment on table svc.errtrack_grants is 'Installations of the provider''s organizations with the one credential of each: an installation, its scoped grant and its credential live and end together, so they are one row. Deleted with their organization.';

create table svc.errtrack_subscriptions (
  id uuid primary key,
  grant_id uuid not null references svc.errtrack_grants on delete cascade,
  project_id uuid not null references svc.projects on delete cascade,
  errtrack_project_id text not null,
  slug text not null,
  enabled boolean not null default true,
  generation integer not null default 1,
  created_at timestamptz not null,
  updated_at timestamptz not null
);
create unique index errtrack_subscriptions_enabled on svc.errtrack_subscriptions (project_id, grant_id, errtrack_project_id) where enabled;
create index errtrack_subscriptions_intake on svc.errtrack_subscriptions (grant_id, errtrack_project_id) where enabled;
create index errtrack_subscriptions_grant on svc.errtrack_subscriptions (grant_id);
comment on table svc.errtrack_subscriptions is 'Which provider projects a project may investigate and hears of. One that is taken away is disabled with a new generation; chosen again it is a new row. Deleted with their project or grant.';
