// `svc connect errtrack`, `svc allow errtrack`: the same flow as the page, from a terminal. The person consents in a
// browser; the command waits until the project is connected, and ends when the attempt did.

import type { ErrtrackAttempt, ErrtrackConnectionOption } from '../../../schemas/api/errtrack.ts';
import * as api from '../../../schemas/api/errtrack.ts';
import { openBrowser } from './browser.ts';
import { type Client, connect } from './client.ts';
import { UsageError, refusal } from './failure.ts';
import { patiently } from './patience.ts';
import { pause } from './sse.ts';
import { clean } from './text.ts';
import type { Call, Handler } from './types.ts';

const pollMs = 2_000;
const connected = (message: string) => ({ status: 'connected' as const, provider: 'errtrack' as const, message });

interface Scope {
  readonly organizationId: string;
  readonly projectId: string;
}
interface Options {
  readonly items: readonly ErrtrackConnectionOption[];
  readonly errtrackConnection: { readonly connected: boolean };
}

const readOptions = (client: Client, scope: Scope): Promise<Options> =>
  client.call(api.listErrtrackProjects, { query: { ...scope } });

export const connectErrtrack: Handler = async (call) => {
  if (call.flag('replace')) {
    throw refusal(
      'not_implemented',
      'not_implemented: an error-tracking connection cannot be replaced by another',
      'disconnect the project first (svc connection remove NAME), or select other projects: svc allow errtrack',
    );
  }
  const client = await connect(call);
  const project = call.text('allow') ?? client.server.project;
  const scope = { organizationId: client.server.org, projectId: project };
  const before = await readOptions(client, scope);
  if (before.errtrackConnection.connected) return done(call, `${project} is connected already`);
  const available = before.items.filter((one) => one.available);
  const [only] = available;
  if (only !== undefined && available.length === 1 && only.projects.length === 1) {
    const ids = only.projects.map(({ id }) => id);
    await client.call(api.updateErrtrackProjects, {
      body: { ...scope, providerGrantId: only.id, errtrackProjectIds: ids },
    });
    return done(call, `${project} is connected as ${only.name}`);
  }
  // One that has the consent already waits for a choice: the provider would not send anybody back for another one.
  const body = { ...scope, resume: true };
  const started = available.length > 0 ? undefined : await client.call(api.startErrtrackSetup, { body });
  const page = `${client.server.url}/${client.server.org}/${project}/connections`;
  const url =
    started === undefined ? page : (started.authorizationUrl ?? `${page}?errtrackAttempt=${started.attemptId}`);
  const required = { status: 'authorization_required' as const, provider: 'errtrack' as const, url };
  if (call.flag('no-wait')) {
    call.screen.emit(required, () => `open ${clean(url, true)}`);
    return 0;
  }
  const isConsent = (started?.authorizationUrl ?? null) !== null;
  call.screen.note(`${isConsent ? 'consent at' : 'choose projects at'} ${clean(url, true)}`);
  openBrowser(call, url);
  await waitUntilConnected(call, client, scope, started?.attemptId);
  return done(call, `${project} is connected`);
};

function done(call: Call, message: string): number {
  call.screen.emit(connected(message), () => message);
  return 0;
}

const waiting: readonly ErrtrackAttempt['status'][] = [
  'awaiting_authorization',
  'exchanging',
  'awaiting_selection',
  'completing',
  'completed',
];

/** A grant that is listed and not connected is no success. Throws Refusal where the attempt ended another way. */
async function waitUntilConnected(
  call: Call,
  client: Client,
  scope: Scope,
  attempt: string | undefined,
): Promise<void> {
  const look = patiently(() => readOptions(client, scope));
  const lookAtAttempt = patiently(async () =>
    attempt === undefined ? undefined : client.call(api.getErrtrackAttempt, { params: { attempt } }),
  );
  for (;;) {
    if ((await look())?.errtrackConnection.connected === true) return;
    const found = await lookAtAttempt();
    if (found !== undefined) {
      const { status, reason } = found;
      call.screen.progress(`waiting: ${status}`);
      if (!waiting.includes(status)) {
        const why = reason === null ? '' : ` (${reason})`;
        throw refusal('setup-ended', `the setup is ${status}${why}`, 'begin again: svc connect errtrack');
      }
    }
    await pause(pollMs, call.io.signal);
    if (call.io.signal.aborted) {
      throw refusal('interrupted', 'stopped waiting; the setup goes on', 'look again, or go on: svc connect errtrack');
    }
  }
}

export const allowErrtrack: Handler = async (call) => {
  const client = await connect(call);
  const project = call.arg('PROJECT');
  const name = call.text('connection');
  if (name === undefined) throw new UsageError('--connection names the connection');
  const scope = { organizationId: client.server.org, projectId: project };
  const { items } = await readOptions(client, scope);
  const found = items.find((one) => one.name === name);
  if (found === undefined) {
    const names = items.map((one) => one.name).join(', ');
    throw refusal(
      'connection-not-found',
      `the organization has no error-tracking connection ${name}`,
      names === '' ? 'svc connect errtrack makes one' : `it has ${names}`,
    );
  }
  // All that is recorded there, which may be more than a selection names.
  const option = await client.call(api.allowErrtrackProjects, { body: { ...scope, providerGrantId: found.id } });
  const slugs = option.projects.map(({ slug }) => slug).join(', ');
  call.screen.emit(option, () => `${project} may read ${clean(slugs, true)} through ${clean(name, true)}`);
  return 0;
};
