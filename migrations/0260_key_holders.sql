-- Which daemon holds which master key. The key of a version that seals nothing yet could be replaced by whoever started
-- with another one; that is refused for as long as a daemon lives that holds the noted one.

create table svc.key_holders (
  daemon_id uuid not null,
  version integer not null,
  -- As in svc.key_versions.
  fingerprint bytea not null check (length(fingerprint) = 16),
  host text not null,
  pid integer not null,
  -- Its key is another one than the noted one: it takes no work.
  refused boolean not null,
  seen_at timestamptz not null default now(),
  primary key (daemon_id, version)
);
comment on table svc.key_holders is 'Master keys that daemons hold, by fingerprint, one row a daemon and version: written when a daemon looks at its key file as it starts, and as long as it waits for the right one. It counts while the daemon is in svc.daemons and beats, or for 15 s after it was seen.';
