// What a connection's status may be, and what it is worth.

export const connectionStatuses = [
  'active',
  'degraded',
  'suspended',
  'removed',
  'authorization_required',
  'scope_required',
  'uncertain',
  'disabled',
] as const;
/** `inactive` is `disabled` in the rows of versions before this one; nobody is told it. */
export type ConnectionStatus = (typeof connectionStatuses)[number] | 'inactive';
export const toldStatus = (status: ConnectionStatus): (typeof connectionStatuses)[number] =>
  status === 'inactive' ? 'disabled' : status;

/** Those with a grant: triggers and tools may use them. One that lacks a scope still has what it has. */
export const usableStatuses: readonly ConnectionStatus[] = ['active', 'degraded', 'scope_required'];
export const isUsable = (status: ConnectionStatus): boolean => usableStatuses.includes(status);

/** Whether deliveries are taken: also while nothing may be done outside, for it is they that tell of its end. */
export const isListening = (status: ConnectionStatus): boolean => status !== 'inactive' && status !== 'disabled';

/** Settings by which a provider is asked: others change nothing that it could refuse. */
export const askedBy = ['apiUrl', 'appId', 'installationId'] as const;

/** By provider, the option of the command line that gives what its calls are made with. */
const keyOptions: ReadonlyMap<string, string> = new Map([
  ['codehost', '--private-key-file'],
  ['tracker', '--api-key-file'],
  ['chat', '--bot-token-file'],
]);

/** What gets a connection back that is `degraded`: a key that is not taken is replaced before anybody asks again. */
export function degradedAdvice(of: {
  readonly provider: string;
  readonly name: string;
  readonly reason?: string | null | undefined;
}): string {
  const check = `svc connection check ${of.name}`;
  const option = of.reason === 'credential-refused' ? keyOptions.get(of.provider) : undefined;
  return option === undefined ? check : `svc connection set-credentials ${of.name} ${option} FILE, then: ${check}`;
}

/** What a provider said of an installation. */
export interface Observed {
  /** As mounts call them. */
  readonly permissions?: { readonly [capability: string]: 'read' | 'write' };
  readonly repositories?: {
    readonly selection: 'all' | 'selected';
    /** `owner/name`; absent where nobody told them all. */
    readonly names?: readonly string[];
    /** Those that were taken away and not given back, in lower case. */
    readonly missing?: readonly string[];
  };
}

/** What a delivery says of an installation. */
export interface InstallationChange {
  readonly what: 'established' | 'removed' | 'suspended' | 'permissions' | 'repositories' | 'renamed';
  readonly observed: Observed;
  /** `owner/name` */
  readonly added: readonly string[];
  readonly removed: readonly string[];
}
