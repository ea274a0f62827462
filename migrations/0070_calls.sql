-- Calls to the outside, and what keeps a write from being sent twice: a row stands before anything is sent.
create table svc.calls (
  -- Version 7: newest last.
  id uuid primary key,
  project_id uuid not null references svc.projects on delete cascade,
  -- Null: a write that no session asked for (plans, checks, statuses, notifications).
  session_id uuid references svc.sessions on delete cascade,
  -- The product's adapter that sends it and can look whether it arrived: codehost, chat, tracker, ….
  provider text not null,
  -- A connection that is removed leaves its calls: no reference.
  connection_id uuid,
  alias text not null,
  tool text not null,
  write boolean not null,
  status text not null check (status in ('sending', 'done', 'refused', 'unknown')),
  code text,
  url text,
  created_at timestamptz not null,
  settled_at timestamptz,
  -- Of a write. The key is free again once the call was refused.
  idempotency_key text,
  input_hash bytea,
  -- What looking again needs to know: ids, names and hashes, never a text that somebody wrote nor a secret.
  probe jsonb,
  -- When the step of `probe` was handed to the network; null: nothing was sent yet.
  handed_at timestamptz,
  -- What the caller was told, for a repeat under the same key.
  answer jsonb,
  -- Who is at it, and until when nobody else is.
  daemon_id uuid,
  lease_until timestamptz,
  check ((status = 'sending') = (lease_until is not null)),
  check ((status = 'sending') = (settled_at is null)),
  check (write or status in ('done', 'refused'))
);
comment on table svc.calls is 'Calls to the outside by sessions and by the service: one row a call, before a write is sent';

-- Of two calls of a session under one key, one is made.
create unique index calls_once on svc.calls (session_id, idempotency_key)
  where idempotency_key is not null and status <> 'refused';
create index calls_of_session on svc.calls (session_id, id desc) where session_id is not null;
create index calls_of_project on svc.calls (project_id, id desc);
create index calls_sending on svc.calls (lease_until) where status = 'sending';

create table svc.provider_limits (
  connection_id uuid not null references svc.connections on delete cascade,
  -- core, search, graphql, write, or a method of a chat provider.
  resource text not null,
  -- Nothing is asked of the resource before then.
  blocked_until timestamptz,
  -- When the next call of a spaced resource may go out: each takes its place here before it waits.
  next_at timestamptz,
  -- How often in a row the provider refused without saying until when.
  refusals integer not null default 0,
  primary key (connection_id, resource)
);
comment on table svc.provider_limits is 'Rate limits as providers told them, shared by all daemons';

create table svc.installation_tokens (
  connection_id uuid not null references svc.connections on delete cascade,
  -- Installation, repository and permissions in canonical JSON.
  scope text not null,
  -- Who mints now, until when nobody else does.
  minting_until timestamptz,
  key_version integer,
  sealed bytea,
  minted_at timestamptz,
  -- Four fifths of its life.
  usable_until timestamptz,
  primary key (connection_id, scope),
  check ((sealed is null) = (usable_until is null)),
  check ((sealed is null) = (minted_at is null))
);
comment on table svc.installation_tokens is
  'Installation tokens of code hosts for one repository and one set of permissions, sealed; a cache: one that cannot be opened is minted anew';

create table svc.review_drafts (
  id uuid primary key,
  session_id uuid not null references svc.sessions on delete cascade,
  -- In lower case: the provider does not tell cases apart.
  repository text not null,
  pull_number integer not null,
  -- Null on the row that a review was begun with before any comment.
  comment jsonb,
  commit_id text,
  body text,
  created_at timestamptz not null
);
create index review_drafts_of on svc.review_drafts (session_id, repository, pull_number, created_at);
comment on table svc.review_drafts is 'Comments of reviews that a session has not submitted yet: they are sent at once, as one review';

create table svc.session_addresses (
  session_id uuid not null references svc.sessions on delete cascade,
  address text not null,
  primary key (session_id, address)
);
comment on table svc.session_addresses is
  'Addresses of attachments that stood in answers to a session: those alone, and its event’s, may be downloaded';
