-- An organization whose last projects are still going in slices goes with the last of them; nobody finds it meanwhile.
alter table svc.orgs add column deleted_at timestamptz;
comment on column svc.orgs.deleted_at is 'Nothing is found by it any more; its row goes with that of its last project.';
