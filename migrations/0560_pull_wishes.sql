-- A wish for a look at pull requests counts by itself: one that comes while they are looked at is not over with that look, and does
-- not take the place of what was looked at last. Nor is a look over that failed. A daemon of the release before writes none of it.
alter table svc.pull_polls
  -- Raised by each wish, and how many there were when they were last looked at.
  add column wishes integer not null default 0,
  add column looked_wishes integer not null default 0,
  -- What was applied when a look failed that is to be made up for.
  add column failed_commit text;
