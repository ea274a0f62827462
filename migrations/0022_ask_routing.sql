-- Asks for the routing of projects, as whoever records events does who holds the recording lock: one job a project as long
-- as nobody has taken it. A job that is seen here to wait is taken after this moment, and whoever takes it begins routing
-- behind the recording lock, so that it meets what the caller commits. Plans of the calling statement are older than its
-- lock; what is read in here is not. A job that was taken, or waits for a time of its own, is asked for anew.
create function svc.ask_routing(projects uuid[]) returns void language plpgsql as $$
declare each text;
begin
  for each in select distinct p::text from unnest(projects) as p order by 1 loop
    if not exists (
      select from graphile_worker._private_jobs j
       where j.key = 'event.route:' || each and j.locked_at is null and j.run_at <= now() and j.attempts < j.max_attempts
    ) then
      perform graphile_worker.add_job('event.route', payload => json_build_object('projects', json_build_array(each)),
        max_attempts => 100, job_key => 'event.route:' || each);
    end if;
  end loop;
end $$;
