-- What model calls cost. Sessions and agents are named, not referenced: money outlives both.
create table svc.usage_ledger (
  id bigint generated always as identity primary key,
  -- One per call, made before it is sent: a call recorded twice counts once.
  request_id uuid not null unique,
  project_id uuid not null references svc.projects on delete cascade,
  agent_id uuid not null,
  agent_name text not null,
  session_id uuid not null,
  -- When the call ended; decides its UTC day.
  at timestamptz not null,
  provider text not null check (provider in ('provider-a', 'provider-b', 'provider-c')),
  model text not null,
  -- Read from the caches and written to them are not part of the input.
  input_tokens bigint not null check (input_tokens >= 0),
  output_tokens bigint not null check (output_tokens >= 0),
  cache_read_tokens bigint not null check (cache_read_tokens >= 0),
  cache_write_tokens bigint not null check (cache_write_tokens >= 0),
  -- Exact. Null: nobody knows the price, and none is invented.
  cost_usd numeric check (cost_usd >= 0 and cost_usd < 'Infinity'),
  -- The answer was cut, so that its usage was never told: counted from what was seen.
  estimated boolean not null,
  -- Date of the price; null where the provider told the cost itself, or where it is not known.
  price_date date
);
create index usage_ledger_session on svc.usage_ledger (session_id, id);
create index usage_ledger_project on svc.usage_ledger (project_id, id);
create index usage_ledger_told on svc.usage_ledger (model, id desc) where price_date is null and not estimated;
comment on table svc.usage_ledger is 'One row per model call, append-only.';

create function svc.refuse_ledger_change() returns trigger language plpgsql as $$
begin
  raise exception 'svc.usage_ledger is append-only';
end $$;
create trigger usage_ledger_append_only before update on svc.usage_ledger
  for each row execute function svc.refuse_ledger_change();

-- Sums of the ledger, changed in the statement that appends to it, so that a cap is checked by one indexed read.
create table svc.usage_days (
  agent_id uuid not null,
  day date not null,
  project_id uuid not null references svc.projects on delete cascade,
  calls bigint not null,
  unpriced_calls bigint not null,
  input_tokens bigint not null,
  output_tokens bigint not null,
  cache_read_tokens bigint not null,
  cache_write_tokens bigint not null,
  cost_usd numeric not null,
  primary key (agent_id, day)
);
create index usage_days_project on svc.usage_days (project_id, day);
comment on table svc.usage_days is 'The ledger by agent and UTC day.';

create table svc.usage_sessions (
  session_id uuid primary key,
  project_id uuid not null references svc.projects on delete cascade,
  calls bigint not null,
  unpriced_calls bigint not null,
  input_tokens bigint not null,
  output_tokens bigint not null,
  cache_read_tokens bigint not null,
  cache_write_tokens bigint not null,
  cost_usd numeric not null
);
create index usage_sessions_project on svc.usage_sessions (project_id);
comment on table svc.usage_sessions is 'The ledger by session.';

-- Calls that were allowed and have not ended. What is left of a daemon that died is entered as an estimate.
create table svc.usage_open (
  request_id uuid primary key,
  project_id uuid not null references svc.projects on delete cascade,
  agent_id uuid not null,
  agent_name text not null,
  session_id uuid not null,
  started_at timestamptz not null,
  provider text not null,
  model text not null,
  -- Counted from the request.
  input_tokens bigint not null,
  -- What the call may come to at most, as estimated; null without a known price.
  reserved_usd numeric
);
create index usage_open_agent on svc.usage_open (agent_id);
create index usage_open_session on svc.usage_open (session_id);
comment on table svc.usage_open is 'Calls in flight, and what they hold of their agent''s caps.';
