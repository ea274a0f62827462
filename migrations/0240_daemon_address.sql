-- Where other daemons of the installation reach this one over HTTP: what a person asks of a session is handed on to the
-- daemon that runs it. Null for a daemon that runs no sessions, and of an earlier release.
alter table svc.daemons add column address text;
