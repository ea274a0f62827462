// What pages of one thing share: its facts, its tabs in the address, values as text, and mistakes with their place.

import { useRef, useState } from 'preact/hooks';
import type { Origin } from '../../../../schemas/api/agents.ts';
import type { Diagnostic } from '../../../../schemas/api/common.ts';
import { capital, type Content, html, type Markup, Status, visible } from './kit.ts';
import { setQuery } from './pages.ts';

/** Facts of a thing, those without a value left out. */
export function Facts(props: { readonly of: readonly (readonly [name: string, value: Content])[] }): Markup {
  const known = props.of.filter(([, value]) => value !== undefined && value !== null && value !== '');
  return html`<dl class="facts">${known.map(([name, value]) => html`<div><dt>${capital(name)}</dt><dd>${value}</dd></div>`)}</dl>`;
}

/** The part that the address asks for; `first` where it names none that is there. */
export function partOf(query: URLSearchParams, parts: readonly string[], first: string): string {
  const asked = query.get('tab');
  return asked !== null && parts.includes(asked) ? asked : first;
}

/** Parts of a page, one shown at a time; which one is in the address as `tab`. */
export function Tabs(props: {
  readonly tabs: readonly (readonly [name: string, title: string])[];
  readonly shown: string;
  /** What stands at the end of their line. */
  readonly beside?: Content;
  readonly children: Content;
}): Markup {
  const choose = (name: string) => (): void => setQuery({ tab: name }, { replace: true });
  return html`<div><div class="tabs" role="group" aria-label="Parts of the page">${props.tabs.map(
    ([name, title]) =>
      html`<button type="button" aria-pressed=${name === props.shown} data-testid=${`tab-${name}`} onClick=${choose(name)}>${title}</button>`,
  )}${props.beside === undefined ? null : html`<span class="beside">${props.beside}</span>`}</div><div class="tab">${props.children}</div></div>`;
}

const portion = 100;

/** The first of many, and a button for as many more: a run of a fleet has thousands of changes. */
export function Portion<T>(props: {
  readonly of: readonly T[];
  readonly draw: (first: readonly T[]) => Content;
}): Markup {
  const { of, draw } = props;
  const [shown, setShown] = useState(portion);
  const box = useRef<HTMLDivElement>(null);
  const left = of.length - shown;
  const more = (): void => {
    // The button goes with the last of them: the focus stays with what it brings.
    if (left <= portion) box.current?.focus({ preventScroll: true });
    setShown(shown + portion);
  };
  return html`<div ref=${box} tabIndex=${-1}>${draw(of.slice(0, shown))}
    ${left > 0 ? html`<p><button type="button" data-testid="page-older" onClick=${more}>${left} more</button></p>` : null}</div>`;
}

/** Any JSON as text, however long; it scrolls within itself. */
export function Json(props: { readonly value: unknown; readonly label: string; readonly testId?: string }): Markup {
  return html`<pre class="json" tabIndex=${0} role="region" aria-label=${props.label} data-testid=${props.testId}>${JSON.stringify(props.value, null, 2)}</pre>`;
}

/** A value in one line. */
export const valueText = (value: unknown): string =>
  value === null || value === undefined ? '–' : typeof value === 'string' ? value : JSON.stringify(value);

/** A mistake: what it is, where it stands, and the lines around it with a caret under it. */
export function Mistake(props: { readonly one: Diagnostic }): Markup {
  const { severity, code, message, file, line, column, path, excerpt, hint, related = [] } = props.one;
  const at = [file, line, column].filter((part) => part !== undefined).join(':');
  return html`<div class=${`mistake ${severity}`} data-testid="diagnostic" data-code=${code} data-row tabIndex=${-1}>
    <p><${Status} kind=${severity === 'error' ? 'bad' : 'wait'} text=${severity} /> <strong>${code}</strong>${path === undefined || message.includes(path) ? '' : html` <code>${path}</code>`} ${message}</p>
    ${at === '' ? null : html`<p class="place"><code>${at}</code></p>`}
    ${excerpt === undefined ? null : html`<${Excerpt} excerpt=${excerpt} at=${line ?? excerpt.line} label=${`Lines around ${at} ${code}`} />`}
    ${related.map((other) => html`<p class="place">${other.message} <code>${other.file}:${other.line}:${other.column}</code></p>`)}
    ${hint === undefined ? null : html`<p>${hint}</p>`}</div>`;
}

function Excerpt(props: {
  readonly excerpt: NonNullable<Diagnostic['excerpt']>;
  readonly at: number;
  readonly label: string;
}): Markup {
  const { line, lines, column, length } = props.excerpt;
  const width = String(line + lines.length - 1).length;
  const rows = lines.flatMap((text, index) => {
    const number = String(line + index).padStart(width);
    const shown = html`<span class="line">${`${number} | ${text}\n`}</span>`;
    if (line + index !== props.at) return [shown];
    // Tabs stay tabs, so that the caret stands under its character however wide they are shown.
    const indent = [...visible([...text].slice(0, column - 1).join(''))]
      .map((sign) => (sign === '\t' ? '\t' : ' '))
      .join('');
    return [
      shown,
      html`<span class="caret" data-testid="caret">${`${' '.repeat(width)} | ${indent}${'^'.repeat(Math.max(1, length))}\n`}</span>`,
    ];
  });
  return html`<pre class="excerpt" tabIndex=${0} role="region" aria-label=${props.label}>${rows}</pre>`;
}

/** `.svc/agents/triage.yaml:14`. */
function Place({ origin }: { readonly origin: Origin | undefined }): Markup {
  if (origin === undefined || origin.file === null) return html`<span>–</span>`;
  return html`<code>${origin.file}${origin.line === null ? '' : `:${origin.line}`}</code>`;
}

/** What changed of a thing, value by value. */
export function Changes(props: {
  readonly label: string;
  readonly changes: readonly { readonly path: string; readonly from: unknown; readonly to: unknown }[];
  /** Where the new values stand, by path; absent: nobody asked. */
  readonly origins?: { readonly [path: string]: Origin } | undefined;
}): Markup {
  const { origins } = props;
  return html`<div class="scroll" role="region" aria-label=${props.label} tabIndex=${0}><table aria-label=${props.label}>
    <thead><tr><th scope="col">Path</th><th scope="col">Before</th><th scope="col">After</th>${origins === undefined ? null : html`<th scope="col">Place</th>`}</tr></thead>
    <tbody>${props.changes.map(
      ({ path, from, to }) => html`<tr><td><code>${path === '' ? '(all)' : path}</code></td>
      <td class="from"><pre>${valueText(from)}</pre></td><td class="to"><pre>${valueText(to)}</pre></td>${origins === undefined ? null : html`<td data-testid="origin"><${Place} origin=${origins[path]} /></td>`}</tr>`,
    )}</tbody></table></div>`;
}
