-- A held binding of a session that failed in its slot waits, like an agent's claim, for the session that replaces it.
alter table svc.bindings drop constraint bindings_check1;
alter table svc.bindings add constraint bindings_check1
  check (session_id is not null or continuity = 'agent' or lifecycle = 'held' or state = 'released') not valid;
