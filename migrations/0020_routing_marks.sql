-- How far a project is routed, so that what waits needs no index of its own: an index on a column that every event changes
-- once makes that change cost as much as the event, and leaves behind what every later look has to step over.
-- Invariant: no event of the project with a number up to `upto` is pending, or ever will be. A number is raised only in a
-- routing transaction, to one up to which it has seen everything that was recorded; nothing becomes pending again.
create table svc.routing_marks (
  project_id uuid primary key references svc.projects on delete cascade,
  upto bigint not null
);
comment on table svc.routing_marks is 'One number per project: every event up to it has been routed.';
-- Short of the newest, for an older daemon may be recording at this moment.
insert into svc.routing_marks (project_id, upto)
  select p.id, least((select min(e.seq) from svc.events e where e.project_id = p.id and e.router_status = 'pending'),
                     (select max(e.seq) from svc.events e where e.project_id = p.id) - 1000) - 1
    from svc.projects p where exists (select from svc.events e where e.project_id = p.id);

drop index svc.events_pending;
-- Only an event whose routing failed has a reason: one that is routed leaves this index alone.
drop index svc.events_failed;
create index events_failed on svc.events (project_id, seq) where reason is not null;
-- Room beside each event for what its routing makes of it.
alter table svc.events set (fillfactor = 50);
