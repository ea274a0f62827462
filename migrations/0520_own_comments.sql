-- Comments that the service itself makes on the tracker, by the ids that it gives them: whatever member its key stands for there, they
-- are known when they are delivered. A daemon of the release before neither writes nor reads them.
alter table svc.provider_facts drop constraint provider_facts_kind_check;
alter table svc.provider_facts add constraint provider_facts_kind_check
  check (kind in ('mergeable', 'label', 'state', 'user', 'thread', 'comment')) not valid;
