-- An author may write a key of any length, though no source emits a long one, and an index holds no more of a text than this.
create index triggers_key on svc.triggers (project_id, left(event, 500));
drop index svc.triggers_event;
