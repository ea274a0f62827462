-- Harnesses whose program a daemon that runs sessions has, as it looked last. Null of a daemon of an earlier release, and
-- before the first look: nothing is known then, and another daemon says what it lacks itself.
alter table svc.daemons add column harnesses text[];
