-- What a session that waits for a container engine is told by it, in one word; and whether the way to its sandbox is whole,
-- where there is one that can be cut: the stream into a box of an engine.

alter table svc.sessions
  add column engine_reason text
    check (engine_reason in ('engine-unreachable', 'engine-refused', 'unschedulable', 'quota-exceeded', 'pull-failed')),
  add column wire text check (wire in ('ok', 'lost'));
