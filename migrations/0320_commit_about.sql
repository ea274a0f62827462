-- What the commit of a run says of itself (docs/reference/repositories.md#runs), {"message", "author"}: the first line of its
-- message and the name of who wrote it. Null: of an apply by hand, a folder, a commit that could not be read, or a run from
-- before this was kept.
alter table svc.reconciles add column about jsonb;
