-- Two data directories may have one path, as in two containers: each is known by an id of its own. What a daemon of the release before
-- writes is the path, and has none.
alter table svc.sessions add column sandbox_home_id uuid;
