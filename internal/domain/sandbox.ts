// The providers of sandboxes by name (docs/reference/sessions.md#sandboxes).

export const SANDBOX_PROVIDERS = ['bubblewrap', 'process', 'command', 'docker', 'kubernetes'] as const;
export type SandboxProviderName = (typeof SANDBOX_PROVIDERS)[number];

/** What an engine says while a session waits for it (docs/reference/sessions.md#engines). */
export const ENGINE_REASONS = [
  'engine-unreachable',
  'engine-refused',
  'unschedulable',
  'quota-exceeded',
  'pull-failed',
] as const;
export type EngineReason = (typeof ENGINE_REASONS)[number];
