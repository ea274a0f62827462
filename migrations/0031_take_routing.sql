-- Begins a routing transaction of a project as svc.begin_routing does, where nobody else has the project's routing lock:
-- no row where somebody has. Who routes many projects does not wait behind one.
create function svc.take_routing(project uuid, most integer)
  returns table (generation bigint, upto bigint, ids text, seqs text, times text, key text, scope uuid, others json)
  language plpgsql as $$
begin
  if pg_try_advisory_xact_lock(hashtextextended('svc.routing:' || project::text, 0)) then
    return query select * from svc.begin_routing(project, most);
  end if;
end $$;
