-- concurrently
-- Sessions by what they cost, of a project and of one agent, however many there are.
create index concurrently if not exists usage_sessions_cost on svc.usage_sessions (project_id, cost_usd desc, session_id desc);
create index concurrently if not exists usage_sessions_agent_cost on svc.usage_sessions (agent_id, cost_usd desc, session_id desc);
