-- Plans on pull requests and statuses of commits: what is to be told, and what has been told.
alter table svc.repositories add column plan jsonb not null default '{}';
comment on column svc.repositories.plan is
  'Whether pull requests get a comment and a check, and those of forks too: comment, check, forks; absent is the default';

create table svc.pull_plans (
  repository_id uuid not null references svc.repositories on delete cascade,
  number integer not null,
  -- `owner/name`, as the provider spells it.
  full_name text not null,
  head text not null,
  -- Of the delivery that told of the head: an older one that comes late changes nothing.
  heard_at timestamptz not null,
  -- Counts wishes: what is wished for while something is being told is told next.
  version bigint not null default 1,
  -- Null: nothing is to be told.
  due_at timestamptz,
  attempts integer not null default 0,
  claimed_by uuid,
  claimed_until timestamptz,
  -- Part of the key of each write, so that a repeat of one is not another; grows with each that has ended.
  sequence integer not null default 0,
  -- Whether this head changes something that compile reads.
  touched_head text,
  touched boolean,
  -- Of what was told of `told_head`, without what moves with the clock.
  told_head text,
  told_hash text,
  comment_id text,
  -- The call that made it, whose mark stays in its text: by it the call is known to have arrived.
  comment_call text,
  -- The check that is under way or was told last, and how many annotations it has.
  check_head text,
  check_id text,
  check_annotated integer not null default 0,
  check_done boolean not null default false,
  primary key (repository_id, number)
);
comment on table svc.pull_plans is 'Pull requests on followed branches: the plan that each is to be told, and what was told of it';
create index pull_plans_due on svc.pull_plans (due_at) where due_at is not null;

create table svc.commit_statuses (
  repository_id uuid not null references svc.repositories on delete cascade,
  commit text not null,
  version bigint not null default 1,
  due_at timestamptz,
  attempts integer not null default 0,
  claimed_by uuid,
  claimed_until timestamptz,
  -- The run whose beginning or end the code host shows, and in which words.
  run_id uuid,
  state text,
  description text,
  wished_at timestamptz not null default now(),
  primary key (repository_id, commit)
);
comment on table svc.commit_statuses is 'Statuses of commits at the code host: which are to be told, and what the host shows';
create index commit_statuses_due on svc.commit_statuses (due_at) where due_at is not null;
create index commit_statuses_old on svc.commit_statuses (wished_at) where due_at is null;
