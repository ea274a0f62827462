-- What hosts need to run sessions: when to try again, what waits for a person, and a word when something is to be done.
alter table svc.sessions add column retry_at timestamptz;
-- Launches that failed one after another; a turn that ends well begins anew.
alter table svc.sessions add column failures integer not null default 0;
-- The data directory that its sandbox lies in: resumed elsewhere, it starts in a fresh one.
alter table svc.sessions add column sandbox_home text;

create table svc.permissions (
  id uuid primary key,
  session_id uuid not null references svc.sessions on delete cascade,
  epoch bigint not null,
  title text not null,
  -- What is asked for: call, category, input, options.
  request jsonb not null,
  state text not null default 'open' check (state in ('open', 'allow', 'allow_always', 'reject', 'cancelled')),
  decided_by text,
  created_at timestamptz not null,
  decided_at timestamptz,
  check ((state = 'open') = (decided_at is null))
);
create index permissions_open on svc.permissions (session_id) where state = 'open';
comment on table svc.permissions is 'Permission requests of harnesses under `approvals: prompt`, and what a person decided.';

-- One word to all hosts, of the same text whatever it is about: the database sends it once per transaction.
create function svc.tell_hosts() returns trigger language plpgsql as $$
begin
  perform pg_notify('svc_hosts', '');
  return null;
end $$;
create trigger inbox_told after insert on svc.inbox for each statement execute function svc.tell_hosts();
create trigger sessions_told after insert on svc.sessions for each statement execute function svc.tell_hosts();
create trigger sessions_ended after update on svc.sessions
  for each row when (old.live and not new.live) execute function svc.tell_hosts();
create trigger permissions_told after update on svc.permissions for each statement execute function svc.tell_hosts();
