-- Home and work of a session that rests unloaded, or whose daemon stops, so that another daemon can go on with them.
create table svc.session_snapshots (
  id uuid primary key,
  session_id uuid not null unique references svc.sessions (id) on delete cascade,
  -- The kind of sandbox that it is of: another kind has other paths.
  provider text not null,
  -- [{"root", "mount"?}]: what each archive is of.
  parts jsonb not null,
  bytes bigint not null,
  key_version integer not null,
  -- The data key of the pieces.
  sealed bytea not null,
  taken_at timestamptz not null default now()
);
comment on table svc.session_snapshots is 'Archives of the home and work of live sessions that are not loaded, sealed by a key of their own. One for each session; deleted when it ends, and with age.';
create index session_snapshots_taken on svc.session_snapshots (taken_at);

create table svc.session_snapshot_pieces (
  snapshot_id uuid not null references svc.session_snapshots (id) on delete cascade,
  part integer not null,
  number integer not null,
  piece bytea not null,
  primary key (snapshot_id, part, number)
);
alter table svc.session_snapshot_pieces alter column piece set storage external;
comment on table svc.session_snapshot_pieces is 'Archives of session_snapshots, packed, sealed and cut into pieces, in order. Deleted with their snapshot.';
