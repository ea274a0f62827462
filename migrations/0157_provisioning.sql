-- How a session's latest launch went, stage by stage (docs/reference/sessions.md#launch):
-- [{"stage", "ms", "at", "name"?, "cache"?: "hit"|"miss"}], in order.
alter table svc.sessions add column provisioning jsonb;
