-- concurrently
-- What is parked by what it is, and what an unclean end has left by its time: neither is sought among all that was ever in hand.
create index concurrently if not exists suspects_parked on svc.suspects (kind, id) where ends > 3;
create index concurrently if not exists suspects_ended on svc.suspects (ended_at);
