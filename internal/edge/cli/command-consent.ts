// `svc connect mcp`, `svc connect provider`: makes a connection by consent where there is none, prints the address at which
// a person consents, and waits until that is over. What the browser brings back goes to the server alone: no code, state or
// token ever comes here.

import type { Connection } from '../../../schemas/api/connections.ts';
import * as api from '../../../schemas/api/connections.ts';
import type { Given } from '../../../schemas/api/operation.ts';
import { openBrowser } from './browser.ts';
import { type Client, connect } from './client.ts';
import { UsageError, Refusal, refusal } from './failure.ts';
import { readSecret } from './input.ts';
import { patiently } from './patience.ts';
import { pause } from './sse.ts';
import { clean } from './text.ts';
import type { Call, Handler } from './types.ts';

type NewConnection = Given<NonNullable<typeof api.createConnection.body>>;

const pollMs = 1_000;

/** The connection as it stands; undefined where there is none. */
async function find(client: Client, name: string): Promise<(Connection & { readonly config: unknown }) | undefined> {
  try {
    return await client.call(api.getConnection, { params: { name } });
  } catch (error) {
    if (error instanceof Refusal && error.problem.status === 404) return undefined;
    throw error;
  }
}

export const connectMcp: Handler = async (call) => {
  const name = call.arg('NAME');
  const url = call.text('url');
  const clientId = call.text('client-id');
  const scopes = call.list('scope');
  if (clientId === undefined && call.text('client-secret-file') !== undefined) {
    throw new UsageError('--client-secret-file goes with --client-id');
  }
  const client = await connect(call);
  const known = await find(client, name);
  if (known === undefined && url === undefined) {
    throw new UsageError(`there is no connection ${name}`, 'give --url, the address of the tool server');
  }
  if (known !== undefined) requireSame(known, { provider: 'mcp', url, clientId });
  const make = async (): Promise<NewConnection> => {
    const secret = call.text('client-secret-file');
    const clientSecret =
      secret === undefined ? undefined : await readSecret(call, 'client secret', 'client-secret-file');
    return {
      provider: 'mcp',
      name,
      url: url ?? '',
      ...(scopes.length > 0 && { scopes: [...scopes] }),
      ...(clientId !== undefined && { clientId }),
      ...(clientSecret !== undefined && { credentials: { clientSecret: clientSecret.trim() } }),
    };
  };
  return consent(call, client, { known, make, scopes });
};

export const connectProvider: Handler = async (call) => {
  const provider = call.arg('PROVIDER');
  const name = call.arg('NAME');
  const scopes = call.list('scope');
  const client = await connect(call);
  const known = await find(client, name);
  if (known !== undefined) requireSame(known, { provider });
  // Which names there are is in the configuration of the server.
  const make = async (): Promise<NewConnection> =>
    ({ provider, name, ...(scopes.length > 0 && { scopes: [...scopes] }) }) as NewConnection;
  return consent(call, client, { known, make, scopes });
};

/** What is there already is connected again, never turned into something else. */
function requireSame(
  known: Connection & { readonly config: unknown },
  wanted: { readonly provider: string; readonly url?: string | undefined; readonly clientId?: string | undefined },
): void {
  const { url, clientId } = Object(known.config) as { readonly url?: unknown; readonly clientId?: unknown };
  const isSame =
    known.provider === wanted.provider &&
    (wanted.url === undefined || url === wanted.url) &&
    (wanted.clientId === undefined || clientId === wanted.clientId);
  if (isSame) return;
  throw refusal(
    'name-taken',
    `there is another connection ${known.name} already`,
    `svc connection show ${known.name}; give another name, or disconnect it first: svc connection remove ${known.name}`,
  );
}

interface Wanted {
  readonly known: Connection | undefined;
  readonly make: () => Promise<NewConnection>;
  readonly scopes: readonly string[];
}

async function consent(call: Call, client: Client, { known, make, scopes }: Wanted): Promise<number> {
  const isDone = known?.status === 'active' && scopes.length === 0 && !call.flag('renew');
  if (isDone) return done(call, known, `${known.name} is connected already`);
  const connection = known ?? (await client.call(api.createConnection, { body: await make() }));
  const { name, provider } = connection;
  const begun = await begin(call, client, connection, { isNew: known === undefined, scopes });
  const { authorizationUrl: url, attemptId, expiresAt } = begun;
  if (call.flag('no-wait')) {
    const required = { status: 'authorization_required', provider, connection: name, url, attemptId, expiresAt };
    call.screen.emit(required, () => `open ${clean(url, true)}`);
    return 0;
  }
  call.screen.note(`consent at ${clean(url, true)}`);
  openBrowser(call, url);
  await waitUntilOver(call, client, { name, attemptId, expiresAt });
  return done(call, connection, `${name} is connected`);
}

function done(call: Call, { name, provider }: Pick<Connection, 'name' | 'provider'>, message: string): number {
  call.screen.emit({ status: 'connected', provider, connection: name, message }, () => clean(message, true));
  return 0;
}

/** A connection that was made for this attempt goes with it where nobody can be asked for consent. */
async function begin(
  call: Call,
  client: Client,
  { name }: Pick<Connection, 'name'>,
  { isNew, scopes }: { readonly isNew: boolean; readonly scopes: readonly string[] },
): Promise<{ readonly authorizationUrl: string; readonly attemptId: string; readonly expiresAt: string }> {
  try {
    const body = scopes.length > 0 ? { scopes: [...scopes] } : {};
    return await client.call(api.authorizeConnection, { params: { name }, body });
  } catch (error) {
    if (isNew && !call.io.signal.aborted) {
      // Where that fails too, the connection waits for consent and `connect` finds it.
      await client.call(api.deleteConnection, { params: { name } }).catch(() => undefined);
    }
    throw error;
  }
}

interface Waiting {
  readonly name: string;
  readonly attemptId: string;
  readonly expiresAt: string;
}

/** Throws Refusal where the attempt ends otherwise than by consent, or the person stops waiting. */
async function waitUntilOver(call: Call, client: Client, { name, attemptId, expiresAt }: Waiting): Promise<void> {
  const look = patiently(() => client.call(api.getConsentAttempt, { params: { name, attempt: attemptId } }));
  for (;;) {
    await pause(pollMs, call.io.signal);
    if (call.io.signal.aborted) {
      throw refusal(
        'interrupted',
        `stopped waiting; consent is taken until ${expiresAt}`,
        `svc connection show ${name}; another attempt: svc connect`,
      );
    }
    const attempt = await look();
    if (attempt === undefined) continue;
    const { status, reason } = attempt;
    if (status === 'completed') return;
    if (status === 'awaiting_authorization' || status === 'exchanging') {
      call.screen.progress(`waiting: ${status}`);
      continue;
    }
    call.screen.progress('');
    const why = reason === null ? '' : ` (${clean(reason, true)})`;
    throw refusal(`consent-${status}`, `the consent to ${name} is ${status}${why}`, hints[status] ?? 'begin again');
  }
}

const hints: { readonly [status: string]: string } = {
  uncertain: 'nobody knows whether the authorization server gave a token: begin again',
  cancelled: 'it was cancelled, or another one was begun in its place',
  expired: 'nobody consented within 15 minutes: begin again',
};
