// What a session left: its files, and how its work trees differ from what was mounted. Read when they are looked at.

import { useEffect, useState } from 'preact/hooks';
import type { SessionDiff, SessionFile } from '../../../../schemas/api/sessions.ts';
import { call, callFile } from './api.ts';
import { shell } from './command.ts';
import { Command, Failure, html, type Markup, Reading, Table, useRead } from './kit.ts';
import { bytes } from './numbers.ts';

interface Props {
  readonly path: string;
  readonly id: string;
  /** Another one: it is read again. */
  readonly mark: number;
}

/** Saves what a link cannot: a download needs the key of the session beside the cookie. */
async function save(address: string, name: string): Promise<void> {
  const url = URL.createObjectURL(await callFile(address));
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** Reads, and again with another mark; what was read stays meanwhile. */
function useResult<T>(path: string, mark: number) {
  const read = useRead((signal) => call<T>('GET', path, { signal }), path);
  const [first] = useState(mark);
  const [isMoved, setMoved] = useState(false);
  useEffect(() => {
    if (mark === first && !isMoved) return;
    setMoved(true);
    read.again();
  }, [mark]);
  return read;
}

const refusals = { 'too-large': 'over 10 MiB', 'too-many': 'over 50 MiB in all', unreadable: 'not readable' } as const;

export function Files({ path, id, mark }: Props): Markup {
  const read = useResult<{ items: SessionFile[] }>(`${path}/files?limit=200`, mark);
  const [error, setError] = useState<unknown>(undefined);
  const files = read.value?.items ?? [];
  const address = (file: string): string => `${path}/files/${file.split('/').map(encodeURIComponent).join('/')}`;
  const download = (file: string) => async (): Promise<void> => {
    setError(undefined);
    await save(address(file), file.slice(file.lastIndexOf('/') + 1)).catch(setError);
  };
  return html`<details data-testid="session-files"><summary>Files ${files.length}</summary>
    ${read.error === undefined ? null : html`<${Failure} error=${read.error} />`}
    ${error === undefined ? null : html`<${Failure} error=${error} />`}
    ${
      read.value === undefined
        ? html`<${Reading} error=${read.error} />`
        : files.length === 0
          ? html`<p class="empty">It has left no file in the directory of <code>SVC_ARTIFACTS</code>.</p>`
          : html`<${Table} label="Files" columns=${[{ title: 'Path' }, { title: 'Size' }, { title: 'SHA-256' }]}>
      ${files.map(
        (file) =>
          html`<tr data-testid=${`row-file-${file.path}`}><td>${
            file.refused === null
              ? html`<button type="button" class="small" onClick=${download(file.path)}>${file.path}</button>`
              : html`<span>${file.path} <small>not kept: ${refusals[file.refused]}</small></span>`
          }</td><td>${bytes(file.size)}</td><td>${file.sha256 === null ? '–' : html`<code title=${file.sha256}>${file.sha256.slice(0, 12)}</code>`}</td></tr>`,
      )}<//>`
    }
    <${Command} command=${shell`svc session files ${id}`} /></details>`;
}

const lineKind = (line: string): string =>
  line.startsWith('+') && !line.startsWith('+++')
    ? 'added'
    : line.startsWith('-') && !line.startsWith('---')
      ? 'removed'
      : line.startsWith('@@') || line.startsWith('diff ')
        ? 'place'
        : '';

/** Of a long one this many lines at a time. */
const linesShown = 400;

export function Diff({ path, id, mark }: Props): Markup {
  const read = useResult<SessionDiff>(`${path}/diff`, mark);
  const [shown, setShown] = useState(linesShown);
  const mounts = read.value?.mounts ?? [];
  const all = mounts.flatMap(({ diff }) => (diff === '' ? [] : diff.replace(/\n$/, '').split('\n')));
  const count = (kind: string): number => all.filter((line) => lineKind(line) === kind).length;
  return html`<details data-testid="session-diff"><summary>Work tree ${mounts.length === 0 ? '' : `+${count('added')} -${count('removed')}`}</summary>
    ${read.error === undefined ? null : html`<${Failure} error=${read.error} />`}
    ${read.value === undefined ? html`<${Reading} error=${read.error} />` : mounts.length === 0 ? html`<p class="empty">No work tree has been looked at yet.</p>` : null}
    ${mounts.map(({ mountPath, repository, ref, commit, diff, truncated }) => {
      const lines = diff === '' ? [] : diff.replace(/\n$/, '').split('\n');
      return html`<div><h2>${mountPath} <small>${repository}${ref === null ? '' : ` ${ref}`} at ${commit.slice(0, 12)}</small></h2>
        ${lines.length === 0 ? html`<p class="empty">No difference.</p>` : html`<pre class="diff" tabIndex=${0} role="region" aria-label=${`Difference of ${mountPath}`}>${lines.slice(0, shown).map((line) => html`<span class=${lineKind(line)}>${`${line}\n`}</span>`)}</pre>`}
        ${lines.length > shown ? html`<button type="button" onClick=${() => setShown(shown + linesShown)}>${lines.length - shown} more lines</button>` : null}
        ${truncated ? html`<p class="notice">It is longer than 1 MiB, and ends here.</p>` : null}</div>`;
    })}
    <${Command} command=${shell`svc session diff ${id}`} /></details>`;
}
