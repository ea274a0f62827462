-- How people get in with a browser. Every random value that opens something is kept as its SHA-256 alone.
create table svc.web_sessions (
  id uuid primary key default gen_random_uuid(),
  -- Of the cookie; of the key header, null until the browser was given it.
  cookie_sha256 bytea not null unique check (length(cookie_sha256) = 32),
  key_sha256 bytea check (length(key_sha256) = 32),
  principal_id uuid not null references svc.principals on delete cascade,
  -- The token that it was opened with, with which it ends; null: a provider said who it is.
  token_id uuid references svc.api_tokens on delete cascade,
  -- `token`, `handoff`, or the configured name of a provider.
  method text not null,
  created_at timestamptz not null,
  last_used_at timestamptz not null,
  expires_at timestamptz not null,
  ended_at timestamptz
);
create index web_sessions_principal on svc.web_sessions (principal_id, created_at desc);
create index web_sessions_token on svc.web_sessions (token_id);
create index web_sessions_expires on svc.web_sessions (expires_at);
comment on table svc.web_sessions is 'Browsers that are signed in. One is alive while it has not ended or expired, was used lately, and its token and principal are.';

create table svc.signin_handoffs (
  sha256 bytea primary key check (length(sha256) = 32),
  principal_id uuid not null references svc.principals on delete cascade,
  -- The token of the call that asked for it.
  token_id uuid references svc.api_tokens on delete cascade,
  expires_at timestamptz not null,
  used_at timestamptz
);
create index signin_handoffs_principal on svc.signin_handoffs (principal_id);
create index signin_handoffs_token on svc.signin_handoffs (token_id);
comment on table svc.signin_handoffs is 'One-time ways from the command line into a browser; used once, within a minute.';

create table svc.signin_attempts (
  -- Of the cookie of the browser that began it; state, nonce and verifier are made from that cookie.
  cookie_sha256 bytea primary key check (length(cookie_sha256) = 32),
  method text not null,
  next text not null,
  expires_at timestamptz not null,
  -- The callback was taken: the code goes to the provider once.
  used_at timestamptz,
  -- Groups of a person without a role, told once to the browser that began.
  refused_groups jsonb
);
create index signin_attempts_expires on svc.signin_attempts (expires_at);
comment on table svc.signin_attempts is 'Browsers on their way to a provider and back. Removed some time after they expire.';

create table svc.external_identities (
  -- The provider as it names itself, and its own unchanging name for the person: never an e-mail address.
  issuer text not null,
  subject text not null,
  principal_id uuid not null references svc.principals on delete cascade,
  created_at timestamptz not null,
  last_signin_at timestamptz not null,
  primary key (issuer, subject)
);
create index external_identities_principal on svc.external_identities (principal_id);
comment on table svc.external_identities is 'Who a person is to a provider of sign-in.';

create table svc.device_grants (
  id uuid primary key default gen_random_uuid(),
  device_code_sha256 bytea not null unique check (length(device_code_sha256) = 32),
  -- Of the eight letters without their dash.
  user_code_sha256 bytea not null unique check (length(user_code_sha256) = 32),
  -- Who asks, as the person who decides is shown it.
  host text not null,
  address text not null,
  state text not null default 'pending' check (state in ('pending', 'allowed', 'denied', 'used')),
  principal_id uuid references svc.principals on delete cascade,
  -- Limits of the session that allowed it, which what is made from it does not pass.
  token_org_id uuid references svc.orgs on delete cascade,
  token_expires_at timestamptz,
  interval_seconds integer not null,
  polled_at timestamptz,
  created_at timestamptz not null,
  expires_at timestamptz not null
);
create index device_grants_principal on svc.device_grants (principal_id);
create index device_grants_org on svc.device_grants (token_org_id);
create index device_grants_expires on svc.device_grants (expires_at);
comment on table svc.device_grants is 'Command lines that wait for a person in a browser (RFC 8628). Allowed, one token is made of it, once.';

-- The token in the data directory, which always signs in.
alter table svc.api_tokens add column installation boolean not null default false;
update svc.api_tokens set installation = true where name in ('client.json', 'client.json (recovered)');

-- A role is what was given by hand or what groups give, whichever is more; each is kept apart. Writers that know of
-- neither give by hand.
alter table svc.org_members add column hand_role text check (hand_role in ('admin', 'member')),
  add column group_role text check (group_role in ('admin', 'member'));
alter table svc.project_members add column hand_role text check (hand_role in ('viewer', 'operator', 'admin')),
  add column group_role text check (group_role in ('viewer', 'operator', 'admin'));
update svc.org_members set hand_role = role;
update svc.project_members set hand_role = role;

create function svc.keep_roles_apart() returns trigger language plpgsql as $$
declare
  ranks constant text[] := array['member', 'viewer', 'operator', 'admin'];
begin
  if tg_op = 'INSERT' then
    if new.hand_role is null and new.group_role is null then
      new.hand_role := new.role;
    end if;
  elsif new.role is distinct from old.role and new.hand_role is not distinct from old.hand_role
    and new.group_role is not distinct from old.group_role then
    new.hand_role := new.role;
  end if;
  if new.hand_role is null and new.group_role is null then
    new.hand_role := new.role;
  end if;
  new.role := case
    when coalesce(array_position(ranks, new.hand_role), 0) >= coalesce(array_position(ranks, new.group_role), 0)
    then new.hand_role else new.group_role end;
  return new;
end $$;
create trigger org_members_roles before insert or update on svc.org_members
  for each row execute function svc.keep_roles_apart();
create trigger project_members_roles before insert or update on svc.project_members
  for each row execute function svc.keep_roles_apart();
comment on column svc.org_members.role is 'The greater of hand_role and group_role; kept by a trigger.';
comment on column svc.project_members.role is 'The greater of hand_role and group_role; kept by a trigger.';
