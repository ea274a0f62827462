-- Where each value of an agent's spec comes from (docs/reference/compile.md#origins), {"path": {"file", "line", "layer"}}, of
-- agents that people apply by hand: their files are not kept. Null: of a repository, whose stored files tell it, or applied
-- before this was kept.
alter table svc.agents add column origins jsonb;
