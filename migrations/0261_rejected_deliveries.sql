-- Deliveries that did not prove themselves, for `svc doctor`: a wrong secret is otherwise a number in a metric, and silence.

create table svc.rejected_deliveries (
  -- Of the endpoint or the connection; it goes with its project.
  subject_id uuid primary key,
  kind text not null check (kind in ('endpoint', 'connection')),
  project_id uuid not null references svc.projects (id) on delete cascade,
  name text not null,
  -- Since the first one of a row of days.
  count bigint not null,
  why text not null,
  first_at timestamptz not null default now(),
  last_at timestamptz not null default now()
);
comment on table svc.rejected_deliveries is 'One row for each endpoint or connection whose deliveries were refused within a day; each daemon adds to it once in ten seconds at most, whatever comes in.';
create index rejected_deliveries_of_project on svc.rejected_deliveries (project_id);
