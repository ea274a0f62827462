-- Leases of sessions, apart from the sessions: a lease is renewed every few seconds for as long as its session runs, and no
-- index may stand on what that changes, or each renewal leaves a new row version behind in every index of the wide table.
create table svc.session_leases (
  session_id uuid primary key,
  daemon_id uuid not null,
  -- Of the claim that made it.
  epoch bigint not null,
  until timestamptz not null
) with (fillfactor = 15, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 200);
comment on table svc.session_leases is 'Who runs a session, and until when without another word. Narrow, and `until` is in no index: renewals are heap-only.';

-- Invariant: a session with `lease_until = 'infinity'` is held by the lease that stands here; one with a finite time is held
-- by a daemon of the release before, which renews it there, or was given that time to live. Both kinds lapse alike, so that
-- the two releases run beside each other and neither takes a session from the other.

-- A session that is let go, in whatever way and by whichever release, has no lease.
create function svc.drop_lease() returns trigger language plpgsql as $$
begin
  delete from svc.session_leases where session_id = old.id;
  return null;
end $$;
create trigger sessions_let_go after update of leased_by on svc.sessions
  for each row when (old.leased_by is not null and new.leased_by is null) execute function svc.drop_lease();
create trigger sessions_deleted after delete on svc.sessions
  for each row when (old.leased_by is not null) execute function svc.drop_lease();

-- A daemon that is buried by one of the release before, which knows no lease but the one on the session: what it held has as
-- long as a lease from now on. If it is alive after all, its next renewal takes that back.
create function svc.end_leases() returns trigger language plpgsql as $$
begin
  update svc.sessions set lease_until = now() + interval '20 seconds'
   where leased_by = old.id and lease_until = 'infinity';
  return null;
end $$;
create trigger daemons_gone after delete on svc.daemons for each row execute function svc.end_leases();
