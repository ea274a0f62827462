// The providers of sandboxes by name (docs/reference/sessions.md#sandboxes).

export const sandboxProviders = ['bubblewrap', 'process', 'command', 'docker', 'kubernetes'] as const;
export type SandboxProviderName = (typeof sandboxProviders)[number];

/** What an engine says while a session waits for it (docs/reference/sessions.md#engines). */
export const engineReasons = [
  'engine-unreachable',
  'engine-refused',
  'unschedulable',
  'quota-exceeded',
  'pull-failed',
] as const;
export type EngineReason = (typeof engineReasons)[number];
