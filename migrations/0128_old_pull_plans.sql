-- concurrently
-- Plans of pull requests by age, for retention.
create index concurrently if not exists pull_plans_age on svc.pull_plans (heard_at) where due_at is null;
