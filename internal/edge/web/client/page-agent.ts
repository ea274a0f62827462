// One agent: what it is, which layer says so, what differs between any two of its revisions, what wakes it, what it costs.

import type { Agent, AgentIdentity, AgentRevision, Origin } from '../../../../schemas/api/agents.ts';
import type { Spending } from '../../../../schemas/api/common.ts';
import type { Session } from '../../../../schemas/api/sessions.ts';
import type { Trigger } from '../../../../schemas/api/triggers.ts';
import { useState } from 'preact/hooks';
import { Action, useOnce } from './action.ts';
import { AgentWorld, type WorldSpec } from './agent-world.ts';
import { call } from './api.ts';
import { shell } from './command.ts';
import { asked, because } from './dry-run.ts';
import { Changes, Facts, partOf, Tabs, valueText } from './detail.ts';
import {
  Command,
  type Content,
  Copy,
  Dialog,
  Empty,
  Failure,
  Field,
  html,
  kindOf,
  type Markup,
  Reading,
  Status,
  Time,
  useRead,
} from './kit.ts';
import { type List, ListPart, timeCell } from './list.ts';
import { useLive } from './live.ts';
import { sumUsd } from './numbers.ts';
import { sessionColumns } from './page-sessions.ts';
import { navigate, pageHref, type PageProps, type Place, setQuery } from './pages.ts';

interface Value {
  readonly path: string;
  readonly value: unknown;
}

const first = ['harness', 'model', 'systemPrompt', 'initialPrompt', 'environment', 'identity', 'triggers'];
/** The values of a spec by their paths, as far down as they are still of one line. */
function valuesOf(spec: unknown): Value[] {
  const found: Value[] = [];
  const walk = (value: unknown, path: string): void => {
    const isObject = typeof value === 'object' && value !== null;
    const isSmall = !isObject || JSON.stringify(value).length <= 60 || path.split('.').length > 4;
    if (path !== '' && isSmall) found.push({ path, value });
    else if (Array.isArray(value)) value.forEach((one, index) => walk(one, `${path}[${index}]`));
    else if (isObject)
      for (const [key, one] of Object.entries(value)) {
        const step = /^[A-Za-z_][A-Za-z0-9_-]*$/.test(key)
          ? path === ''
            ? key
            : `${path}.${key}`
          : `${path}[${JSON.stringify(key)}]`;
        walk(one, step);
      }
  };
  walk(spec, '');
  // What it is comes before what it has.
  const rank = (path: string): number => {
    const at = first.indexOf(/^[A-Za-z]+/.exec(path)?.[0] ?? '');
    return at === -1 ? first.length : at;
  };
  return found.sort((a, b) => rank(a.path) - rank(b.path));
}

/** The layer that a value comes from, and the place; of a value that holds others, of itself. */
function From({ origin }: { readonly origin: Origin | undefined }): Markup {
  if (origin === undefined) return html`<td colspan="2">–</td>`;
  const { layer, file, line } = origin;
  return html`<td data-testid="origin" data-layer=${layer}>${layer}</td><td>${file === null ? '' : html`<code>${file.replace(/^\.svc\//, '')}${line === null ? '' : `:${line}`}</code>`}</td>`;
}

function Spec(props: { readonly agent: Agent }): Markup {
  const { origins } = props.agent;
  return html`<div>${origins === null ? html`<p class="notice">Where its values come from is not kept: it was applied before that was. The next apply tells it.</p>` : null}
    <div class="scroll" role="region" aria-label="Spec" tabIndex=${0}><table aria-label="Spec" class="spec">
    <thead><tr><th scope="col">Path</th><th scope="col">Value</th><th scope="col">Layer</th><th scope="col">Place</th></tr></thead>
    <tbody>${valuesOf(props.agent.spec).map(
      ({ path, value }) =>
        html`<tr data-testid=${`value-${path}`}><td><code>${path}</code></td><td class="value"><pre>${valueText(value)}</pre></td><${From} origin=${origins?.[path]} /></tr>`,
    )}</tbody></table></div></div>`;
}

/** Revisions that can be chosen: the newest, and what the address names beside them. */
const choiceMost = 50;

/** Any two revisions, chosen at the end of the line of tabs; choosing shows how they differ. */
function Chooser(props: { readonly query: URLSearchParams; readonly revision: number }): Markup {
  const { a, b } = comparedIn(props.query, props.revision);
  const newest = Array.from({ length: Math.min(choiceMost, props.revision) }, (_, index) => props.revision - index);
  const of = [...new Set([...newest, a, b])].sort((one, other) => other - one);
  const select = (field: 'a' | 'b', label: string, value: number): Markup => {
    const change = (event: Event): void => {
      const chosen = (event.currentTarget as HTMLSelectElement).value;
      setQuery({ a: String(a), b: String(b), [field]: chosen, tab: 'revisions' }, { replace: true });
    };
    return html`<select aria-label=${label} data-testid=${`compare-${field}`} value=${String(value)} onChange=${change}>
      ${of.map((one) => html`<option value=${String(one)} selected=${one === value}>r${one}</option>`)}</select>`;
  };
  return html`<span>compare ${select('a', 'Compare', a)} ${select('b', 'with', b)}</span>`;
}

/** The two that the address names, else the newest and the one before it. */
function comparedIn(query: URLSearchParams, revision: number): { readonly a: number; readonly b: number } {
  const b = Number(query.get('b') ?? revision);
  return { a: Number(query.get('a') ?? Math.max(1, b - 1)), b };
}

function Compare(props: {
  readonly place: Place;
  readonly name: string;
  readonly a: number;
  readonly b: number;
}): Markup {
  const { place, name, a, b } = props;
  const path = `${place.api}/agents/${encodeURIComponent(name)}/revisions/${a}/diff/${b}`;
  type Diff = { readonly changes: readonly { readonly path: string; readonly from: unknown; readonly to: unknown }[] };
  const { value, error } = useRead((signal) => call<Diff>('GET', path, { signal }), path);
  if (error !== undefined) return html`<${Failure} error=${error} />`;
  if (value === undefined) return html`<p class="empty">Reading…</p>`;
  return value.changes.length === 0
    ? html`<${Empty} text="They are the same." />`
    : html`<${Changes} label=${`r${a} to r${b}`} changes=${value.changes} />`;
}

function Revisions(props: PageProps & { readonly agent: Agent }): Markup {
  const { place, id, query, agent } = props;
  const path = `${place.api}/agents/${encodeURIComponent(id)}/revisions?view=row&limit=50`;
  const { value, error } = useRead(
    (signal) => call<{ items: readonly AgentRevision[]; nextCursor: string | null }>('GET', path, { signal }),
    `${path} ${agent.revision}`,
  );
  const all = value?.items ?? [];
  const { a, b } = comparedIn(query, agent.revision);
  return html`<div>${error === undefined ? null : html`<${Failure} error=${error} />`}
    ${
      agent.revision < 2
        ? html`<p class="empty">There is one revision.</p>`
        : html`<div><p>From r${a} to r${b} <${Command} command=${shell`svc agent diff ${id} ${a} ${b}`} /></p><${Compare} place=${place} name=${id} a=${a} b=${b} /></div>`
    }
    <h2>All revisions</h2>
    <div class="scroll" role="region" aria-label="Revisions" tabIndex=${0}><table aria-label="Revisions"><thead><tr><th scope="col">Revision</th><th scope="col">Applied</th><th scope="col">Commit</th><th scope="col">Run</th></tr></thead>
      <tbody>${all.map(
        (
          one,
        ) => html`<tr data-testid=${`row-revision-${one.revision}`} data-row tabIndex=${-1}><td>r${one.revision}</td><td>${timeCell(one.createdAt)}</td><td><code>${one.commit?.slice(0, 14) ?? '–'}</code></td>
        <td>${one.reconcileId === null ? '–' : html`<a href=${pageHref(place, 'reconciles', one.reconcileId)}>${one.reconcileId.slice(0, 13)}</a>`}</td></tr>`,
      )}</tbody></table></div>
    ${value?.nextCursor == null ? null : html`<p>There are older ones: <${Command} command=${shell`svc agent history ${id}`} /></p>`}</div>`;
}

/** What wakes it, each with how it stands, and its world as a picture. */
function World(props: { readonly place: Place; readonly agent: Agent }): Markup {
  const { place, agent } = props;
  const path = `${place.api}/triggers?limit=200&agent=${encodeURIComponent(agent.name)}`;
  const read = useRead(
    (signal) => call<{ items: readonly Trigger[]; nextCursor: string | null }>('GET', path, { signal }),
    path,
  );
  useLive(['agents'], read.again, (change) => change.id === agent.name);
  if (read.value === undefined)
    return read.error === undefined ? html`<p class="empty">Reading…</p>` : html`<${Failure} error=${read.error} />`;
  const triggers = read.value.items;
  return html`<div><h2>Woken by</h2>${
    triggers.length === 0
      ? html`<${Empty} text="Nothing: it is started by hand." command=${shell`svc agent start ${agent.name}`} />`
      : html`<ul>${triggers.map(
          (
            one,
          ) => html`<li data-testid=${`row-trigger-${one.agent}-${one.ordinal}`} data-row tabIndex=${-1}><a href=${pageHref(place, 'triggers', `${one.agent}-${one.ordinal}`)}>#${one.ordinal}</a> <code>${one.cron ?? one.event}</code> ${one.endpoint === undefined ? null : html`by <a href=${pageHref(place, 'endpoints', one.endpoint)}>${one.endpoint}</a>`}
      ${one.connection === undefined ? null : html` by <a href=${pageHref(place, 'connections')}>${one.connection}</a>`} <${Status} kind=${kindOf(one.status)} text=${one.status} /></li>`,
        )}</ul>`
  }
    ${read.value.nextCursor === null ? null : html`<p>There are more: <${Command} command=${shell`svc trigger list --agent ${agent.name}`} /></p>`}
    <h2>World</h2><${AgentWorld} name=${agent.name} place=${place} spec=${agent.spec as WorldSpec} triggers=${triggers} /></div>`;
}

function Start(props: { readonly place: Place; readonly name: string }): Markup {
  const { place, name } = props;
  const [isOpen, setOpen] = useState(false);
  const [text, setText] = useState('');
  const [error, setError] = useState<unknown>(undefined);
  const isAllowed = place.permissions.includes('agents:start');
  const command = text === '' ? shell`svc agent start ${name}` : shell`svc agent start ${name} --message ${text}`;
  const { busy, run } = useOnce(async () => {
    setError(undefined);
    try {
      const made = await call<{ id: string }>('POST', `${place.api}/agents/${encodeURIComponent(name)}/sessions`, {
        body: text === '' ? {} : { message: text },
      });
      navigate(pageHref(place, 'sessions', made.id));
    } catch (caught) {
      setError(caught);
    }
  });
  const start = (event: Event): void => {
    event.preventDefault();
    void run();
  };
  // What was typed stays; what was refused is no news.
  const open = (): void => {
    setError(undefined);
    setOpen(true);
  };
  return html`<span class="action"><button type="button" class="primary" data-testid="start" disabled=${!isAllowed} onClick=${open}>Start</button>
    ${isAllowed ? html`<${Copy} text=${command} label="svc" />` : html`<small>needs agents:start</small>`}
    ${
      isOpen
        ? html`<${Dialog} title=${`Start ${name}`} testId="start-dialog" onClose=${() => setOpen(false)}><form onSubmit=${start}>
      <${Field} label="Message" hint="Empty: its own initial prompt."><textarea rows=${3} data-testid="start-message" value=${text} onInput=${(event: Event) => setText((event.currentTarget as HTMLTextAreaElement).value)}></textarea><//>
      ${error === undefined ? null : html`<${Failure} error=${error} />`}<p><${Command} command=${command} /></p>
      <p class="buttons"><button type="button" onClick=${() => setOpen(false)}>Cancel</button><button type="submit" class="primary" data-testid="confirm" aria-disabled=${busy ? 'true' : undefined} aria-busy=${busy}>Start</button></p></form><//>`
        : null
    }</span>`;
}

interface Caps {
  readonly dailyUsd?: string;
  readonly monthlyUsd?: string;
  readonly maxPerSessionUsd?: string;
}

/** What is spent of what may be; a bar and the same in words. */
function Spent(props: { readonly spending: Spending; readonly caps: Caps | undefined }): Content {
  const { spending, caps } = props;
  const one = (name: string, cost: string, cap: string | undefined): Markup =>
    html`<span>${name} ${sumUsd(cost)}${cap === undefined ? '' : html` of $${cap} <progress max=${Number(cap)} value=${Number(cost)} aria-label=${`${name} spent of the cap`}></progress>`}</span>`;
  return html`<span class="spent">${one('today', spending.day.costUsd, caps?.dailyUsd)} ${one('month', spending.month.costUsd, caps?.monthlyUsd)}
    ${caps?.maxPerSessionUsd === undefined ? null : html`<span data-testid="session-max">session max $${caps.maxPerSessionUsd}</span>`}</span>`;
}

/** Its sessions, newest first. */
const sessionsOf = (agent: string): List<Session> => ({
  page: 'sessions',
  title: `Sessions of ${agent}`,
  kind: 'session',
  idOf: ({ id }) => id,
  fixed: { view: 'row', agent, limit: '20' },
  columns: sessionColumns.filter(({ title }) => title !== 'Agent'),
  topics: ['sessions'],
  command: shell`svc session list --agent ${agent}`,
  empty: 'No session of it has been started yet.',
});

function Sessions(props: PageProps & { readonly counts: Numbers['counts'] }): Markup {
  const { place, id, counts } = props;
  const href = `${pageHref(place, 'sessions')}?agent=${encodeURIComponent(id)}`;
  return html`<div><p><a href=${`${href}&live=true`}>${counts.liveSessions} live</a> of <a href=${href}>${counts.sessions.toLocaleString('en')}</a> <${Command} command=${shell`svc session list --agent ${id}`} /></p>
    <${ListPart} ...${props} list=${sessionsOf(id)} /></div>`;
}

/** Which revision, since when, whose, and of which commit. */
function Of(props: { readonly place: Place; readonly agent: Agent }): Markup {
  const { place, agent } = props;
  const { revision, updatedAt, owner, commit, reconcileId } = agent;
  const at = commit === null ? '' : `@${commit.slice(0, commit.startsWith('folder:') ? 14 : 7)}`;
  const code = html`<code title=${commit}>${at}</code>`;
  return html`<span class="of"><span>r${revision}</span> <span>applied <${Time} at=${updatedAt} /></span>
    <span data-testid="agent-owner">owner ${owner.kind === 'manual' ? 'by hand' : html`<a href=${pageHref(place, 'repositories', owner.name)}>${owner.name}</a>`} ${at === '' ? null : reconcileId === null ? code : html`<a href=${pageHref(place, 'reconciles', reconcileId)}>${code}</a>`}</span></span>`;
}

/** How it appears to people, in words alone: of its picture where that lies in the tree. */
const identityFacts = ({ displayName, username, description, avatar }: AgentIdentity = {}) =>
  [
    ['display name', displayName],
    ['username', username],
    ['description', description],
    ['avatar', avatar === undefined ? undefined : html`<code title=${avatar.sha256}>${avatar.asset}</code>`],
  ] as const;

/** What moves while its sessions work. */
interface Numbers {
  readonly spending: Spending;
  readonly counts: NonNullable<Agent['counts']>;
}

export function Page(props: PageProps): Markup {
  const { place, id } = props;
  const path = `${place.api}/agents/${encodeURIComponent(id)}`;
  const read = useRead((signal) => call<Agent>('GET', `${path}?origins=true`, { signal }), path);
  const numbers = useRead(async (signal): Promise<Numbers> => {
    const [spending, { counts }] = await Promise.all([
      call<Spending>('GET', `${path}/usage`, { signal }),
      call<Agent>('GET', `${path}?counts=true`, { signal }),
    ]);
    return { spending, counts: counts ?? { triggers: 0, sessions: 0, liveSessions: 0 } };
  }, path);
  const again = (): void => {
    read.again();
    numbers.again();
  };
  useLive(['agents'], again, (change) => change.id === id);
  // Where its values come from is not asked again for what its sessions do.
  useLive(['sessions'], numbers.again);
  const error = read.error ?? numbers.error;
  const agent = read.value;
  // All of its head at once: nothing of it moves when another part is known.
  const isKnown = agent !== undefined && numbers.value !== undefined;
  return html`<section data-testid="page-agent">
    <div class="title"><h1>${id}</h1>${isKnown ? html`<${Of} place=${place} agent=${agent} />` : null}<${Command} command=${shell`svc agent show ${id}`} /></div>
    ${error === undefined ? null : html`<${Failure} error=${error} />`}
    ${isKnown ? html`<${Body} ...${props} agent=${agent} numbers=${numbers.value} path=${path} />` : html`<${Reading} error=${error} />`}</section>`;
}

function Body(props: PageProps & { readonly agent: Agent; readonly numbers: Numbers; readonly path: string }): Markup {
  const { place, id, query, agent, path } = props;
  const { spending, counts } = props.numbers;
  const remove = async (reason?: string): Promise<void> => {
    await call('DELETE', path, because(reason));
    navigate(pageHref(place, 'agents'));
  };
  const shown = partOf(query, ['spec', 'revisions', 'world', 'sessions'], 'spec');
  return html`<div data-testid="agent-facts"><${Facts} of=${[
    ...identityFacts(agent.identity),
    ['source', html`<code>${agent.source.file}</code>`],
    ['spent', html`<${Spent} spending=${spending} caps=${(agent.spec as { readonly spendCaps?: Caps }).spendCaps} />`],
  ]} />
    <div class="actions"><${Start} place=${place} name=${id} />
      ${agent.owner.kind === 'manual' ? html`<${Action} place=${place} label="Delete" testId="delete" needs="agents:write" command=${shell`svc agent delete ${id}`} run=${remove} confirm=${asked(`Delete ${id}`, 'DELETE', path)} />` : null}</div>
    <${Tabs} shown=${shown} beside=${agent.revision < 2 ? undefined : html`<${Chooser} query=${query} revision=${agent.revision} />`} tabs=${[
      ['spec', 'Spec'],
      ['revisions', 'Revisions'],
      ['world', `Triggers ${counts.triggers}`],
      ['sessions', `Sessions ${counts.sessions.toLocaleString('en')}`],
    ]}>
      ${shown === 'spec' ? html`<${Spec} agent=${agent} />` : null}
      ${shown === 'revisions' ? html`<${Revisions} ...${props} agent=${agent} />` : null}
      ${shown === 'world' ? html`<${World} place=${place} agent=${agent} />` : null}
      ${shown === 'sessions' ? html`<${Sessions} ...${props} counts=${counts} />` : null}
    <//></div>`;
}
