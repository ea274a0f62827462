-- Large received bodies are kept compressed: writing 20 KB as they came costs the database more than all the rest of an
-- event. How large such a body was stands beside it, so that a size is known, and a bound holds, without reading it.
alter table svc.event_bodies add column raw_bytes integer;
comment on column svc.event_bodies.raw_bytes is
  'Bytes of what was received, where `raw` is a zstd frame of that; null: `raw` is what was received, byte for byte.';
-- Not held against what is there: that is all null, and may be much.
alter table svc.event_bodies add constraint event_bodies_framed check (raw_bytes is null or raw is not null) not valid;
