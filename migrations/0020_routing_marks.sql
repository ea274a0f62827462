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

-- Begins a routing transaction of a project: takes its routing lock, waits until nobody is recording, and tells the
-- generation of its triggers, the number up to which every event is there to be seen, and the oldest events that wait, at
-- most `most`; one row without an event where none does. Nobody who records waits for longer than this takes: the inner
-- block gives the recording lock back.
drop function svc.begin_routing(uuid);
create function svc.begin_routing(project uuid, most integer)
  returns table (generation bigint, upto bigint, id uuid, seq bigint, key text, endpoint_id uuid, connection_id uuid,
    target_type text, target_key text, received_at timestamptz, depth integer)
  language plpgsql as $$
#variable_conflict use_column
declare
  seen bigint;
begin
  perform pg_advisory_xact_lock(hashtextextended('svc.routing:' || project::text, 0));
  begin
    perform pg_advisory_xact_lock(hashtextextended('svc.recording:' || project::text, 0));
    select s.last_value into seen from svc.events_seq s;
    raise exception using errcode = 'SVC01';
  exception when sqlstate 'SVC01' then
    null;
  end;
  return query
    select coalesce((select g.generation from svc.routing_generations g where g.project_id = project), 0), seen, e.*
      from (select) one
      left join lateral (
        select e.id, e.seq, e.key, e.endpoint_id, e.connection_id, e.target_type, e.target_key, e.received_at, e.depth
          from svc.events e
         where e.project_id = project and e.router_status = 'pending' and e.seq <= seen
           and e.seq > coalesce((select m.upto from svc.routing_marks m where m.project_id = project), 0)
         order by e.seq limit most) e on true;
end $$;
