-- What goes with time. Bodies are cut by week: a week whose events are all gone goes as a whole, and what it decided goes
-- with an event.
create or replace function svc.drop_event_bodies() returns trigger language plpgsql as $$
begin
  delete from svc.event_routes where event_id in (select id from gone);
  -- Retention deletes the events of a week and then drops the week's bodies at once.
  if coalesce(current_setting('svc.bodies_go_later', true), '') <> 'on' then
    delete from svc.event_bodies where event_id in (select id from gone);
  end if;
  return null;
end $$;

create index sessions_ended on svc.sessions (ended_at) where ended_at is not null;

-- This week and the next, where nothing has come in yet that would belong there; later ones are made ahead by the daemon.
do $$
declare
  monday timestamptz;
begin
  for week in 0..1 loop
    monday := date_trunc('week', now() at time zone 'UTC') at time zone 'UTC' + make_interval(days => 7 * week);
    if not exists (select from svc.event_bodies_rest) then
      execute format('create table svc.event_bodies_%s partition of svc.event_bodies for values from (%L) to (%L)',
        to_char(monday at time zone 'UTC', 'YYYYMMDD'),
        rpad(lpad(to_hex((extract(epoch from monday) * 1000)::bigint), 12, '0'), 32, '0')::uuid,
        rpad(lpad(to_hex((extract(epoch from monday + interval '7 days') * 1000)::bigint), 12, '0'), 32, '0')::uuid);
    end if;
  end loop;
end $$;
