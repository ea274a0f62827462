-- A NOTIFY has its transaction take one lock of the whole cluster until its commit is on disk, so that commits that notify
-- go one after another. A daemon that calls its connections `svcd tells` is told with the answer to its statement (INFO
-- is sent whatever client_min_messages says) whom to wake; it does so after its commit, in a transaction that writes
-- nothing else, and many at once. Everybody else, the release before too, notifies within the transaction as ever.
-- The name of a connection is what a transaction-mode pooler carries along.
create function svc.tell(channel text, payload text) returns void language plpgsql as $$
begin
  if current_setting('application_name') = 'svcd tells' then
    raise info using errcode = 'SVT01', message = channel, detail = payload;
  else
    perform pg_notify(channel, payload);
  end if;
end $$;

create or replace function svc.tell_hosts() returns trigger language plpgsql as $$
begin
  perform svc.tell('svc_hosts', '');
  return null;
end $$;

create or replace function svc.tell_watchers() returns trigger language plpgsql as $$
begin
  if tg_table_name = 'messages' then
    perform svc.tell('svc_sessions', new.session_id::text);
  else
    perform svc.tell('svc_sessions', new.id::text);
  end if;
  return null;
end $$;
