-- Begins a routing transaction of several projects at once, of those whose routing lock nobody has and in which nobody
-- records at the moment: no row for the others, and nobody is waited for. As with svc.begin_routing, every event up to
-- `upto` is there to be seen: the number is read first, then each recording lock was free once. Each project's oldest
-- waiting events, at most `most`, in their order; one row without an event where none waits.
-- The inner block gives the recording locks back; what it found stays.
create function svc.take_quiet(projects uuid[], most integer)
  returns table (project_id uuid, generation bigint, upto bigint, id uuid, seq bigint, key text, scope uuid,
    connection_id uuid, target_key text, received_ms bigint, depth integer)
  language plpgsql as $$
#variable_conflict use_column
declare
  each uuid;
  seen bigint;
  locked uuid[] := '{}';
  free uuid[] := '{}';
begin
  foreach each in array projects loop
    if pg_try_advisory_xact_lock(hashtextextended('svc.routing:' || each::text, 0)) then
      locked := locked || each;
    end if;
  end loop;
  select s.last_value into seen from svc.events_seq s;
  begin
    foreach each in array locked loop
      if pg_try_advisory_xact_lock(hashtextextended('svc.recording:' || each::text, 0))
         and pg_try_advisory_xact_lock(hashtextextended('svc.recording.2:' || each::text, 0)) then
        free := free || each;
      end if;
    end loop;
    raise exception using errcode = 'SVC01';
  exception when sqlstate 'SVC01' then
    null;
  end;
  return query
    select p.id, coalesce(g.generation, 0), seen, e.*
      from unnest(free) as p (id)
      left join svc.routing_generations g on g.project_id = p.id
      left join svc.routing_marks m on m.project_id = p.id
      left join lateral (
        select e.id, e.seq, e.key, coalesce(e.endpoint_id, e.connection_id), e.connection_id, e.target_key,
               round(date_part('epoch', e.received_at) * 1000)::bigint, e.depth::integer
          from svc.events e
         where e.project_id = p.id and e.router_status = 'pending' and e.seq > coalesce(m.upto, 0) and e.seq <= seen
         order by e.seq limit most) e on true;
end $$;
