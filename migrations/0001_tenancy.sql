-- Organizations, projects, principals, memberships and API tokens.
create schema if not exists svc;

create table svc.orgs (
  id uuid primary key default gen_random_uuid(),
  slug text not null unique check (slug ~ '^[a-z0-9][a-z0-9-]{0,62}$'),
  name text not null,
  created_at timestamptz not null default now()
);
comment on table svc.orgs is 'Tenants. Nothing refers from one organization to another.';

create table svc.projects (
  id uuid primary key default gen_random_uuid(),
  org_id uuid not null references svc.orgs on delete cascade,
  slug text not null check (slug ~ '^[a-z0-9][a-z0-9-]{0,62}$'),
  name text not null,
  archived_at timestamptz,
  created_at timestamptz not null default now(),
  unique (org_id, slug)
);
comment on table svc.projects is 'What agents, repositories, endpoints and events belong to. Its row is locked by an apply (pg_advisory_xact_lock on its id).';

create table svc.principals (
  id uuid primary key default gen_random_uuid(),
  kind text not null check (kind in ('user', 'service_account')),
  -- A service account belongs to one organization; a user may be a member of several.
  org_id uuid references svc.orgs on delete cascade,
  name text not null,
  email text,
  disabled_at timestamptz,
  created_at timestamptz not null default now(),
  check ((kind = 'service_account') = (org_id is not null))
);
create unique index principals_user_email on svc.principals (lower(email)) where kind = 'user' and email is not null;
create unique index principals_account_name on svc.principals (org_id, name) where kind = 'service_account';
comment on table svc.principals is 'Users and service accounts: whoever a token speaks for.';

create table svc.org_members (
  org_id uuid not null references svc.orgs on delete cascade,
  principal_id uuid not null references svc.principals on delete cascade,
  role text not null check (role in ('admin', 'member')),
  created_at timestamptz not null default now(),
  primary key (org_id, principal_id)
);
comment on table svc.org_members is 'Organization roles. An organization admin holds every permission in its projects.';

create table svc.project_members (
  project_id uuid not null references svc.projects on delete cascade,
  principal_id uuid not null references svc.principals on delete cascade,
  role text not null check (role in ('viewer', 'operator', 'admin')),
  created_at timestamptz not null default now(),
  primary key (project_id, principal_id)
);
comment on table svc.project_members is 'Project roles.';

create table svc.api_tokens (
  id uuid primary key default gen_random_uuid(),
  principal_id uuid not null references svc.principals on delete cascade,
  -- The one organization that it opens; null: every one that its principal belongs to.
  org_id uuid references svc.orgs on delete cascade,
  -- SHA-256 of the whole token text; the token itself is shown once and stored nowhere.
  token_sha256 bytea not null unique check (length(token_sha256) = 32),
  name text not null,
  created_at timestamptz not null default now(),
  expires_at timestamptz,
  last_used_at timestamptz,
  revoked_at timestamptz
);
create index api_tokens_principal on svc.api_tokens (principal_id);
comment on table svc.api_tokens is 'Bearer tokens, hashed.';

create table svc.audit (
  id bigint generated always as identity primary key,
  at timestamptz not null default now(),
  org_id uuid,
  project_id uuid,
  -- Kind and id of whoever acted: user, service_account, session, or system (then principal_name says which one).
  principal_kind text not null,
  principal_id uuid,
  principal_name text not null,
  action text not null,
  subject_kind text,
  subject_name text,
  request_id text,
  detail jsonb not null default '{}'
);
create index audit_org on svc.audit (org_id, id desc);
create index audit_project on svc.audit (project_id, id desc);
create index audit_at on svc.audit (at);
comment on table svc.audit is 'Append-only; written in the transaction of what it records. Holds names and decisions, never values.';
-- Retention says, for its own transaction, how old an entry has to be; nothing else removes one.
create function svc.refuse_change() returns trigger language plpgsql as $$
begin
  if tg_op = 'DELETE' then
    if old.at < nullif(current_setting('svc.audit_prune_before', true), '')::timestamptz then
      return old;
    end if;
  end if;
  raise exception 'svc.audit is append-only';
end $$;
create trigger audit_append_only before update or delete on svc.audit for each row execute function svc.refuse_change();
create trigger audit_never_truncated before truncate on svc.audit execute function svc.refuse_change();
