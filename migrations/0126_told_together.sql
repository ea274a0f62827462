-- Whoever keeps endpoints in memory is told with the transaction that changes them, as ever: a cache that is told late serves
-- what is gone. But once for a statement, not once for each row: a tree with a thousand endpoints is one notification.
create function svc.tell_endpoints_together() returns trigger language plpgsql as $$
declare
  changed int;
begin
  if tg_op = 'DELETE' then
    select count(*) into changed from gone;
    if changed <= 20 then perform pg_notify('svc_endpoints', slug) from gone; end if;
  else
    select count(*) into changed from made;
    if changed <= 20 then perform pg_notify('svc_endpoints', slug) from made; end if;
  end if;
  if changed > 20 then perform pg_notify('svc_endpoints', ''); end if;
  return null;
end $$;
create trigger endpoints_made_told after insert on svc.endpoints referencing new table as made
  for each statement execute function svc.tell_endpoints_together();
create trigger endpoints_changed_told after update on svc.endpoints referencing new table as made
  for each statement execute function svc.tell_endpoints_together();
create trigger endpoints_gone_told after delete on svc.endpoints referencing old table as gone
  for each statement execute function svc.tell_endpoints_together();
drop trigger endpoints_told on svc.endpoints;
