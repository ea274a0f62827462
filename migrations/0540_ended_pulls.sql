-- Why a pull request is told nothing more: it is over, or is to be merged elsewhere. What a telling began is ended, and a comment
-- that has become untrue says so. A daemon of the release before neither writes nor reads it.
alter table svc.pull_plans add column ended text check (ended in ('over', 'elsewhere'));
