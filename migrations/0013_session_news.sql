-- A word to whoever watches a session when its host writes: what it answers and what state it is in. Routing writes neither,
-- so that nothing is sent for the messages of events: a watcher looks for them by itself.
create function svc.tell_watchers() returns trigger language plpgsql as $$
begin
  if tg_table_name = 'messages' then
    perform pg_notify('svc_sessions', new.session_id::text);
  else
    perform pg_notify('svc_sessions', new.id::text);
  end if;
  return null;
end $$;
create trigger messages_told after insert on svc.messages
  for each row when (new.role <> 'user') execute function svc.tell_watchers();
create trigger session_states_told after update of state, reason on svc.sessions
  for each row when (old.state is distinct from new.state or old.reason is distinct from new.reason)
  execute function svc.tell_watchers();
