-- Several databases may share an engine of sandboxes, and paths of data directories with it: what tells this one's from another's.
create table svc.installation (
  id uuid not null default gen_random_uuid(),
  is_only boolean primary key default true check (is_only)
);
comment on table svc.installation is 'One row: the id of this database, by which boxes on a shared engine are told from those of another one.';
insert into svc.installation default values;
