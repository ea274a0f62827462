-- A change of what decides nothing of what is read, compiled or applied, such as the interval, ends no run. It raises the generation as
-- ever, so that for a daemon of the release before each change counts as one that decides.
alter table svc.repositories
  -- How many of the changes that raised the generation were of that kind.
  add column undeciding integer not null default 0;
