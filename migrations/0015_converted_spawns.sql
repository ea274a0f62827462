-- A spawn by a session that became a message to one that was there: with an idempotency key it happens once, like one that
-- made a session (there the key stands on the session).
create table svc.converted_spawns (
  parent_id uuid not null references svc.sessions on delete cascade,
  idempotency_key text not null,
  session_id uuid not null references svc.sessions on delete cascade,
  primary key (parent_id, idempotency_key)
);
create index converted_spawns_session on svc.converted_spawns (session_id);
comment on table svc.converted_spawns is 'Spawns under a key that were delivered to the live session of a capped agent.';
