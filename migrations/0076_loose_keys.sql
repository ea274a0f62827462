-- concurrently
-- Of two writes of no session under one key of a project, one is made.
create unique index concurrently if not exists calls_loose_once on svc.calls (project_id, idempotency_key)
  where session_id is null and idempotency_key is not null and status <> 'refused';
