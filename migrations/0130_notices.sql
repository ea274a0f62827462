-- People are told: what is worth telling is noted in the transaction that makes it so, and told from there.
alter table svc.projects add column approvers jsonb not null default '{}';
comment on column svc.projects.approvers is
  'Who may answer what sessions ask, where they ask it: ids of people at the provider, by chat, codehost and tracker';
alter table svc.projects add column notify boolean not null default true;
comment on column svc.projects.notify is
  'Whether failed launches and questions are told where their session came from';

create table svc.notices (
  id uuid primary key default gen_random_uuid(),
  project_id uuid not null references svc.projects on delete cascade,
  -- launch-failed and session-asks are told where the session came from, the others and session-asks to receivers.
  condition text not null check (condition in ('sync-failed', 'sync-held', 'sync-recovered', 'session-failed',
    'session-blocked', 'session-asks', 'launch-failed', 'cap-reached', 'connection-lost', 'secret-expiring')),
  -- Of a revision and what became of it: a repeat of the same is not told again.
  key text not null,
  -- The repository, session, connection or secret that it is of; none of them holds it.
  subject_id uuid not null,
  -- Names and ids, never a value.
  subject jsonb not null,
  -- Of session-asks.
  permission_id uuid references svc.permissions on delete cascade,
  at timestamptz not null default now(),
  -- When it was made notifications of; null: not yet.
  spread_at timestamptz,
  unique (project_id, condition, key)
);
create index notices_fresh on svc.notices (at) where spread_at is null;
create index notices_old on svc.notices (at);
create index notices_project on svc.notices (project_id, at desc, id desc);
create index notices_permission on svc.notices (permission_id) where permission_id is not null;
create index notices_recovered on svc.notices (subject_id, at desc) where condition = 'sync-recovered';
comment on table svc.notices is 'What people are to be told, once per revision and condition. Kept for 30 days.';

create table svc.notifications (
  notice_id uuid not null references svc.notices on delete cascade,
  -- origin: where the session came from; receiver:<name>; installation:<name>.
  receiver text not null,
  -- dropped: there is nobody to tell any more, or nothing.
  status text not null default 'pending' check (status in ('pending', 'done', 'refused', 'unknown', 'dropped')),
  code text,
  due_at timestamptz,
  attempts integer not null default 0,
  claimed_by uuid,
  claimed_until timestamptz,
  -- Of origin: the thread, pull request or issue, once somebody is at it. An answer there is held against it.
  target_type text,
  target_key text,
  settled_at timestamptz,
  primary key (notice_id, receiver),
  check ((status = 'pending') = (due_at is not null))
);
create index notifications_due on svc.notifications (due_at) where due_at is not null;
create index notifications_target on svc.notifications (target_key) where target_key is not null;
comment on table svc.notifications is 'One notice on its way to one receiver. Of one, one daemon tells at a time.';

create table svc.receivers (
  id uuid primary key default gen_random_uuid(),
  project_id uuid not null references svc.projects on delete cascade,
  name text not null check (name ~ '^[A-Za-z0-9_.-]{1,128}$'),
  kind text not null check (kind in ('chat', 'webhook')),
  -- Null: every condition.
  conditions text[],
  suspended boolean not null default false,
  -- Of chat: the name of a connection, and a channel.
  connection text,
  channel text,
  -- Of a webhook: its address, and the key that it is signed with, sealed.
  url text,
  key_version integer,
  sealed bytea,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  unique (project_id, name),
  check ((sealed is null) = (key_version is null)),
  check (kind <> 'chat' or (connection is not null and channel is not null and url is null)),
  check (kind <> 'webhook' or (url is not null and connection is null and channel is null))
);
create index receivers_key_version on svc.receivers (key_version) where key_version is not null;
comment on table svc.receivers is 'Whom a project tells of what happens in it: chat channels and signed webhooks.';

-- A run of a repository has ended. The epoch in a key is the last good run and the last recovery: what fails again after
-- it was well is told again.
create function svc.note_run() returns trigger language plpgsql as $$
declare
  bad record;
begin
  if new.repository_id is null then return null; end if;
  if new.status in ('failed', 'held') then
    insert into svc.notices (project_id, condition, key, subject_id, subject)
      select new.project_id, 'sync-' || new.status,
          concat_ws(' ', new.repository_id, coalesce(new.commit, '-'), coalesce(new.condition, new.status),
            (select r.id from svc.reconciles r where r.repository_id = new.repository_id
               and r.status in ('applied', 'unchanged') order by r.seq desc limit 1),
            (select n.id from svc.notices n where n.subject_id = new.repository_id and n.condition = 'sync-recovered'
               order by n.at desc limit 1)),
          new.repository_id,
          jsonb_build_object('repository', new.repository_name, 'run', new.id, 'commit', new.commit,
            'condition', new.condition, 'detail', left(new.detail, 500),
            'errors', (select count(*) from jsonb_array_elements(new.diagnostics) d where d ->> 'severity' = 'error'),
            'error', (select left(d ->> 'message', 500) from jsonb_array_elements(new.diagnostics) d
              where d ->> 'severity' = 'error' limit 1))
      on conflict do nothing;
  else
    select id, status, condition into bad from svc.reconciles
      where repository_id = new.repository_id and seq < new.seq and status not in ('superseded', 'running')
      order by seq desc limit 1;
    if bad.status in ('failed', 'held') then
      insert into svc.notices (project_id, condition, key, subject_id, subject)
        values (new.project_id, 'sync-recovered', concat_ws(' ', new.repository_id, bad.id), new.repository_id,
          jsonb_build_object('repository', new.repository_name, 'run', new.id, 'commit', new.commit,
            'was', coalesce(bad.condition, bad.status)))
        on conflict do nothing;
    end if;
  end if;
  return null;
end $$;
create trigger reconciles_noted after update of status on svc.reconciles for each row
  when (old.status = 'running' and new.status in ('failed', 'held', 'applied', 'unchanged'))
  execute function svc.note_run();

-- A source that could not be read is read again, and has nothing new: no run says so.
create function svc.note_source() returns trigger language plpgsql as $$
begin
  insert into svc.notices (project_id, condition, key, subject_id, subject)
    select r.project_id, 'sync-recovered', concat_ws(' ', r.id, bad.id), r.id,
        jsonb_build_object('repository', r.name, 'run', bad.id, 'commit', new.seen_commit, 'was', old.condition)
      from svc.repositories r
      cross join lateral (select b.id, b.status from svc.reconciles b where b.repository_id = r.id
        and b.status not in ('superseded', 'running') order by b.seq desc limit 1) bad
      where r.id = new.repository_id and bad.status = 'failed'
        and not exists (select from svc.reconciles x where x.repository_id = r.id and x.status = 'running')
    on conflict do nothing;
  return null;
end $$;
create trigger repository_states_noted after update of condition on svc.repository_states for each row
  when (old.condition is not null and new.condition is null) execute function svc.note_source();

-- A cap as a refusal names it: which, how much, until when; what was spent moves on.
create function svc.cap_named(reason text) returns text language sql immutable as $$
  select concat_ws(' ', substring(reason from '(?:maxPerSession|daily|monthly)Usd'),
    substring(reason from 'allows [0-9.]+'), substring(reason from 'resets at [0-9T:.Z-]+'))
$$;

-- Sessions of an agent that meet the same cap meet one; that of a session is its own.
create function svc.note_session() returns trigger language plpgsql as $$
declare
  about jsonb := jsonb_build_object('session', new.id, 'agent', new.agent, 'revision', new.revision,
    'reason', left(new.reason, 500));
  cap text := svc.cap_named(new.reason);
begin
  if new.state = 'failed' then
    insert into svc.notices (project_id, condition, key, subject_id, subject)
      values (new.project_id, 'session-failed', new.id::text, new.id, about) on conflict do nothing;
    -- It came up as long as no turn of it has ended.
    if not exists (select from svc.turns t where t.session_id = new.id and t.state = 'done') then
      insert into svc.notices (project_id, condition, key, subject_id, subject)
        values (new.project_id, 'launch-failed', new.id::text, new.id, about) on conflict do nothing;
    end if;
    return null;
  end if;
  if new.state = 'blocked' then
    insert into svc.notices (project_id, condition, key, subject_id, subject)
      values (new.project_id, 'session-blocked', concat_ws(' ', new.id, cap), new.id, about) on conflict do nothing;
  end if;
  insert into svc.notices (project_id, condition, key, subject_id, subject)
    values (new.project_id, 'cap-reached',
      concat_ws(' ', new.agent_id, cap, case when cap like 'maxPerSession%' or cap = '' then new.id::text end), new.id,
      about)
    on conflict do nothing;
  return null;
end $$;
create trigger sessions_noted after update of state, waits_for on svc.sessions for each row
  when ((new.state in ('failed', 'blocked') and old.state is distinct from new.state)
    or (new.waits_for = 'cap' and old.waits_for is distinct from new.waits_for))
  execute function svc.note_session();

create function svc.note_question() returns trigger language plpgsql as $$
begin
  insert into svc.notices (project_id, condition, key, subject_id, subject, permission_id)
    select s.project_id, 'session-asks', new.id::text, s.id,
        jsonb_build_object('session', s.id, 'agent', s.agent, 'revision', s.revision, 'title', left(new.title, 2000)),
        new.id
      from svc.sessions s where s.id = new.session_id
    on conflict do nothing;
  return null;
end $$;
create trigger permissions_noted after insert on svc.permissions for each row execute function svc.note_question();

-- Switched off by a person is not lost.
create function svc.note_connection() returns trigger language plpgsql as $$
begin
  insert into svc.notices (project_id, condition, key, subject_id, subject)
    values (new.project_id, 'connection-lost', concat_ws(' ', new.id, new.status, extract(epoch from now())), new.id,
      jsonb_build_object('connection', new.name, 'provider', new.provider, 'status', new.status, 'reason', new.reason))
    on conflict do nothing;
  return null;
end $$;
create trigger connections_noted after update of status on svc.connections for each row
  when (old.status in ('active', 'degraded', 'scope_required')
    and new.status in ('suspended', 'removed', 'authorization_required', 'uncertain'))
  execute function svc.note_connection();
