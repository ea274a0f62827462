// The one comment of a plan on a pull request: found by what was kept of it, else among all comments by author and marker,
// and edited in place.

import { idAndUrl, isBotLogin } from '../../adapters/providers/codehost/codehost.ts';
import { Fault } from '../../domain/fault.ts';
import { idAt, listAt, objectAt, textAt } from '../../domain/fields.ts';
import type { JsonObject } from '../../domain/json.ts';
import type { Permissions } from '../installation-token.ts';
import { codehostCallOf, type Hub, writeOnce } from './hub.ts';
import { digestOf } from './shapes.ts';
import type { PlanPublication } from './publication.ts';
import { commentText, planMarker, type PullText, type Where } from './text.ts';

const permissions: Permissions = { pull_requests: 'write' };
const commentPages = 100;

/** Names and places of a repository, as a comment says them. */
export function whereOf({ ctx, project, repository }: Hub): Where {
  return {
    repositoryId: repository.id,
    name: `${project.slug}/${repository.name}`,
    command: `svc repo show ${repository.name}`,
    page: `${ctx.baseUrl}/${project.orgSlug}/${project.slug}/repositories/${repository.name}`,
  };
}

/** Makes the comment, or edits it; with `mayMake` false only the latter. Does nothing where the connection may not. */
export async function publishComment(publication: PlanPublication, text: PullText, mayMake: boolean): Promise<void> {
  if (!publication.wants('comment')) return;
  try {
    const known = publication.row.commentId ?? (await findComment(publication));
    if (known !== null) {
      if (await editComment(publication, known, text)) return;
      const other = await findComment(publication);
      if (other !== null && other !== known && (await editComment(publication, other, text))) return;
    }
    if (mayMake) await makeComment(publication, text);
  } catch (error) {
    if (!(error instanceof Fault) || error.code !== 'permission-missing') throw error;
    publication.hub.ctx.runtime.log.info({ repository: publication.hub.repository.name }, 'plan.comment_not_permitted');
  }
}

/** The oldest comment that is ours: people may copy a marker, but not the author. */
async function findComment(publication: PlanPublication): Promise<string | null> {
  const { hub, row } = publication;
  const codehost = codehostCallOf(hub, row.fullName, permissions);
  const marker = planMarker(hub.repository.id);
  const ours: { readonly id: string; readonly call: string | null }[] = [];
  for (let page: number | undefined = 1; page !== undefined && page <= commentPages; ) {
    const path = `/issues/${row.number}/comments`;
    const { json, nextPage } = await codehost.read({ path, query: { per_page: 100, page } });
    for (const one of listAt(json).map(objectAt)) {
      const id = idAt(one['id']);
      const body = textAt(one['body']) ?? '';
      if (id !== undefined && body.startsWith(marker) && isOurs(hub, one)) {
        ours.push({ id, call: /<!-- svc:call=([0-9a-f-]{36}) -->\s*$/.exec(body)?.[1] ?? null });
      }
    }
    page = nextPage;
  }
  const [first] = ours.toSorted((a, b) => Number(BigInt(a.id) - BigInt(b.id)));
  if (first === undefined) return null;
  await publication.save({ commentCall: first.call });
  return first.id;
}

function isOurs({ connection }: Hub, comment: JsonObject): boolean {
  const user = objectAt(comment['user']);
  const login = textAt(user['login']);
  const { botLogin, appId } = connection.config;
  const own = textAt(botLogin);
  if (own !== undefined) return login !== undefined && isBotLogin(login, own);
  const app = idAt(objectAt(comment['performed_via_github_app'])['id']);
  return app === undefined ? user['type'] === 'Bot' : app === idAt(appId);
}

const callMark = (call: string): string => `<!-- svc:call=${call} -->`;

async function makeComment(publication: PlanPublication, text: PullText): Promise<void> {
  const { hub, row } = publication;
  const body = commentText(text, whereOf(hub));
  const path = `/issues/${row.number}/comments`;
  const key = publication.keyOf('comment', digestOf(body));
  const of = { alias: 'plan', tool: 'add_issue_comment', key, fullName: row.fullName, permissions } as const;
  let call: string | null = null;
  const made = await writeOnce(hub, { ...of, input: digestOf(body) }, (codehost) => {
    call = codehost.callId;
    return codehost.write(
      { method: 'POST', path, body: { body: `${body}\n${callMark(call)}` } },
      {
        probe: { kind: 'marked', path, since: new Date(codehost.now.getTime() - 60_000).toISOString(), answer: 'id' },
        shape: idAndUrl,
      },
    );
  });
  await publication.save({
    commentId: idAt(made['id']) ?? null,
    commentCall: call,
    sequence: publication.row.sequence + 1,
  });
}

/** False where it is not there any more. */
async function editComment(publication: PlanPublication, id: string, text: PullText): Promise<boolean> {
  const { hub, row } = publication;
  const plain = commentText(text, whereOf(hub));
  // Without it a daemon that looks for the comment that was made would take it for lost.
  const body = row.commentCall === null ? plain : `${plain}\n${callMark(row.commentCall)}`;
  const path = `/issues/comments/${id}`;
  const key = publication.keyOf(`comment=${id}`, digestOf(body));
  const of = { alias: 'plan', tool: 'update_issue_comment', key, fullName: row.fullName, permissions } as const;
  try {
    await writeOnce(hub, { ...of, input: digestOf(body) }, (codehost) =>
      codehost.write(
        { method: 'PATCH', path, body: { body } },
        { probe: { kind: 'fields', path, wanted: { body: digestOf(body) }, answer: 'id' }, shape: idAndUrl },
      ),
    );
  } catch (error) {
    if (!(error instanceof Fault) || error.code !== 'not-found') throw error;
    await publication.save({ commentId: null, sequence: publication.row.sequence + 1 });
    return false;
  }
  await publication.save({ commentId: id, sequence: publication.row.sequence + 1 });
  return true;
}
