-- A project is on board with its first completed apply; one that has agents had it.
alter table svc.projects add column onboarded_at timestamptz;
update svc.projects p set onboarded_at = now() where exists (select from svc.agents a where a.project_id = p.id);
