-- concurrently
-- Calls of no session by age and by project: where most calls are of sessions.
create index concurrently if not exists calls_loose on svc.calls (settled_at) where session_id is null;
create index concurrently if not exists calls_loose_of_project on svc.calls (project_id, id desc) where session_id is null;
