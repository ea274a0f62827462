-- Reading sources is work of its own kind, not a job: who wants a repository looked at says so in the row that says when
-- it is looked at anyway. Nothing of an earlier release reads these columns, and it goes on to write job and row as ever.
alter table svc.repository_polls
  -- Reason of a sync that somebody asked for, and the commit that they spoke of; null: its turn came.
  add column wanted text check (wanted in ('push', 'poll', 'manual', 'watch', 'resync')),
  add column hint text,
  -- The daemon that reads it: no other begins meanwhile. Given back with the next claim; of a daemon that is gone it counts
  -- for nothing.
  add column claimed_by uuid;

-- Until when a source that could not be read is left alone, unless somebody asks: the polls are unlogged and made again
-- after a crash, the back-off is not forgotten with them.
alter table svc.repository_states add column retry_at timestamptz;

create table svc.host_pauses (
  -- Host and port of a git server.
  host text primary key,
  -- Repositories that could not reach it, one after the other, since one last could.
  failures integer not null,
  retry_at timestamptz not null
);
comment on table svc.host_pauses is 'Git servers that nobody looks at for a while, because several of their repositories in a row could not reach them, or because they asked for it.';
