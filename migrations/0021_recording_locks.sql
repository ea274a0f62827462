-- Routing waits for those who are recording without holding up those who come after them. A project has two recording
-- locks: whoever records takes the first one, or the second one while routing waits for the first one.
-- Invariant: whoever takes a number for an event of a project has one of its two recording locks, shared, from before that
-- until the commit. So whoever reads the last number, and then has each lock once for a moment, sees every event up to it.
create or replace function svc.lock_recording(projects uuid[]) returns void language plpgsql as $$
declare each uuid;
begin
  for each in select distinct p from unnest(projects) as p order by 1 loop
    if not pg_try_advisory_xact_lock_shared(hashtextextended('svc.recording:' || each::text, 0)) then
      perform pg_advisory_xact_lock_shared(hashtextextended('svc.recording.2:' || each::text, 0));
    end if;
  end loop;
end $$;

-- Begins a routing transaction of a project: takes its routing lock, waits until whoever is recording has committed, and
-- tells the generation of its triggers, the number up to which every event is there to be seen, and the oldest events that
-- wait, at most `most`; one row without an event where none does. The inner blocks give the recording locks back.
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
  select s.last_value into seen from svc.events_seq s;
  begin
    perform pg_advisory_xact_lock(hashtextextended('svc.recording:' || project::text, 0));
    raise exception using errcode = 'SVC01';
  exception when sqlstate 'SVC01' then
    null;
  end;
  begin
    perform pg_advisory_xact_lock(hashtextextended('svc.recording.2:' || project::text, 0));
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
