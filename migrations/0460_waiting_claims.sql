-- concurrently
-- Claims of an agent that wait for its next session: looked through every few seconds for those whose agent is gone.
create index concurrently if not exists bindings_waiting on svc.bindings (id) where state = 'active' and session_id is null;
