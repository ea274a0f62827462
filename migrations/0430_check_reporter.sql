-- Who tells the code host of a check: what a daemon that is gone has claimed is told by the next at once, as plans and
-- statuses are, and not only when its claim has run out. Null: claimed by nobody, or by a daemon of before; such a claim
-- runs out.
alter table svc.checks add column reporting_by uuid;

comment on column svc.checks.reporting_by is
  'The daemon that claimed it for telling; one that is in svc.daemons no more has died with it.';
