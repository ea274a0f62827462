// What a server supports, before anything is registered (contract, `svc repo probe`).

import { RepoCondition } from '../../adapters/repo/repo.ts';
import type { ProbeReport } from '../../adapters/repo/types.ts';
import type { RepositoryAuth } from '../../adapters/store/repositories/repositories.ts';
import { Fault } from '../../domain/fault.ts';
import { type FlowContext, type ProjectRef, portsOf } from '../context.ts';
import { checkAddress } from './settings.ts';
import { credentialsOf, hostOf } from './source.ts';

/** A server that cannot be talked to is an answer too: `reachable: false` with its condition. */
export async function probe(
  ctx: FlowContext,
  project: ProjectRef,
  input: { readonly url: string; readonly auth?: RepositoryAuth | null },
): Promise<ProbeReport | { reachable: false; condition: string; detail: string }> {
  checkAddress(input.url, null);
  const ports = portsOf(ctx);
  const credentials = credentialsOf(ctx, project, input.auth ?? null, {
    kind: 'probe',
    name: hostOf({ url: input.url }),
  });
  try {
    return await ports.limited(hostOf(input), () => ports.probe(input.url, credentials));
  } catch (error) {
    if (!(error instanceof RepoCondition)) throw error;
    if (error.condition === 'hostile') throw new Fault('invalid', 'invalid-body', `url: ${error.detail}`);
    return { reachable: false, condition: error.condition, detail: error.detail };
  }
}
