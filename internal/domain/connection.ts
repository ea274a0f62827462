// What a connection's status may be, and what it is worth.

export const CONNECTION_STATUSES = [
  'active',
  'inactive',
  'degraded',
  'suspended',
  'removed',
  'authorization_required',
  'scope_required',
  'uncertain',
  'disabled',
] as const;
export type ConnectionStatus = (typeof CONNECTION_STATUSES)[number];

/** Those with a grant: triggers and tools may use them. One that lacks a scope still has what it has. */
export const USABLE_STATUSES: readonly ConnectionStatus[] = ['active', 'degraded', 'scope_required'];
export const isUsable = (status: ConnectionStatus): boolean => USABLE_STATUSES.includes(status);

/** Whether deliveries are taken: also while nothing may be done outside, for it is they that tell of its end. */
export const isListening = (status: ConnectionStatus): boolean => status !== 'inactive' && status !== 'disabled';
