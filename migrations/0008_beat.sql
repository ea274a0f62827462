-- What a schedule's last tick became, so that the next one knows whether its dispatch still runs.
alter table svc.schedules add column last_event_id uuid;
alter table svc.schedules add constraint schedules_last_status
  check (last_status in ('fired', 'skipped-late', 'skipped-overlap'));
