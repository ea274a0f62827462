-- A launch of a session that ends the process again and again is found out like any other work. Both tables hold a row for
-- each strand of work of a daemon, so that a look at all of them takes no time.

alter table svc.in_hand drop constraint in_hand_kind_check;
alter table svc.in_hand add constraint in_hand_kind_check check (kind in ('event', 'sync', 'tick', 'session'));
alter table svc.suspects drop constraint suspects_kind_check;
alter table svc.suspects add constraint suspects_kind_check check (kind in ('event', 'sync', 'tick', 'session'));

comment on table svc.in_hand is
  'One row for each daemon and strand of its work: the events, repositories, schedules or sessions that it has in hand, written before anything is made of them; a session while it is launched. A row whose daemon is not in svc.daemons any more tells what was in hand when that daemon ended uncleanly. Events that do not wait any more are in nobody''s hand.';
