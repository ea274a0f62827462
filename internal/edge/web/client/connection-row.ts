// A connection's row on the Connections page: its state in words, consent again where it is needed, and its end.

import type { Connection } from '../../../../schemas/api/connections.ts';
import { Action } from './action.ts';
import { call } from './api.ts';
import { shell } from './command.ts';
import { asked, because } from './dry-run.ts';
import { Copy, html, type Markup, Status, type StatusKind, Time } from './kit.ts';
import type { Place } from './pages.ts';

const kinds: { readonly [status: string]: StatusKind } = {
  active: 'good',
  degraded: 'wait',
  scope_required: 'wait',
  suspended: 'off',
  disabled: 'off',
  removed: 'off',
};
/** Connected with credentials of their own, not by a person's consent. */
const own = ['codehost', 'tracker', 'chat', 'errtrack'];

/** How many agents name it in their triggers or tools. */
export const usedText = (count = 0): string =>
  count === 0 ? 'no agent' : `${count} ${count === 1 ? 'agent' : 'agents'}`;

/** Since when it has its state, and what has failed on it since then. */
export function Since(props: { readonly row: Connection | undefined }): Markup | null {
  const { since, failedCalls = 0 } = props.row ?? {};
  if (since === undefined) return null;
  const failed = failedCalls === 0 ? '' : `; ${failedCalls} ${failedCalls === 1 ? 'call' : 'calls'} failed`;
  return html`<small>since <${Time} at=${since} isShort=${true} />${failed}</small>`;
}

export function ConnectionRow(props: {
  readonly place: Place;
  readonly row: Connection & { readonly reason?: string };
  readonly again: () => void;
}): Markup {
  const { place, row, again } = props;
  const { provider, name, status, reason, intakeUrl } = row;
  const path = `${place.api}/connections/${encodeURIComponent(name)}`;
  const authorize = async (): Promise<void> => {
    const { authorizationUrl } = await call<{ authorizationUrl: string }>('POST', `${path}/authorize`, { body: {} });
    location.assign(authorizationUrl);
  };
  const check = async (): Promise<void> => {
    await call('POST', `${path}/check`);
    again();
  };
  const remove = async (reason?: string): Promise<void> => {
    await call('DELETE', path, because(reason));
    again();
  };
  const isConsented = !own.includes(provider);
  const consent =
    provider === 'mcp'
      ? shell`svc connect mcp ${name} --renew`
      : shell`svc connect provider ${provider} ${name} --renew`;
  return html`<tr data-testid=${`row-connection-${name}`} data-row tabIndex=${-1}>
    <td>${provider}</td><td>${name}${intakeUrl == null ? null : html`<details><summary>Webhooks</summary>The provider sends them to <code data-testid=${`intake-${name}`}>${intakeUrl}</code> <${Copy} text=${intakeUrl} label="Copy" /></details>`}</td>
    <td><${Status} kind=${kinds[status] ?? 'bad'} text=${status.replaceAll('_', ' ')} />${reason === undefined ? null : html` <small>${reason}</small>`} <${Since} row=${row} /></td>
    <td>${usedText(row.usedBy)}</td>
    <td><div class="actions">
      ${isConsented ? html`<${Action} place=${place} label=${status === 'active' ? 'Authorize again' : 'Reconnect'} testId=${`authorize-${name}`} needs="connections:write" primary=${status !== 'active'} command=${consent} run=${authorize} />` : null}
      <${Action} place=${place} label="Check" testId=${`check-${name}`} needs="connections:write" command=${shell`svc connection check ${name}`} run=${check} />
      <${Action} place=${place} label="Remove" testId=${`remove-${name}`} needs="connections:write" command=${shell`svc connection remove ${name}`} run=${remove} confirm=${asked(`Remove ${name}`, 'DELETE', path)} />
    </div></td></tr>`;
}
