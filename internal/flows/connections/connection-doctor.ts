// What is wrong with a project's connections, and what to do about each (`svc doctor`). Reads only.

import { troubledConnections } from '../../adapters/store/connections/connections.ts';
import type { FlowContext, ProjectRef } from '../context.ts';
import { isConsented } from './oauth-clients.ts';

export interface ConnectionCheck {
  readonly name: string;
  readonly status: 'warning' | 'error';
  readonly message: string;
  readonly hint: string;
}

/** One check for each connection that is not as it should be; one that was switched off is. */
export async function diagnoseConnections(ctx: FlowContext, project: ProjectRef): Promise<ConnectionCheck[]> {
  const rows = await troubledConnections(ctx.db, project.id);
  return rows.map(({ name, provider, status, reason }): ConnectionCheck => {
    const why = reason === null ? '' : ` (${reason})`;
    const again = provider === 'mcp' ? `svc connect mcp ${name}` : `svc connect provider ${provider} ${name}`;
    const hint = isConsented(ctx, provider) ? again : `svc connection set-credentials ${name}`;
    const check = { name: 'connection', hint: `svc connection check ${name}` };
    switch (status) {
      case 'authorization_required':
      case 'uncertain': {
        // Nobody has consented to it yet, where it has no reason: it waits, and nothing was lost.
        const isNew = status === 'authorization_required' && reason === null;
        const message = `authorization-required: connection ${name}${isNew ? '' : ` is ${status}${why}`}`;
        return { ...check, status: isNew ? 'warning' : 'error', message, hint };
      }
      case 'scope_required':
        return { ...check, status: 'warning', message: `scope-required: connection ${name}`, hint };
      case 'suspended':
      case 'removed': {
        const message = `connection ${name}: its installation is ${status}; nothing is sent through it`;
        const back =
          status === 'removed' && provider === 'codehost'
            ? `install the application again, then: svc connection edit ${name} --installation-id ID`
            : `bring it back at the provider, then: svc connection check ${name}`;
        return { ...check, status: 'error', message, hint: back };
      }
      default:
        return { ...check, status: 'warning', message: `connection ${name} is ${status}${why}` };
    }
  });
}
