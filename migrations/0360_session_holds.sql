-- What the next life of a daemon takes a running box over with, while the epoch that started its harness lasts.
create table svc.session_holds (
  id uuid primary key,
  session_id uuid not null unique references svc.sessions (id) on delete cascade,
  -- Of the session's host: with another one it is of no use, and is deleted.
  epoch bigint not null,
  provider text not null,
  key_version integer not null,
  -- The ways into the box and out of it, what must not show, and how the harness was launched.
  sealed bytea not null,
  -- {"out", "skip", "in", "unclean", "turn", "prompt", "next", "active"}: how far the harness's output is in the transcript, and
  -- what the harness was given. Written with the lines of the transcript that it tells of.
  cursor jsonb not null,
  -- Counts writes of the cursor: lines that came with one are not written again.
  commits bigint not null default 0,
  -- How often it was taken over since a prompt went in: not for ever.
  taken integer not null default 0
);
comment on table svc.session_holds is 'What a daemon that comes back takes a running session over with: secrets of its box, sealed, and the position of its transcript in the output of its harness. One for each session in a box that outlives its daemon; deleted when its epoch ends.';
