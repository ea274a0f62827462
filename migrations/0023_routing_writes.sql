-- What routing writes for every event costs what it needs and no more.

-- That an event spawns once per trigger is kept by the key of svc.event_routes: a session that an event makes, and the
-- decision that makes it, are one statement.
drop index svc.sessions_spawned_once;

-- The message that a session is made with is told once, since the session is made once. All others reach a session once
-- per event and trigger by this.
alter table svc.inbox add column starts boolean not null default false;
drop index svc.inbox_once;
create unique index inbox_once on svc.inbox (event_id, session_id, agent_id, ordinal)
  where event_id is not null and not starts;

-- As before, the rows read once.
create or replace function svc.hold_projects() returns trigger language plpgsql as $$
declare each uuid;
begin
  for each in select distinct m.project_id from made m order by 1 loop
    perform from svc.projects p where p.id = each for key share;
    if not found then
      raise exception 'the project is not there' using errcode = 'foreign_key_violation';
    end if;
  end loop;
  return null;
end $$;

-- As before, told in one row: ids, numbers and times of receipt (milliseconds) as lists in the order of recording, and
-- what else there is to an event once for all that are as the first one is; the others are listed.
drop function svc.begin_routing(uuid, integer);
create function svc.begin_routing(project uuid, most integer)
  returns table (generation bigint, upto bigint, ids text, seqs text, times text, key text, scope uuid, others json)
  language plpgsql as $$
#variable_conflict use_column
declare
  seen bigint;
  begun bigint;
  first record;
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
  begun := coalesce((select m.upto from svc.routing_marks m where m.project_id = project), 0);
  select e.seq, e.key, e.endpoint_id into first
    from svc.events e
   where e.project_id = project and e.router_status = 'pending' and e.seq > begun and e.seq <= seen
   order by e.seq limit 1;
  return query
    select coalesce((select g.generation from svc.routing_generations g where g.project_id = project), 0), seen,
           string_agg(w.id::text, ',' order by w.seq), string_agg(w.seq::text, ',' order by w.seq),
           string_agg(round(date_part('epoch', w.received_at) * 1000)::bigint::text, ',' order by w.seq),
           first.key, first.endpoint_id,
           json_agg(json_build_array(w.seq, w.key, w.endpoint_id, w.connection_id, w.target_type, w.target_key, w.depth))
             filter (where w.key <> first.key or w.endpoint_id is distinct from first.endpoint_id
                       or w.connection_id is not null or w.target_type is not null or w.depth <> 0)
      from (
        select e.* from svc.events e
         where e.project_id = project and e.router_status = 'pending' and e.seq >= first.seq and e.seq <= seen
         order by e.seq limit most) w;
end $$;
