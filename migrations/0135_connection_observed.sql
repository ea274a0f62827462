-- What a provider said of a connection when it was asked last, or in a delivery: the permissions and repositories of an
-- installation. Null: nothing is known.
alter table svc.connections add column observed jsonb;
-- When it was asked last, whatever came of it.
alter table svc.connections add column checked_at timestamptz;
