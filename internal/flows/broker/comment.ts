// What the service itself says on a pull request or an issue, as a step of a write of its own.

import type { SealedConnection } from '../../adapters/store/secrets/credentials.ts';
import type { JsonObject } from '../../domain/json.ts';
import { outsideFault } from '../../domain/outside.ts';
import { settingText } from '../codehost-mounts.ts';
import type { FlowContext, ProjectRef } from '../context.ts';
import type { Step } from '../outbox/outbox.ts';
import { connectionSecrets } from '../sealed.ts';
import { Desk } from './desk.ts';
import { body, idAndUrl, sentAround } from './tool.ts';

export interface OwnComment {
  readonly project: Pick<ProjectRef, 'id' | 'orgId'>;
  readonly connection: SealedConnection;
  /** `owner/name` */
  readonly repository: string;
  readonly number: number;
  readonly permission: 'issues' | 'pull_requests';
  readonly text: string;
}

/** Comments; answers with `{id, url}`. Throws Fault with a code of domain/outside.ts. */
export function commentOn(ctx: FlowContext, of: OwnComment, step: Step, callId: string): Promise<JsonObject> {
  const { project, connection, repository, number, permission, text } = of;
  // A bare token was given for reading; only an installation writes.
  if (settingText(connectionSecrets(ctx, connection)['privateKey']) === undefined) {
    throw outsideFault('credential-refused', `connection ${connection.name} has no private key; nothing was done`);
  }
  const desk = new Desk({
    ctx,
    project,
    connection,
    installationId: undefined,
    repository,
    permissions: { [permission]: 'write' },
    session: null,
  }).writing(step, callId);
  const path = `/issues/${number}/comments`;
  return desk.write(
    { method: 'POST', path, body: { body: body(desk, text) } },
    { probe: { kind: 'marked', path, since: sentAround(desk), answer: 'id' }, shape: idAndUrl },
  );
}
