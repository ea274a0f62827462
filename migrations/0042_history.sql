-- What it takes to let history go without reading it.

-- A check that is being told about is not told about by another daemon, whatever becomes of it meanwhile.
alter table svc.checks add column reporting_until timestamptz;
comment on column svc.checks.reporting_until is
  'Until when whoever is telling the code host has it; a change of the check leaves it alone.';

-- Which snapshots name a blob, kept by the database for daemons of whichever release.
create table svc.snapshot_blobs (
  oid text not null,
  snapshot_id uuid not null references svc.snapshots on delete cascade,
  primary key (oid, snapshot_id)
);
create index snapshot_blobs_snapshot on svc.snapshot_blobs (snapshot_id);
comment on table svc.snapshot_blobs is 'The blobs of a snapshot by id: a blob that none names is swept without reading any snapshot.';
-- Null: its blobs are not listed yet; the sweep lists them, and sweeps no blob before all are.
alter table svc.snapshots add column listed_at timestamptz;

create function svc.list_snapshot_blobs(snapshot uuid, entries jsonb) returns void language sql as $$
  insert into svc.snapshot_blobs (oid, snapshot_id)
    select distinct entry ->> 'oid', snapshot from jsonb_array_elements(entries) as entry where entry ->> 'oid' is not null
    order by 1 on conflict do nothing
$$;
create function svc.list_new_snapshot() returns trigger language plpgsql as $$
begin
  new.listed_at := now();
  return new;
end $$;
create function svc.list_blobs_of_new_snapshot() returns trigger language plpgsql as $$
begin
  perform svc.list_snapshot_blobs(new.id, new.entries);
  return null;
end $$;
create trigger snapshots_listed before insert on svc.snapshots for each row execute function svc.list_new_snapshot();
create trigger snapshots_blobs_listed after insert on svc.snapshots
  for each row execute function svc.list_blobs_of_new_snapshot();

-- A project that is deleted is gone for everybody at once, and what it has goes in slices: the row says how far by being
-- there. Its name is free from then on.
alter table svc.projects add column deleted_at timestamptz;
comment on column svc.projects.deleted_at is 'Its rows are being deleted in slices; the last one is this.';

-- What goes with a session or an event is found by its key, whatever the planner makes of the size of the rest.
create or replace function svc.drop_event_bodies() returns trigger language plpgsql as $$
declare ids uuid[] := array(select id from gone);
begin
  delete from svc.event_routes where event_id = any(ids);
  -- Retention deletes the events of a week and then drops the week's bodies at once.
  if coalesce(current_setting('svc.bodies_go_later', true), '') <> 'on' then
    delete from svc.event_bodies where event_id = any(ids);
  end if;
  return null;
end $$;
create or replace function svc.drop_session_rows() returns trigger language plpgsql as $$
declare ids uuid[] := array(select id from gone);
begin
  delete from svc.inbox where session_id = any(ids);
  delete from svc.messages where session_id = any(ids);
  -- What it came to stands in the ledger and in its agent's days; by session nobody can ask any more.
  delete from svc.usage_sessions where session_id = any(ids);
  return null;
end $$;
