// What is wrong with consents, and what a person does about each (`svc doctor`). Reads only.

import { type ConsentTrouble, findConsentTroubles } from '../../adapters/store/connections/consent-troubles.ts';
import type { FlowContext, ProjectRef } from '../context.ts';

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
    const hint = 'look whether the provider lists the app as installed, then cancel the attempt and connect again';
    return { name: 'setup', status: 'warning', message, hint };
  }
  if (kind === 'errtrack-grant') {
    const message = `the credential of the error-tracking connection ${name} is ${state}: no agent reads with it`;
    const hint = 'remove the app at the provider, then connect again: svc connect errtrack';
    return { name: 'authorization', status: 'error', message, hint };
  }
  const message = `consent ${id} to connection ${name} is ${state}${why}: what was sent has no answer, and is not sent again`;
  return { name: 'authorization', status: 'warning', message, hint: `authorize connection ${name} again` };
}
