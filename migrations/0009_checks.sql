-- Telling the code host: `reported` is false from every change until it knows. Not before `report_after`; an error stays
-- until the check changes again.
alter table svc.checks add column changes integer not null default 0;
alter table svc.checks add column report_after timestamptz;
alter table svc.checks add column report_error text;
create index checks_unreported on svc.checks (updated_at) where not reported;
