// What would follow, asked of the API before somebody says yes: the same call with `dryRun=true`, which changes nothing. What
// the act itself would be refused for is said then already.

import type { DryRun } from '../../../../schemas/api/common.ts';
import { type ActionProps } from './action.ts';
import { call } from './api.ts';
import { type Content, html } from './kit.ts';

const most = 6;
/** The first of them, ids cut to what tells them apart. */
function shown(names: readonly string[], count: number): string {
  const some = names
    .slice(0, most)
    .map((name) => (/^[0-9a-f]{8}-[0-9a-f-]{27}$/.test(name) ? name.slice(0, 13) : name));
  return `${some.join(', ')}${count > most ? ` and ${count - some.length} more` : ''}`;
}

export async function consequencesOf(
  method: string,
  path: string,
  body?: object,
  onAnswer: (answer: DryRun) => void = () => undefined,
): Promise<Content> {
  const asked = `${path}${path.includes('?') ? '&' : '?'}dryRun=true`;
  const answer = await call<DryRun>(method, asked, body === undefined ? {} : { body });
  onAnswer(answer);
  const { consequences, actions = [] } = answer;
  const changes = actions.flatMap(({ op, kind, name, changes: values }) =>
    op === 'update' ? values.map(({ path: at }) => `${kind} ${name}: ${at}`) : [],
  );
  return html`<div data-testid="consequences"><ul>${consequences.map(
    ({ text, names, count }) =>
      html`<li>${text}${names.length === 0 ? null : html`: <span class="names">${shown(names, count)}</span>`}</li>`,
  )}</ul>${changes.length === 0 ? null : html`<details><summary>${changes.length} values differ</summary><ul>${changes.slice(0, 100).map((one) => html`<li><code>${one}</code></li>`)}</ul></details>`}</div>`;
}

/** A confirmation that names these consequences and takes a reason; `onAnswer` hears what was answered. */
export const asked = (
  title: string,
  method: string,
  path: string,
  body?: object,
  onAnswer?: (answer: DryRun) => void,
): NonNullable<ActionProps['confirm']> => ({
  title,
  consequence: () => consequencesOf(method, path, body, onAnswer),
  withReason: true,
});

/** The body of an act with why it is done. */
export const because = (reason: string | undefined, body: object = {}) => ({
  body: { ...body, ...(reason !== undefined && { reason }) },
});
