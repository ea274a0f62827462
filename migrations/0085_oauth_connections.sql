-- Connections by consent: what a connection's status may be, attempts of consent, clients, and the tokens' one owner.
alter table svc.connections drop constraint connections_status_check;
alter table svc.connections add constraint connections_status_check check (status in ('active', 'inactive', 'degraded',
  'suspended', 'removed', 'authorization_required', 'scope_required', 'uncertain', 'disabled')) not valid;
alter table svc.connections validate constraint connections_status_check;
-- Providers that the configuration names (providers.oauth) are connected under their own names.
alter table svc.connections drop constraint connections_provider_check;
alter table svc.connections add constraint connections_provider_check check (provider ~ '^[A-Za-z0-9_.-]{1,64}$') not valid;
alter table svc.connections validate constraint connections_provider_check;
-- Why it has its status, in one word; null where the status says all.
alter table svc.connections add column reason text;

create table svc.oauth_clients (
  id uuid primary key,
  org_id uuid not null references svc.orgs on delete cascade,
  issuer text not null,
  redirect_uri text not null,
  client_id text not null,
  -- How it proves itself: none, client_secret_basic or client_secret_post.
  method text not null check (method in ('none', 'client_secret_basic', 'client_secret_post')),
  -- Its secret, where it was given one.
  token_id uuid,
  -- Null: never.
  expires_at timestamptz,
  created_at timestamptz not null,
  unique (org_id, issuer, redirect_uri)
);
create index oauth_clients_token on svc.oauth_clients (token_id) where token_id is not null;
comment on table svc.oauth_clients is 'Clients that authorization servers registered for an organization, one for each issuer: a client is never shown to another issuer. Deleted with their organization.';

create table svc.oauth_attempts (
  id uuid primary key,
  org_id uuid not null references svc.orgs on delete cascade,
  project_id uuid not null references svc.projects on delete cascade,
  connection_id uuid not null references svc.connections on delete cascade,
  user_id uuid not null,
  state text not null check (state in ('awaiting_authorization', 'exchanging', 'completed', 'failed', 'uncertain',
    'expired', 'cancelled')),
  reason text,
  -- SHA-256; the state itself is in the browser alone.
  state_hash bytea not null unique,
  -- The verifier, sealed; gone with every end.
  token_id uuid,
  -- The authorization server and the client, as they were found; the exchange goes to them and nobody else.
  server jsonb not null,
  client jsonb not null,
  resource text,
  scopes text[] not null,
  redirect_uri text not null,
  expires_at timestamptz not null,
  -- Until when whoever claimed the code may be waiting for the answer.
  exchange_until timestamptz,
  created_at timestamptz not null,
  updated_at timestamptz not null
);
create index oauth_attempts_connection on svc.oauth_attempts (connection_id, created_at desc);
create index oauth_attempts_org on svc.oauth_attempts (org_id);
create index oauth_attempts_project on svc.oauth_attempts (project_id);
create index oauth_attempts_token on svc.oauth_attempts (token_id) where token_id is not null;
create index oauth_attempts_exchanging on svc.oauth_attempts (exchange_until) where state = 'exchanging';
comment on table svc.oauth_attempts is 'Attempts of consent. A transition is an update where the state is the expected one. Kept for 30 days after their end.';

create table svc.oauth_codes (
  code_hash bytea primary key,
  attempt_id uuid not null,
  claimed_at timestamptz not null
);
create index oauth_codes_claimed on svc.oauth_codes (claimed_at);
comment on table svc.oauth_codes is 'Codes of consent by their hash. The insert is the right to the one exchange; it is never given back. Kept for 30 days, far beyond the life of a code.';

create table svc.oauth_grants (
  connection_id uuid primary key references svc.connections on delete cascade,
  org_id uuid not null references svc.orgs on delete cascade,
  project_id uuid not null references svc.projects on delete cascade,
  status text not null check (status in ('ready', 'refreshing', 'uncertain', 'ended')),
  token_id uuid,
  generation integer not null,
  server jsonb not null,
  client jsonb not null,
  resource text,
  scopes text[] not null,
  -- What a server wanted beyond them, with them; empty where nothing is missing.
  wanted_scopes text[] not null default '{}',
  -- Consents since a person chose the scopes that a server's answer asked for.
  scope_rounds integer not null default 0,
  expires_at timestamptz,
  -- Four fifths of the life; null where the server does not say how long a token lives.
  refresh_at timestamptz,
  -- The one refresh that is under way. `refresh_sent_at` is committed before anything is sent.
  refresh_owner uuid,
  refresh_until timestamptz,
  refresh_sent_at timestamptz,
  updated_at timestamptz not null
);
create index oauth_grants_org on svc.oauth_grants (org_id);
create index oauth_grants_project on svc.oauth_grants (project_id);
create index oauth_grants_token on svc.oauth_grants (token_id) where token_id is not null;
create index oauth_grants_refreshing on svc.oauth_grants (refresh_until) where status = 'refreshing';
comment on table svc.oauth_grants is 'What a consent gave: the one credential of a connection, with its generations. Deleted with its connection; its row of svc.oauth_tokens by whoever ends it.';
