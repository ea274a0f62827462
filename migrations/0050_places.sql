-- Places of sessions: what one that waits waits for, and turns that are told to end. A session in `idle` without a lease has
-- given its place up: it is launched again for its next message.

-- What a session that waits to be launched waits for; null: a place. `reason` tells it in words then.
alter table svc.sessions add column waits_for text check (waits_for in ('harness', 'key', 'cap', 'engine'));

-- Somebody wants this turn to end: its host cancels it.
alter table svc.turns add column stop_asked boolean not null default false;

-- As before, and where a session is given up between two turns or taken up again.
drop trigger if exists session_states_told on svc.sessions;
create trigger session_states_told after update of state, reason, waits_for, leased_by on svc.sessions
  for each row when (old.state is distinct from new.state or old.reason is distinct from new.reason
    or old.waits_for is distinct from new.waits_for or (old.leased_by is null) <> (new.leased_by is null))
  execute function svc.tell_watchers();

-- Sessions whose last host went away between two turns: nothing waits for them, so they take no place.
update svc.sessions s set state = 'idle', reason = null
 where s.state = 'suspended' and s.harness_session is not null
   and not exists (select from svc.inbox i where i.session_id = s.id and i.state in ('pending', 'in_flight'));
