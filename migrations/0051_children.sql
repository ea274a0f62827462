-- concurrently
-- What a session has spawned: how many of it live, and how many were made lately.
create index concurrently if not exists sessions_children_live on svc.sessions (parent_id) where live and parent_id is not null;
create index concurrently if not exists sessions_children on svc.sessions (parent_id, created_at) where parent_id is not null;
