// What is wrong with a project's connections, and what to do about each (`svc doctor`). Reads only.

import { type ConsentTrouble, findConsentTroubles } from '../../adapters/store/connections/consent-troubles.ts';
import { troubledConnections } from '../../adapters/store/connections/connections.ts';
import { degradedAdvice } from '../../domain/connection.ts';
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
    const check = { name: 'connection' };
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
        return { ...check, status: 'error', message, hint: comeback({ provider, name, status }) };
      }
      default:
        return {
          ...check,
          status: 'warning',
          message: `connection ${name} is ${status}${why}`,
          hint: degradedAdvice({ provider, name, reason }),
        };
    }
  });
}

/** What brings an installation back. */
function comeback(at: { readonly provider: string; readonly name: string; readonly status: string }): string {
  const { provider, name } = at;
  if (provider === 'errtrack')
    return `connect again: svc connect errtrack; or give it up: svc connection remove ${name}`;
  return at.status === 'removed' && provider === 'codehost'
    ? `install the application again, then: svc connection edit ${name} --installation-id ID`
    : `bring it back at the provider, then: svc connection check ${name}`;
}

// What is wrong with consents, and what a person does about each (`svc doctor`). Reads only.

export interface ConsentCheck {
  readonly name: string;
  readonly status: 'warning' | 'error';
  readonly message: string;
  readonly hint: string;
}

/** A check for each consent that nobody but a person can go on with. */
export async function diagnoseConsents(ctx: FlowContext, project: ProjectRef): Promise<ConsentCheck[]> {
  const found = await findConsentTroubles(ctx.db, project, ctx.runtime.now());
  return found.map(told);
}

function told({ kind, id, name, state, reason }: ConsentTrouble): ConsentCheck {
  const why = reason === null ? '' : ` (${reason})`;
  if (kind === 'errtrack-attempt') {
    const message = `setup attempt ${id} of the error tracker is ${state}${why}: its outcome at the provider is not known`;
    const hint = `look whether the provider lists the app as installed, then connect again: svc connect errtrack; whoever began the attempt puts it away by DELETE /api/v1/connections/errtrack/installations/${id}`;
    return { name: 'setup', status: 'warning', message, hint };
  }
  if (kind === 'errtrack-grant') {
    const message = `the credential of the error-tracking connection ${name} is ${state}: no agent reads with it`;
    const hint = `remove the app at the provider, then connect again: svc connect errtrack (where it says that it is connected, first: svc connection remove ${name})`;
    return { name: 'authorization', status: 'error', message, hint };
  }
  const message = `consent ${id} to connection ${name} is ${state}${why}: what was sent has no answer, and is not sent again`;
  return {
    name: 'authorization',
    status: 'warning',
    message,
    hint: `consent again: svc connect mcp ${name} --renew, or svc connect provider PROVIDER ${name} --renew`,
  };
}
