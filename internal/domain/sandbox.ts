// The providers of sandboxes by name (docs/reference/sessions.md#sandboxes).

export const SANDBOX_PROVIDERS = ['bubblewrap', 'process', 'command'] as const;
export type SandboxProviderName = (typeof SANDBOX_PROVIDERS)[number];
