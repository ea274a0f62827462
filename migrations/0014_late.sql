-- What the doctor looks for among events.
create index events_failed on svc.events (project_id, seq) where router_status = 'failed';
