-- Of two submissions of one review at once, one sends it.
alter table svc.review_drafts add column submitting uuid;
comment on column svc.review_drafts.submitting is
  'The call that sends it; null, or of a call that was refused: it waits to be sent';
