-- What the apply wrote, and what stands there now whoever wrote it: where they differ, the row has drifted.
alter table svc.agents add column spec_sum text;
alter table svc.agents add column spec_seen text generated always as (md5(spec::text)) stored;
update svc.agents set spec_sum = md5(spec::text);
alter table svc.generated_resources add column spec_sum text;
alter table svc.generated_resources add column spec_seen text generated always as (md5(spec::text)) stored;
update svc.generated_resources set spec_sum = md5(spec::text);
alter table svc.triggers add column spec_sum text;
alter table svc.triggers add column spec_seen text generated always as (md5(spec::text)) stored;
update svc.triggers set spec_sum = md5(spec::text);

-- What has not been said for long is forgotten.
create index provider_facts_age on svc.provider_facts (updated_at);
