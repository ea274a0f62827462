-- Which process a daemon is: the boot of its kernel, the namespace of its process number, and when it started. Another
-- daemon on the same kernel can tell from these whether it still runs; a host name and a number do not say so. Absent where
-- the kernel does not tell, and in the rows of the release before, whose heartbeat alone counts.
alter table svc.daemons
  add column boot_id text,
  add column pid_namespace text,
  add column start_ticks text;
