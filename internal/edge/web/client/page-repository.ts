// One repository: is git what runs, is anything held, when is the next look, who set a commit aside and why.

import { useRef } from 'preact/hooks';
import type { AuditEntry } from '../../../../schemas/api/audit.ts';
import type { Run } from '../../../../schemas/api/reconciles.ts';
import type { Repository } from '../../../../schemas/api/repositories.ts';
import { Action } from './action.ts';
import { call } from './api.ts';
import { shell } from './command.ts';
import { asked, because } from './dry-run.ts';
import { Facts } from './detail.ts';
import { capital, Command, Empty, Failure, html, kindOf, type Markup, Reading, Status, Time, useRead } from './kit.ts';
import { useDue, useLive } from './live.ts';
import { stateOf } from './page-repositories.ts';
import { aboutText, runColumns } from './page-reconciles.ts';
import { navigate, pageHref, type PageProps, type Place } from './pages.ts';

const cut = (commit: string | null): Markup | undefined =>
  commit === null
    ? undefined
    : html`<code title=${commit}>${commit.slice(0, commit.startsWith('folder:') ? 19 : 12)}</code>`;

function Actions(props: { readonly place: Place; readonly one: Repository; readonly again: () => void }): Markup {
  const { place, one, again } = props;
  const path = `${place.api}/repositories/${encodeURIComponent(one.name)}`;
  const post =
    (verb: string, body?: object) =>
    async (reason?: string): Promise<void> => {
      await call('POST', `${path}/${verb}`, { body: { ...body, ...(reason !== undefined && { reason }) } });
      again();
    };
  const resumeAndSync = async (): Promise<void> => {
    await call('POST', `${path}/resume`, { body: {} });
    await call('POST', `${path}/sync`);
    again();
  };
  const sync = async (): Promise<void> => {
    await call('POST', `${path}/sync`);
    again();
  };
  const remove = async (reason?: string): Promise<void> => {
    await call('DELETE', path, because(reason));
    navigate(pageHref(place, 'repositories'));
  };
  // What was said of one commit is done to that one, whatever has been applied since.
  const meant = useRef<string | undefined>(undefined);
  const rollBack = (reason?: string): Promise<void> =>
    post('rollback', meant.current === undefined ? {} : { commit: meant.current })(reason);
  const given = { place, needs: 'repositories:sync' };
  const why = (title: string, text: string) => ({ title, consequence: async () => text, withReason: true });
  return html`<div class="actions">
    ${
      one.suspended
        ? html`<${Action} ...${given} label="Resume and sync" testId="resume" primary=${true} command=${shell`svc repo resume ${one.name}`} run=${resumeAndSync} />`
        : html`<${Action} ...${given} label="Sync" testId="sync" primary=${true} command=${shell`svc repo sync ${one.name}`} run=${sync} />`
    }
    ${one.suspended ? null : html`<${Action} ...${given} label="Suspend" testId="suspend" command=${shell`svc repo suspend ${one.name}`} run=${post('suspend')} confirm=${{ ...why(`Suspend ${one.name}`, 'No push and no poll is followed until it is resumed. A run under way is superseded; what runs keeps running.'), isMild: true }} />`}
    ${one.status === 'held' && one.lastReconcile !== null ? html`<a class="button" href=${pageHref(place, 'reconciles', one.lastReconcile.id)}>Review what is held</a>` : null}
    ${one.pinnedCommit === null ? html`<${Action} ...${given} label="Roll back" testId="rollback" command=${shell`svc repo rollback ${one.name}`} run=${rollBack} confirm=${asked(`Roll ${one.name} back`, 'POST', `${path}/rollback`, {}, ({ commit }) => (meant.current = commit))} />` : html`<${Action} ...${given} label="Unpin" testId="unpin" command=${shell`svc repo unpin ${one.name}`} run=${post('unpin')} />`}
    ${one.quarantinedCommit === null ? null : html`<${Action} ...${given} label="Release" testId="release" command=${shell`svc repo release ${one.name}`} run=${post('release', {})} confirm=${{ ...why(`Release ${one.quarantinedCommit.slice(0, 12)}`, 'The commit that was set aside is synced again.'), isMild: true }} />`}
    <${Action} place=${place} needs="repositories:write" label="Remove" testId="delete" command=${shell`svc repo remove ${one.name}`} run=${remove}
      confirm=${asked(`Remove ${one.name}`, 'DELETE', path)} /></div>`;
}

/** Who last did something to it, and why, for those who may read the audit. */
function Who(props: { readonly place: Place; readonly name: string; readonly version: string }): Markup | null {
  const { place, name } = props;
  const isAllowed = place.permissions.includes('audit:read');
  const path = `${place.api}/audit?limit=50&subject=${encodeURIComponent(name)}`;
  const { value } = useRead(
    async (signal) => (isAllowed ? (await call<{ items: readonly AuditEntry[] }>('GET', path, { signal })).items : []),
    `${path} ${props.version}`,
  );
  const acts = (value ?? [])
    .filter(({ action }) =>
      /^repository\.(rolled_back|suspended|resumed|approved|released|pinned|unpinned)$/.test(action),
    )
    .slice(0, 5);
  if (acts.length === 0) return null;
  return html`<div><h2>Who did what</h2><ul>${acts.map(
    ({ at, principal, action, detail }) =>
      html`<li><${Time} at=${at} /> ${principal.name} ${action.replace('repository.', '').replaceAll('_', ' ')}${typeof detail['reason'] === 'string' ? html`: <q>${detail['reason']}</q>` : null}</li>`,
  )}</ul></div>`;
}

/** Whether git is what runs, as far as that is known: of what cannot be read it is told as it was. */
function InSync({ one, isSame }: { readonly one: Repository; readonly isSame: boolean }): Markup {
  if (one.seenCommit === null) return html`<${Status} kind="wait" text="What git has was not read yet." />`;
  if (!isSame) return html`<${Status} kind="wait" text="What git has is not what runs." />`;
  return one.condition === null
    ? html`<${Status} kind="good" text="What git has is what runs." />`
    : html`<${Status} kind="wait" text="What git had when it was last read is what runs." />`;
}

export function Page({ place, id }: PageProps): Markup {
  const path = `${place.api}/repositories/${encodeURIComponent(id)}`;
  const read = useRead((signal) => call<Repository>('GET', path, { signal }), path);
  const runsPath = `${place.api}/reconciles?view=row&limit=10&repository=${encodeURIComponent(id)}`;
  const runs = useRead((signal) => call<{ items: readonly Run[] }>('GET', runsPath, { signal }), runsPath);
  const again = (): void => {
    read.again();
    runs.again();
  };
  useLive(['reconciles'], again);
  const one = read.value;
  // A look that finds nothing new is told by nobody.
  const nextPollAt = one === undefined || one.suspended ? null : one.nextPollAt;
  useDue(nextPollAt === null ? Number.POSITIVE_INFINITY : Date.parse(nextPollAt), read.again);
  const isSame = one !== undefined && one.appliedCommit !== null && one.appliedCommit === one.seenCommit;
  /** A commit with what it says of itself, where one of the runs below knows it. */
  const withAbout = (commit: string | null): Markup | undefined => {
    const run = commit === null ? undefined : runs.value?.items.find((each) => each.commit === commit);
    return commit === null ? undefined : html`<span>${cut(commit)} ${run === undefined ? '' : aboutText(run)}</span>`;
  };
  return html`<section data-testid="page-repository">
    <div class="title"><h1>${id}</h1>${one === undefined ? null : html`<${Status} kind=${one.condition === null ? kindOf(stateOf(one)) : 'bad'} text=${stateOf(one)} />`}<${Command} command=${shell`svc repo show ${id}`} /></div>
    ${read.error === undefined ? null : html`<${Failure} error=${read.error} />`}
    ${
      one === undefined
        ? html`<${Reading} error=${read.error} />`
        : html`<div>
      <p data-testid="in-sync"><${InSync} one=${one} isSame=${isSame} /></p>
      <${Facts} of=${[
        ['runs', withAbout(one.appliedCommit)],
        ['git has', isSame ? undefined : withAbout(one.seenCommit)],
        ['set aside', cut(one.quarantinedCommit)],
        ['pinned at', cut(one.pinnedCommit)],
        [
          'cannot be read',
          one.condition === null
            ? undefined
            : `${one.condition}: ${one.conditionDetail ?? ''} (${one.failures} in a row)`,
        ],
        [
          'next look',
          one.nextPollAt === null || one.suspended
            ? undefined
            : Date.parse(one.nextPollAt) <= Date.now()
              ? 'now'
              : html`<${Time} at=${one.nextPollAt} />`,
        ],
        [
          'source',
          `${one.url ?? one.path ?? ''}${one.branch === null ? '' : ` ${one.branch}`}${one.root === '' || one.root === '.' ? '' : ` in ${one.root}`}`,
        ],
        ['agents', one.agents],
        ['applied', one.appliedAt === null ? undefined : html`<${Time} at=${one.appliedAt} />`],
      ]} />
      <${Actions} place=${place} one=${one} again=${again} />
      <h2><a href=${`${pageHref(place, 'reconciles')}?repository=${encodeURIComponent(id)}`}>Runs</a></h2>
      ${
        (runs.value?.items ?? []).length === 0
          ? html`<${Empty} text="No run yet." />`
          : html`<div class="scroll" role="region" aria-label="Runs" tabIndex=${0}><table aria-label="Runs"><thead><tr>${runColumns.slice(1).map(({ title }) => html`<th scope="col">${capital(title)}</th>`)}</tr></thead>
          <tbody>${(runs.value?.items ?? []).map((run) => html`<tr data-testid=${`row-reconcile-${run.id}`} data-row tabIndex=${-1}>${runColumns.slice(1).map(({ cell }, index) => html`<td>${index === 0 ? html`<a href=${pageHref(place, 'reconciles', run.id)}>${cell(run, place)}</a>` : cell(run, place)}</td>`)}</tr>`)}</tbody></table></div>`
      }
      <${Who} place=${place} name=${id} version=${one.updatedAt} /></div>`
    }</section>`;
}
