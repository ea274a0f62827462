-- What routing asks of the database beside the tables.

-- Whose chat thread an event is in, whatever the agent.
create index session_claims_thread on svc.session_claims (key) where kind = 'thread';

-- Everything that records events of a project in a statement of its own holds this, shared, from before it takes numbers
-- until it has committed.
create function svc.lock_recording(projects uuid[]) returns void language plpgsql as $$
declare each uuid;
begin
  for each in select distinct p from unnest(projects) as p order by 1 loop
    perform pg_advisory_xact_lock_shared(hashtextextended('svc.recording:' || each::text, 0));
  end loop;
end $$;

-- Begins a routing transaction of a project: takes its routing lock, waits until nobody is recording, and tells the
-- generation of its triggers and the number up to which every event is there to be seen. Nobody who records waits for
-- longer than this takes: the inner block gives the recording lock back.
create function svc.begin_routing(project uuid, out generation bigint, out upto bigint) language plpgsql as $$
begin
  perform pg_advisory_xact_lock(hashtextextended('svc.routing:' || project::text, 0));
  begin
    perform pg_advisory_xact_lock(hashtextextended('svc.recording:' || project::text, 0));
    select s.last_value into upto from svc.events_seq s;
    raise exception using errcode = 'SVC01';
  exception when sqlstate 'SVC01' then
    null;
  end;
  select g.generation into generation from svc.routing_generations g where g.project_id = project;
  generation := coalesce(generation, 0);
end $$;
