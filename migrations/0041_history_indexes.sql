-- concurrently
-- What runs by itself and what a list shows is found by an index, however much has happened before it.

-- Runs: those that run, by daemon; the last that says something; inputs that are kept; a commit's; lists by name and status.
create index concurrently if not exists reconciles_running on svc.reconciles (daemon_id, started_at) where status = 'running';
create index concurrently if not exists reconciles_told on svc.reconciles (repository_id, seq desc)
  where status not in ('running', 'superseded');
create index concurrently if not exists reconciles_held_inputs on svc.reconciles (repository_id, seq desc)
  where status = 'held' and inputs ? 'snapshotId';
create index concurrently if not exists reconciles_inputs on svc.reconciles (repository_id, seq desc)
  where status in ('applied', 'unchanged') and inputs ? 'snapshotId';
create index concurrently if not exists reconciles_held on svc.reconciles (repository_id, project_id, seq desc)
  where status = 'held';
create index concurrently if not exists reconciles_over on svc.reconciles (repository_id, project_id, seq desc)
  where status not in ('running', 'held');
create index concurrently if not exists reconciles_commit on svc.reconciles (repository_id, commit, seq desc);
create index concurrently if not exists reconciles_named on svc.reconciles (project_id, repository_name, seq desc);
create index concurrently if not exists reconciles_status on svc.reconciles (project_id, status, seq desc);

-- Sessions: an agent's last, those that live, those that money holds back, those that ended otherwise than by a person.
create index concurrently if not exists sessions_agent on svc.sessions (project_id, agent, id desc);
create index concurrently if not exists sessions_live on svc.sessions (project_id, id desc) where live;
create index concurrently if not exists sessions_blocked on svc.sessions (id) where state = 'blocked';
create index concurrently if not exists sessions_ended_otherwise on svc.sessions (project_id, state, id desc)
  where state in ('failed', 'replaced');
create index concurrently if not exists permissions_session on svc.permissions (session_id, decided_at);
create index concurrently if not exists bindings_active_project on svc.bindings (project_id, id desc) where state = 'active';

-- Checks: a project's, those that are over, those that the code host is to hear of, those that it refused.
create index concurrently if not exists checks_project on svc.checks (project_id, updated_at desc);
create index concurrently if not exists checks_over on svc.checks (updated_at) where state in ('concluded', 'superseded');
create index concurrently if not exists checks_to_report on svc.checks (updated_at)
  where not reported and connection_id is not null and report_error is null;
create index concurrently if not exists checks_refused on svc.checks (project_id, updated_at desc)
  where not reported and report_error is not null;

-- Events by key, and the few with a severity. Neither column changes when an event is routed as most are.
create index concurrently if not exists events_key on svc.events (project_id, key, seq desc);
create index concurrently if not exists events_severity on svc.events (project_id, severity, seq desc) where severity is not null;

-- What goes by its age, and what goes with its project.
create index concurrently if not exists usage_ledger_at on svc.usage_ledger (at);
create index concurrently if not exists usage_days_day on svc.usage_days (day);
create index concurrently if not exists agent_revisions_project on svc.agent_revisions (project_id);

-- The audit by what was done, to what, and by whom.
create index concurrently if not exists audit_action on svc.audit (org_id, action, id desc);
create index concurrently if not exists audit_subject on svc.audit (org_id, subject_name, id desc);
create index concurrently if not exists audit_principal on svc.audit (org_id, principal_name, id desc);
create index concurrently if not exists audit_principal_id on svc.audit (org_id, principal_id, id desc) where principal_id is not null;
