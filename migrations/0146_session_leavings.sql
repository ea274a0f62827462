-- What sessions leave for people: files, and how their work trees differ from what was mounted.
create table svc.session_files (
  session_id uuid not null references svc.sessions on delete cascade,
  -- Below the directory of SVC_ARTIFACTS, with slashes.
  path text not null check (octet_length(path) between 1 and 1024),
  size bigint not null check (size >= 0),
  -- As the sandbox tells it, in seconds: a file is read again when this or its size differs.
  modified bigint not null,
  sha256 bytea check (length(sha256) = 32),
  -- Null where it was not kept, and why.
  content bytea,
  refused text check (refused in ('too-large', 'too-many', 'unreadable')),
  kept_at timestamptz not null,
  primary key (session_id, path),
  check ((content is null) = (refused is not null))
);
alter table svc.session_files alter column content set storage external;
comment on table svc.session_files is 'Files that sessions left under SVC_ARTIFACTS. Deleted with their session.';

create table svc.session_diffs (
  session_id uuid not null references svc.sessions on delete cascade,
  mount_path text not null,
  repository text not null,
  ref text,
  -- What was mounted.
  commit text not null,
  diff text not null,
  truncated boolean not null,
  taken_at timestamptz not null,
  primary key (session_id, mount_path)
);
comment on table svc.session_diffs is 'Work trees of sessions against the commit that was mounted, as they were after the latest turn. Deleted with their session.';
