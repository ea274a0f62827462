-- What is told outside is found out like any other work where it ends the process again and again: plans and looks of pull
-- requests, statuses of commits, notifications, checks, and writes that a daemon left. Both tables hold a row for each strand
-- of work of a daemon, so that a look at all of them takes no time.

alter table svc.in_hand drop constraint in_hand_kind_check;
alter table svc.in_hand add constraint in_hand_kind_check
  check (kind in ('event', 'sync', 'tick', 'session', 'plan', 'look', 'status', 'notice', 'check', 'call'));
alter table svc.suspects drop constraint suspects_kind_check;
alter table svc.suspects add constraint suspects_kind_check
  check (kind in ('event', 'sync', 'tick', 'session', 'plan', 'look', 'status', 'notice', 'check', 'call'));

comment on table svc.suspects is
  'What was in hand at unclean ends of daemons in a row, by how many. At two it is tried with nothing beside it, at three it is parked: failed with the reason ended-the-process. The row goes when the work comes to an end of its own; what was in hand beside it and has come to its end before keeps one until retention takes it.';
