// One run: what the push changed, where the mistake is, what follows.

import type { Action as ResourceAction, Diagnostic } from '../../../../schemas/api/common.ts';
import type {
  Consequences,
  EventImpact,
  ImpactCount,
  ScheduleConsequence,
  Stage,
  WholeRun,
} from '../../../../schemas/api/reconciles.ts';
import { Action } from './action.ts';
import { call } from './api.ts';
import { shell } from './command.ts';
import { Changes, Facts, Json, Mistake, partOf, Portion, Tabs } from './detail.ts';
import { Command, duration, Empty, Failure, html, kindOf, type Markup, Reading, Status, Time, useRead } from './kit.ts';
import { useLive } from './live.ts';
import { pageHref, type PageProps, type Place } from './pages.ts';
import { aboutText, tookText } from './page-reconciles.ts';

/** The stages as bars of their time; the same as words below it. */
function Stages(props: { readonly stages: readonly Stage[] }): Markup {
  const { stages } = props;
  const total = Math.max(
    1,
    stages.reduce((sum, { ms }) => sum + ms, 0),
  );
  let x = 0;
  const bars = stages.map(({ name, ms }, index) => {
    const width = Math.max(1, (ms / total) * 996);
    const bar = html`<rect class=${`stage-${index % 6}`} x=${x} y="0" width=${width} height="14"><title>${name}</title></rect>`;
    x += width + 1;
    return bar;
  });
  return html`<div><svg class="stages" viewBox="0 0 1000 14" preserveAspectRatio="none" role="img" aria-label=${`Stages: ${stages.map(({ name, ms }) => `${name} ${Math.round(ms)} ms`).join(', ')}`}>${bars}</svg>
    <ol class="stages">${stages.map(({ name, ms }, index) => html`<li data-testid="run-stage"><span class=${`key stage-${index % 6}`} aria-hidden="true"></span>${name} ${duration(ms)}</li>`)}</ol></div>`;
}

const signs = { create: '+', update: '~', delete: '−', unchanged: '=' } as const;

function ChangesOf(props: {
  readonly place: Place;
  readonly actions: readonly ResourceAction[];
  readonly origins: WholeRun['origins'];
}): Markup {
  const { place, origins = {} } = props;
  const changed = props.actions.filter(({ op }) => op !== 'unchanged');
  const same = props.actions.length - changed.length;
  return html`<div>${changed.length === 0 ? html`<${Empty} text="Nothing changed." />` : null}
    <${Portion} of=${changed} draw=${(first: readonly ResourceAction[]) =>
      first.map(
        ({
          op,
          kind,
          name,
          changes,
        }) => html`<details class="change" data-testid="run-change" data-op=${op} open=${changed.length <= 3}>
      <summary><span aria-hidden="true">${signs[op]}</span> ${op} ${kind} ${name}</summary>
      ${kind === 'Agent' && op !== 'delete' ? html`<p><a href=${pageHref(place, 'agents', name)}>agent ${name}</a></p>` : null}
      ${changes.length === 0 ? null : html`<${Changes} label=${`Changes of ${name}`} changes=${changes} origins=${origins[name]} />`}</details>`,
      )} />
    ${same > 0 ? html`<p class="empty">${same} stay${same === 1 ? 's' : ''} as ${same === 1 ? 'it is' : 'they are'}.</p>` : null}</div>`;
}

/** What a change of triggers does to the events of the last days, where no trigger meets them otherwise. */
function sameText({ events, triggers, truncated, reason }: EventImpact): string | undefined {
  if (reason !== undefined) return `were not matched again: ${reason}.`;
  if (triggers.length > 0) return undefined;
  if (events === 0) return 'have none on the keys of changed triggers.';
  return `on the keys of changed triggers match as before (${truncated ? 'the newest ' : ''}${events} matched again).`;
}

/** In a line each, under the changes: the first triggers that stored events meet otherwise, and where all are. */
function ImpactLines(props: { readonly place: Place; readonly id: string; readonly impact: EventImpact }): Markup {
  const { place, id, impact } = props;
  const same = sameText(impact);
  const shown = impact.triggers.slice(0, 3);
  const list = html`<a href=${`${pageHref(place, 'reconciles', id)}?tab=consequences`} data-testid="impact-list">list</a>`;
  return html`<div data-testid="impact" class="impact">${same === undefined ? null : html`<p>7 days of events ${same}</p>`}
    ${shown.map(({ agent, ordinal, newly, stopped }, at) => html`<p>7 days of events, ${agent} trigger ${ordinal}: ${newly.count} newly match, ${stopped.count} stop ${at === 0 ? list : null}</p>`)}</div>`;
}

function Impact(props: { readonly place: Place; readonly impact: EventImpact }): Markup {
  const { place, impact } = props;
  const ids = ({ count, eventIds }: ImpactCount) =>
    html`${eventIds.map(
      (id) => html` <a href=${pageHref(place, 'events', id)}>${id.slice(0, 13)}</a>`,
    )}${count > eventIds.length ? ' …' : ''}`;
  const same = sameText(impact);
  return html`<div><h2>7 days of events</h2>
    <p>${same === undefined ? html`${impact.truncated ? 'The newest ' : ''}${impact.events} on the keys of changed triggers were matched again, from <${Time} at=${impact.since} /> on.` : `7 days of events ${same}`}</p>
    <ul>${impact.triggers.map(({ agent, ordinal, event, newly, stopped }) => html`<li>${agent} trigger ${ordinal} on <code>${event}</code>: ${newly.count} newly match${ids(newly)}, ${stopped.count} stop${ids(stopped)}</li>`)}</ul></div>`;
}

interface Line {
  readonly text: string;
  /** Of a schedule, when it fires next. */
  readonly next?: string | undefined;
}

/** What follows beyond the changes, a line each. */
function linesOf({ schedules, endpoints, triggers, sessions }: Consequences): readonly Line[] {
  const schedule = (sign: string, one: ScheduleConsequence, was = ''): Line => ({
    text: `${sign} schedule ${one.agent}#${one.ordinal} ${was}${one.cron} ${one.timezone}${sign === '−' ? ' goes' : ''}`,
    next: one.next[0],
  });
  const texts = [
    ...(endpoints?.gained ?? []).map((name) => `+ endpoint ${name}`),
    ...(endpoints?.lost ?? []).map((name) => `− endpoint ${name} goes`),
    ...(triggers?.activated ?? []).map((one) => `+ trigger ${one.agent}#${one.ordinal} ${one.event} becomes active`),
    ...(triggers?.skipped ?? []).map((one) => `− trigger ${one.agent}#${one.ordinal} ${one.event} is skipped`),
    ...(sessions?.kept ?? []).map(
      (one) => `= ${live(one.count)} of ${one.agent} keep${one.count === 1 ? 's' : ''} r${one.revision}`,
    ),
    ...(sessions?.archived ?? []).map(
      (one) => `− ${live(one.count)} of ${one.agent} r${one.revision} ${one.count === 1 ? 'is' : 'are'} archived`,
    ),
  ];
  return [
    ...(schedules?.gained ?? []).map((one) => schedule('+', one)),
    ...(schedules?.changed ?? []).map((one) => schedule('~', one, `${one.from?.cron ?? ''} → `)),
    ...(schedules?.lost ?? []).map((one) => schedule('−', one)),
    ...texts.map((text) => ({ text })),
  ];
}

const live = (count: number): string => `${count} live session${count === 1 ? '' : 's'}`;

/** How many things follow: the lines, and each trigger that the events of the last days meet otherwise. */
const consequenceCount = (consequences: Consequences): number =>
  linesOf(consequences).length + (consequences.eventImpact?.triggers.length ?? 0);

function Follows(props: { readonly place: Place; readonly consequences: Consequences }): Markup {
  const { eventImpact } = props.consequences;
  const lines = linesOf(props.consequences);
  return html`<div>${lines.length === 0 && eventImpact === undefined ? html`<${Empty} text="Nothing follows beyond the changes." />` : null}
    <${Portion} of=${lines} draw=${(first: readonly Line[]) => html`<ul>${first.map(({ text, next }) => html`<li data-testid="consequence">${text}${next === undefined ? null : html`, next <${Time} at=${next} />`}</li>`)}</ul>`} />
    ${eventImpact === undefined ? null : html`<${Impact} place=${props.place} impact=${eventImpact} />`}</div>`;
}

/** What approving does, in the words of the plan that is held. */
function consequenceOf(run: WholeRun): Markup {
  const by = (op: string): string[] =>
    run.actions.filter((one) => one.op === op).map(({ name, kind }) => `${kind} ${name}`);
  const [created, updated, deleted] = [by('create'), by('update'), by('delete')];
  const some = (names: readonly string[]): string =>
    `${names.slice(0, 10).join(', ')}${names.length > 10 ? ` and ${names.length - 10} more` : ''}`;
  return html`<div><p>The plan of this run is applied: ${created.length} created, ${updated.length} changed, ${deleted.length} deleted.</p>
    ${deleted.length === 0 ? null : html`<p><strong>Deleted:</strong> ${some(deleted)}</p>`}</div>`;
}

function Body(props: PageProps & { readonly run: WholeRun; readonly again: () => void }): Markup {
  const { place, run, query, again } = props;
  const path = run.repository === null ? '' : `${place.api}/repositories/${encodeURIComponent(run.repository)}`;
  const mistakes = run.diagnostics.length;
  const impact = run.consequences.eventImpact;
  const first = run.status === 'failed' && mistakes > 0 ? 'mistakes' : 'changes';
  const shown = partOf(query, ['changes', 'mistakes', 'consequences', 'inputs'], first);
  const approve = async (reason?: string): Promise<void> => {
    await call('POST', `${path}/approve`, { body: { reconcileId: run.id, ...(reason !== undefined && { reason }) } });
    again();
  };
  const counted = run.actions.filter(({ op }) => op !== 'unchanged').length;
  return html`<div>
    <${Facts} of=${[
      [
        'commit',
        run.commit === null
          ? undefined
          : html`<span><code title=${run.commit}>${run.commit.slice(0, run.commit.startsWith('folder:') ? 19 : 12)}</code> ${aboutText(run)}</span>`,
      ],
      ['started', html`<${Time} at=${run.startedAt} />`],
      ['condition', run.condition],
      ['detail', run.detail],
    ]} />
    ${
      run.status === 'held' && run.repository !== null
        ? html`<div class="actions"><${Action} place=${place} label="Approve" testId="approve" needs="repositories:sync" command=${shell`svc repo approve ${run.repository} ${run.id}`} run=${approve}
        confirm=${{ title: `Apply what ${run.repository} holds`, consequence: async () => consequenceOf(run), withReason: true }} /></div>`
        : null
    }
    <${Stages} stages=${run.stages} />
    <${Tabs} shown=${shown} tabs=${[
      ['changes', `Changes ${counted}`],
      ['mistakes', `Mistakes ${mistakes}`],
      ['consequences', `Consequences ${consequenceCount(run.consequences)}`],
      ['inputs', 'Inputs'],
    ]}>
      ${shown === 'changes' ? html`<${ChangesOf} place=${place} actions=${run.actions} origins=${run.origins} />` : null}
      ${shown === 'changes' && impact !== undefined ? html`<${ImpactLines} place=${place} id=${run.id} impact=${impact} />` : null}
      ${shown === 'mistakes' ? html`<div>${mistakes === 0 ? html`<${Empty} text="No mistake." />` : html`<${Portion} of=${[...run.diagnostics].sort((a, b) => a.severity.localeCompare(b.severity))} draw=${(first: readonly Diagnostic[]) => first.map((one) => html`<${Mistake} one=${one} />`)} />`}</div>` : null}
      ${shown === 'consequences' ? html`<${Follows} place=${place} consequences=${run.consequences} />` : null}
      ${shown === 'inputs' ? html`<${Json} value=${run.inputs} label="Inputs" />` : null}
    <//></div>`;
}

/** Of what it is, who brought it, how it ended and how long it took. */
function Of(props: { readonly place: Place; readonly run: WholeRun }): Markup {
  const { place, run } = props;
  const { repository, commit, reason, act, commitAuthor = '' } = run;
  const by = `${act === undefined ? reason : `${reason} (${act})`}${commitAuthor === '' ? '' : ` by ${commitAuthor}`}`;
  const at = commit === null ? '' : `@${commit.slice(0, commit.startsWith('folder:') ? 14 : 7)}`;
  return html`<span class="of">${repository === null ? 'applied by hand' : html`<a href=${pageHref(place, 'repositories', repository)}>${repository}</a>`}
    ${at === '' ? null : html`<code title=${commit}>${at}</code>`} ${repository === null ? null : html`<span data-testid="run-by">${by}</span>`}
    <${Status} kind=${kindOf(run.status)} text=${run.status} /> <span>${tookText(run)}</span></span>`;
}

export function Page(props: PageProps): Markup {
  const { place, id } = props;
  const path = `${place.api}/reconciles/${encodeURIComponent(id)}`;
  const {
    value: run,
    error,
    again,
  } = useRead((signal) => call<WholeRun>('GET', `${path}?origins=true`, { signal }), path);
  useLive(['reconciles'], again, (change) => change.id === id);
  return html`<section data-testid="page-reconcile">
    <div class="title"><h1>Run ${id.slice(0, 13)}</h1>${run === undefined ? null : html`<${Of} place=${place} run=${run} />`}<${Command} command=${shell`svc reconcile show ${id}`} /></div>
    ${error === undefined ? null : html`<${Failure} error=${error} />`}
    ${run === undefined ? html`<${Reading} error=${error} />` : html`<${Body} ...${props} run=${run} again=${again} />`}</section>`;
}
