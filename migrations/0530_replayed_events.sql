-- concurrently
-- Whether an event was recorded once more is asked of each that failed.
create index concurrently if not exists events_replayed on svc.events (replay_of) where replay_of is not null;
