-- What a fenced session asked for at its edge and was refused (docs/reference/sessions.md#network).
create table svc.session_egress (
  session_id uuid not null references svc.sessions on delete cascade,
  host text not null check (length(host) between 1 and 255),
  count bigint not null check (count > 0),
  primary key (session_id, host)
);
comment on table svc.session_egress is 'Hosts that a session asked for and was refused by its network list, with how often; at most a hundred for each session.';
