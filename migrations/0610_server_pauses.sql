-- Which servers are left alone is each project's own: what three repositories of one project say of a server, or of its limit for
-- their credential, has no other project's wait. `svc.host_pauses` is of the release before, which reads and writes it until all
-- daemons are of this one.
create table svc.server_pauses (
  project_id uuid not null references svc.projects on delete cascade,
  -- Host and port of a git server.
  host text not null,
  -- Repositories of the project that could not reach it, one after the other, since one last could.
  failures integer not null,
  retry_at timestamptz not null,
  primary key (project_id, host)
);
comment on table svc.server_pauses is 'Git servers that a project looks at no more for a while, because several of its repositories in a row could not reach them, or because they asked for it.';
