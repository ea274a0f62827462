-- Pull requests of repositories whose code host delivers nothing are looked for; and whenever what they would change may
-- have changed with their base.
create table svc.pull_polls (
  repository_id uuid primary key references svc.repositories on delete cascade,
  next_at timestamptz not null default now(),
  -- The applied commit when they were last looked at.
  looked_commit text,
  -- Of the last delivery about a pull request: while some come, nobody looks by the clock.
  delivered_at timestamptz,
  claimed_by uuid,
  claimed_until timestamptz
);
comment on table svc.pull_polls is 'When open pull requests of a followed repository are looked for, one row a repository';
create index pull_polls_next on svc.pull_polls (next_at);
