-- concurrently
-- Snapshots whose blobs are not listed yet, and projects that are being deleted: both none, as a rule.
create index concurrently if not exists snapshots_unlisted on svc.snapshots (id) where listed_at is null;
create index concurrently if not exists projects_deleted on svc.projects (deleted_at) where deleted_at is not null;
