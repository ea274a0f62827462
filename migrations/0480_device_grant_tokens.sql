-- What a command line was let in with: its grant ends with it. Null where a provider vouched for the person, or a daemon of
-- the release before decided.
alter table svc.device_grants add column token_id uuid references svc.api_tokens on delete cascade;
create index device_grants_token on svc.device_grants (token_id);
comment on column svc.device_grants.token_id is 'The token of the call that allowed it, or of the browser''s session.';
