-- Roles that groups give are recomputed by the hour where the provider gave a refresh token with the sign-in.
alter table svc.external_identities
  -- The configured name of the provider that vouched last.
  add column method text,
  -- Its latest refresh token, sealed; null: there is none, and groups are those of the latest sign-in.
  add column token_id uuid references svc.oauth_tokens on delete set null,
  add column refreshed_at timestamptz,
  -- Committed before a refresh token is sent; one that was sent without an answer is not sent again.
  add column refresh_sent_at timestamptz;
create index external_identities_refresh on svc.external_identities (refreshed_at) where token_id is not null;
create index external_identities_token on svc.external_identities (token_id);
