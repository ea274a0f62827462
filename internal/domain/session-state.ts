// The states of a session (docs/reference/sessions.md#states): what moves between them is core/session's.

export const sessionStates = [
  'queued',
  'provisioning',
  'starting',
  'idle',
  'running',
  'waiting_permission',
  'interrupting',
  'suspended',
  'blocked',
  'archived',
  'replaced',
  'failed',
] as const;
export type SessionState = (typeof sessionStates)[number];
