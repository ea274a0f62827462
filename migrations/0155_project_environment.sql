-- What the environments of a project's sessions may ask for and reach (docs/reference/sessions.md#presets).
-- limits: {"cpuCount"?: n, "memoryMB"?: n}, ceilings that an apply holds environments against.
-- network: {"allow": ["host", "*.domain", "host:port"]}; null: the installation's list alone.
alter table svc.projects
  add column limits jsonb,
  add column network jsonb;
