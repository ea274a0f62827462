-- What each daemon is at work on, so that work that ends the process again and again is found out and parked.

create table svc.in_hand (
  daemon_id uuid not null,
  lane text not null,
  kind text not null check (kind in ('event', 'sync', 'tick')),
  ids text[] not null,
  alone boolean not null,
  primary key (daemon_id, lane)
) with (fillfactor = 50);
comment on table svc.in_hand is
  'One row for each daemon and strand of its work: the events, repositories or schedules that it has in hand, written before anything is made of them. A row whose daemon is not in svc.daemons any more tells what was in hand when that daemon ended uncleanly. Events that do not wait any more are in nobody''s hand.';

create table svc.suspects (
  kind text not null check (kind in ('event', 'sync', 'tick')),
  id text not null,
  ends int not null check (ends > 0),
  ended_at timestamptz not null default now(),
  primary key (kind, id)
);
comment on table svc.suspects is
  'What was in hand at unclean ends of daemons in a row, by how many. At two it is tried with nothing beside it, at three it is parked: failed with the reason ended-the-process. The row goes when the work comes to an end of its own.';

alter table svc.schedules drop constraint schedules_last_status;
alter table svc.schedules add constraint schedules_last_status
  check (last_status in ('fired', 'skipped-late', 'skipped-overlap', 'failed'));
