-- Watched repositories, what was last read of them, and the runs of their reconciles.
create table svc.repositories (
  id uuid primary key default gen_random_uuid(),
  project_id uuid not null references svc.projects on delete cascade,
  name text not null check (name ~ '^[A-Za-z0-9_.-]{1,128}$'),
  url text,
  -- Host and path of the url in one spelling, by which a push finds its repositories.
  url_key text,
  path text,
  branch text,
  -- Directory of the repository that holds .svc/, '' for its top.
  root text not null default '',
  interval_seconds integer not null default 60 check (interval_seconds >= 1),
  auth jsonb,
  context jsonb not null default '{}',
  adopt boolean not null default false,
  suspended boolean not null default false,
  guard jsonb not null default '{}',
  verify jsonb,
  pinned_commit text,
  -- The commit that a rollback left: automatic sync passes over it and resumes at any other.
  quarantined_commit text,
  -- Raised by every change of the row's settings; an apply re-checks the generation it planned against.
  generation bigint not null default 1,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  unique (project_id, name),
  check ((url is null) <> (path is null))
);
create index repositories_url_key on svc.repositories (project_id, url_key) where url_key is not null;
comment on table svc.repositories is 'Settings of a watched repository. Changed by people only; what the daemon learns is in repository_states.';

create table svc.repository_states (
  repository_id uuid primary key references svc.repositories on delete cascade,
  -- Commit whose inputs were last compiled without error and applied (or found unchanged).
  applied_commit text,
  -- Hash of everything that decides the result besides the commit: context, catalog, template versions, settings.
  applied_hash text,
  -- The inputs of the applied commit, and the template versions that they resolved to.
  snapshot_id uuid,
  template_lock jsonb not null default '{}',
  -- The commit that was last looked at to the end, whatever came of it, and under which inputs: a poll that sees it stops.
  seen_commit text,
  seen_hash text,
  -- The branch that was last read, where the repository names none: the server's default one.
  ref_branch text,
  -- Consecutive failures to read the source, why, and since when; they decide the back-off.
  failures integer not null default 0,
  condition text,
  condition_detail text,
  condition_since timestamptz,
  applied_at timestamptz,
  updated_at timestamptz not null default now()
);
comment on table svc.repository_states is 'What the daemon knows of a repository; one narrow row, written at the end of a sync that learned something. A poll without change writes nothing here.';

-- Unlogged: a poll claims a batch of rows with one statement that writes no log, and after a crash of the database the
-- rows are made again and every repository is due at once.
create unlogged table svc.repository_polls (
  repository_id uuid primary key references svc.repositories on delete cascade,
  next_at timestamptz not null default now(),
  resync_at timestamptz not null default now() + interval '10 minutes'
) with (fillfactor = 50);
create index repository_polls_due on svc.repository_polls (next_at);
comment on table svc.repository_polls is 'When each repository is looked at next; claimed set-wise with skip locked, so that several daemons share the work.';

create table svc.blobs (
  oid text primary key,
  size integer not null,
  -- zstd, storage external: it is compressed already.
  bytes bytea not null,
  last_used_at timestamptz not null default now()
);
alter table svc.blobs alter column bytes set storage external;
comment on table svc.blobs is 'File contents by git blob id, shared by all repositories. Written before the snapshot that names them.';

create table svc.snapshots (
  id uuid primary key,
  repository_id uuid not null references svc.repositories on delete cascade,
  commit text not null,
  -- Address and root it was read from: a commit under another root has other files.
  source text not null,
  root_tree text,
  svc_tree text,
  -- Whether there is a .svc/ at all: an empty one is not the same as none.
  has_svc boolean not null,
  -- [{path, oid, kind, size, mode?, tooLarge?}] of every entry, and the asked-for paths that do not exist.
  entries jsonb not null,
  absent jsonb not null default '[]',
  -- {name: tree id} of the repository's top-level entries that the read went through: one that is the same is not walked again.
  tops jsonb not null default '{}',
  created_at timestamptz not null default now()
);
create index snapshots_repository on svc.snapshots (repository_id, created_at desc);
comment on table svc.snapshots is 'The inputs of a reconcile: which files a commit had. Immutable; blobs first, then this row, one transaction.';

-- Raised by every change of a run: the id of a stream's event.
create sequence svc.reconcile_versions;

create table svc.reconciles (
  id uuid primary key,
  -- Order of creation, for streams and lists.
  seq bigint generated always as identity unique,
  version bigint not null default nextval('svc.reconcile_versions'),
  project_id uuid not null references svc.projects on delete cascade,
  repository_id uuid references svc.repositories on delete set null,
  repository_name text,
  commit text,
  reason text not null check (reason in ('push', 'poll', 'manual', 'watch', 'resync', 'apply')),
  status text not null check (status in ('running', 'applied', 'unchanged', 'held', 'failed', 'superseded', 'quarantined')),
  condition text,
  detail text,
  -- The daemon that runs it; a run whose daemon is gone is closed by the next one. Null while it waits for one.
  daemon_id uuid,
  started_at timestamptz not null default now(),
  finished_at timestamptz,
  stages jsonb not null default '[]',
  actions jsonb not null default '[]',
  consequences jsonb not null default '{}',
  diagnostics jsonb not null default '[]',
  webhooks jsonb not null default '[]',
  -- What was asked for: {kind: 'sync'}, {kind: 'rollback', …}, {kind: 'approve', …}.
  request jsonb not null default '{"kind": "sync"}',
  -- Commit, tree id, snapshot, context, template lock: enough to explain and repeat it.
  inputs jsonb not null default '{}',
  check ((status = 'running') = (finished_at is null))
);
create index reconciles_project on svc.reconciles (project_id, seq desc);
create index reconciles_version on svc.reconciles (project_id, version);
create index reconciles_repository on svc.reconciles (repository_id, seq desc);
-- At most one run of a repository at a time: a newer sync supersedes the running one before it starts its own.
create unique index reconciles_one_running on svc.reconciles (repository_id) where status = 'running' and repository_id is not null;
comment on table svc.reconciles is 'Runs. A state machine moved by update … where status = ''running''.';
