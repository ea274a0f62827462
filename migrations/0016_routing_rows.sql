-- What every routed event writes costs what a row costs. References that were looked up row by row are kept by statement:
-- a session's project is held once a statement, and what belongs to a session goes with it.
alter table svc.sessions drop constraint sessions_project_id_fkey;
alter table svc.messages drop constraint messages_session_id_fkey;
alter table svc.inbox drop constraint inbox_session_id_seq_fkey;

create function svc.hold_projects() returns trigger language plpgsql as $$
begin
  perform from svc.projects p where p.id in (select m.project_id from made m) order by p.id for key share;
  if exists (select from (select distinct m.project_id as id from made m) m
              where not exists (select from svc.projects p where p.id = m.id)) then
    raise exception 'the project is not there' using errcode = 'foreign_key_violation';
  end if;
  return null;
end $$;
create trigger sessions_made after insert on svc.sessions
  referencing new table as made for each statement execute function svc.hold_projects();

create function svc.drop_session_rows() returns trigger language plpgsql as $$
begin
  delete from svc.inbox where session_id in (select id from gone);
  delete from svc.messages where session_id in (select id from gone);
  return null;
end $$;
create trigger sessions_gone after delete on svc.sessions
  referencing old table as gone for each statement execute function svc.drop_session_rows();

create function svc.drop_project_sessions() returns trigger language plpgsql as $$
begin
  delete from svc.sessions where project_id in (select id from gone);
  return null;
end $$;
create trigger projects_gone after delete on svc.projects
  referencing old table as gone for each statement execute function svc.drop_project_sessions();

-- A token is there as long as its session lives, and most have none.
alter table svc.sessions drop constraint sessions_token_hash_key;
create unique index sessions_token on svc.sessions (token_hash) where token_hash is not null;
