-- Since when a connection has its status, and how many calls have failed on it since then, both kept by whoever changes the
-- row; how often a schedule has not fired since it did; and whose a session's cost is.
alter table svc.connections add column status_since timestamptz;
alter table svc.connections add column failed_calls integer not null default 0;
comment on column svc.connections.status_since is 'When its status last became another one';
comment on column svc.connections.failed_calls is 'Calls that failed on it, and not for what they asked, since status_since';

-- What is written down of changes says when the last one was; where nothing does, it has its first status.
update svc.connections c set status_since = coalesce(changed.at, c.created_at)
  from svc.connections same left join (
    select a.detail ->> 'connectionId' as id, max(a.at) as at from svc.audit a
     where a.subject_kind = 'Connection' and a.action in ('connection.established', 'connection.changed', 'connection.removed')
       and a.detail ->> 'from' is distinct from a.detail ->> 'status' group by 1) changed on changed.id = same.id::text
 where same.id = c.id;
alter table svc.connections alter column status_since set default now();

create function svc.connection_begins_anew() returns trigger language plpgsql as $$
begin
  new.status_since := now();
  new.failed_calls := 0;
  return new;
end $$;
create trigger connections_since before update of status on svc.connections for each row
  when (old.status is distinct from new.status) execute function svc.connection_begins_anew();

alter table svc.schedules add column skipped integer not null default 0;
comment on column svc.schedules.skipped is 'Ticks that it has passed over since it last fired';

alter table svc.usage_sessions add column agent_id uuid;
comment on column svc.usage_sessions.agent_id is 'Whose session it is; null until the next call of one that lived when this column came';
-- Those that live are written by every call, which brings it.
update svc.usage_sessions u set agent_id = s.agent_id from svc.sessions s where s.id = u.session_id and not s.live;
