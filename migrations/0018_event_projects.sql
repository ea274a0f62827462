-- What every recorded event writes costs what a row costs: its project is held once a statement, as a session's is, and
-- events go with their project.
alter table svc.events drop constraint events_project_id_fkey;
create trigger events_made after insert on svc.events
  referencing new table as made for each statement execute function svc.hold_projects();

create function svc.drop_project_events() returns trigger language plpgsql as $$
begin
  delete from svc.events where project_id in (select id from gone);
  return null;
end $$;
create trigger projects_gone_events after delete on svc.projects
  referencing old table as gone for each statement execute function svc.drop_project_events();
