-- Whether the harness session of a session has yet to be told what was said before it: it began anew in place of a lost one,
-- and no turn of it has ended well since. A daemon of the release before neither writes nor reads it.
alter table svc.sessions add column recap_due boolean not null default false;
comment on column svc.sessions.recap_due is 'The harness has lost its memory, and its next turn begins with a recap.';

-- Up to which message the harness of a snapshot knows the conversation; what is numbered later it is told when it resumes. Null
-- of a snapshot that a daemon of the release before took: it is told nothing then, as before.
alter table svc.session_snapshots add column said_seq bigint;
comment on column svc.session_snapshots.said_seq is 'No message up to this number was still to be told when it was taken.';
