-- concurrently
-- What a rollback may go back to is kept by what was applied: commits that change nothing, however many, come in between.
create index concurrently if not exists reconciles_applied_inputs on svc.reconciles (repository_id, seq desc)
  where status = 'applied' and inputs ? 'snapshotId';
