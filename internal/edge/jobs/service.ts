// What a service is: a loop that runs as long as the daemon does. It holds no state that the database does not, so that
// another daemon takes over when this one dies.

import type { Role } from '../../base/config/config.ts';
import type { FlowContext } from '../../flows/context.ts';

export interface Service {
  readonly name: string;
  /** Started where the daemon has one of these roles. */
  readonly roles: readonly Role[];
  /** Resolves when it runs. `stop` waits for what is in flight and is safe twice. */
  start(ctx: FlowContext): Promise<{ stop(): Promise<void> }>;
}
