-- concurrently
-- Events by the endpoint that they came in by. An event without one, and what changes when it is routed, is not in it.
create index concurrently if not exists events_endpoint on svc.events (endpoint_id, seq desc) where endpoint_id is not null;
