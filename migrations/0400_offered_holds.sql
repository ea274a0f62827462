-- A session that its daemon leaves running when it stops in good order may be taken over by another one at once.
alter table svc.session_holds add column offered_at timestamptz;
comment on column svc.session_holds.offered_at is 'When its daemon let go of it in good order: from then on any daemon that reaches its box may take it over, its own next life included. Null while its daemon has it.';
create index session_holds_offered on svc.session_holds (offered_at) where offered_at is not null;
