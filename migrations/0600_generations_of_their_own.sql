-- Whoever keeps compiled triggers takes them for those of a generation. A database that goes on from an earlier state, as after a
-- failover to a standby that lacked the last commits, would count to the numbers that came after it once more, for other
-- triggers: a generation is therefore the time at which it was raised, in microseconds, and greater than the one before.
create or replace function svc.raise_routing_generation() returns trigger language plpgsql as $$
declare
  fresh constant bigint := extract(epoch from clock_timestamp()) * 1000000;
begin
  insert into svc.routing_generations (project_id, generation)
    select distinct c.project_id, fresh from changed c join svc.projects p on p.id = c.project_id order by 1
    on conflict (project_id) do update
      set generation = greatest(svc.routing_generations.generation + 1, excluded.generation);
  return null;
end $$;
