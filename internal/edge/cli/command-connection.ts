// `svc connection …`: providers. Credentials come from a prompt without an echo, files or stdin; none is ever printed.

import type { DryRun } from '../../../schemas/api/common.ts';
import * as connections from '../../../schemas/api/connections.ts';
import type { Given } from '../../../schemas/api/operation.ts';
import { degradedAdvice } from '../../domain/connection.ts';
import { type Client, connect } from './client.ts';
import { reasonBody, dryRun, isMeant } from './confirm.ts';
import { UsageError, refusal } from './failure.ts';
import { readSecret } from './input.ts';
import { jsonLines, rowOf, showList } from './lists.ts';
import { statusColour } from './print-run.ts';
import { clean, details, relativeTime } from './text.ts';
import type { Call, Handler } from './types.ts';

type NewConnection = Given<NonNullable<typeof connections.createConnection.body>>;

interface ProviderShape {
  /** Name of the credential that is asked for, and what it is called for people. */
  readonly secret: readonly [key: string, prompt: string];
  /** Option → credential. */
  readonly files: { readonly [option: string]: string };
  /** Option → config key. */
  readonly config: { readonly [option: string]: string };
}

/** What a connection of each provider is made of (docs/reference/connections.md#connections). */
const providers: { readonly [provider: string]: ProviderShape } = {
  codehost: {
    secret: ['webhookSecret', 'webhook secret'],
    files: { 'private-key-file': 'privateKey' },
    config: { 'api-url': 'apiUrl', 'app-id': 'appId', 'installation-id': 'installationId', 'bot-login': 'botLogin' },
  },
  tracker: {
    secret: ['webhookSecret', 'webhook secret'],
    files: { 'api-key-file': 'apiKey' },
    config: { 'api-url': 'apiUrl', 'bot-user-id': 'botUserId' },
  },
  chat: {
    secret: ['signingSecret', 'signing secret'],
    files: { 'bot-token-file': 'botToken' },
    config: { 'api-url': 'apiUrl', 'bot-user-id': 'botUserId', 'workspace-id': 'workspaceId' },
  },
  // Made by `svc connect mcp`; here for its credentials.
  mcp: { secret: ['clientSecret', 'client secret'], files: {}, config: {} },
};

export const connectionList: Handler = async (call) => {
  const client = await connect(call);
  const now = call.screen.now();
  return showList(call, client, {
    operation: connections.listConnections,
    empty: 'no connections',
    head: ['name', 'provider', 'status', 'since', 'failed calls', 'agents', 'intake', 'reason'],
    row: (connection) => [
      connection.text('name'),
      connection.text('provider'),
      { text: connection.text('status'), colour: statusColour(connection.text('status')) },
      relativeTime(connection.at('since'), now),
      connection.text('failedCalls'),
      connection.text('usedBy'),
      connection.text('intakeUrl'),
      connection.text('reason'),
    ],
  });
};

export const connectionAdd: Handler = async (call) => {
  const provider = call.arg('PROVIDER');
  const shape = providers[provider];
  if (shape === undefined) throw new UsageError(`PROVIDER is one of ${Object.keys(providers).join(', ')}`);
  refuseForeign(call, provider, shape);
  const config: { [key: string]: string } = {};
  for (const [option, key] of Object.entries(shape.config)) {
    const value = call.text(option);
    if (value !== undefined) config[key] = value;
  }
  const credentials: { [key: string]: string } = {};
  for (const [option, key] of Object.entries(shape.files)) {
    if (call.text(option) !== undefined) credentials[key] = (await readSecret(call, key, option)).trim();
  }
  const [key, prompt] = shape.secret;
  // A file that an editor wrote ends with a newline that is no part of a signing key.
  credentials[key] = (await readSecret(call, `${prompt} of ${call.arg('NAME')}`)).replace(/\r?\n$/, '');
  const client = await connect(call);
  // Which keys go with which provider is the table's above.
  const body = {
    provider,
    name: call.arg('NAME'),
    ...(Object.keys(config).length > 0 && { config }),
    credentials,
  } as unknown as NewConnection;
  const answer = await client.call(connections.createConnection, { body });
  call.screen.emit(answer, () => `connected; send its webhooks to ${clean(rowOf(answer).text('intakeUrl'), true)}`);
  return 0;
};

// An option of another provider would be dropped without a word.
function refuseForeign(call: Call, provider: string, shape: ProviderShape): void {
  for (const other of Object.values(providers)) {
    for (const option of Object.keys({ ...other.files, ...other.config })) {
      if (call.text(option) !== undefined && shape.files[option] === undefined && shape.config[option] === undefined) {
        throw new UsageError(`--${option} is not for ${provider}`);
      }
    }
  }
}

type Detail = Awaited<ReturnType<typeof read>>;
const read = (client: Client, name: string) => client.call(connections.getConnection, { params: { name } });

/** A connection for people: its status first, and whatever else is told of it. */
function detailText(call: Call, connection: Detail): string {
  const { paint, now } = call.screen;
  const {
    name,
    provider,
    status,
    reason,
    intakeUrl,
    config,
    id,
    checkedAt,
    rateLimitedUntil,
    since,
    failedCalls,
    ...more
  } = connection;
  const plain = (value: string | null | undefined): string | undefined =>
    value === null || value === undefined ? undefined : clean(value, true);
  const head = details(
    [
      ['connection', plain(name)],
      ['provider', plain(provider)],
      ['status', paint(statusColour(status), plain(status) ?? '-')],
      ['reason', plain(reason)],
      ['since', since === undefined ? undefined : relativeTime(since, now())],
      ['failed calls', failedCalls === undefined || failedCalls === 0 ? undefined : `${failedCalls} since then`],
      ['checked', checkedAt === undefined ? undefined : relativeTime(checkedAt, now())],
      ['rate-limited', rateLimitedUntil === undefined ? undefined : relativeTime(rateLimitedUntil, now())],
      ['webhooks', plain(intakeUrl)],
      ['id', id],
      ['what to do', adviceOf(connection)],
    ],
    paint,
  );
  const rest = { ...(Object.keys(Object(config)).length > 0 && { config }), ...more };
  return Object.keys(rest).length === 0 ? head : `${head}\n${jsonLines(rest)}`;
}

/** What gets a connection back to work; undefined where it does. */
function adviceOf(of: Pick<Detail, 'name' | 'provider' | 'status' | 'reason'>): string | undefined {
  const { name, provider, status } = of;
  const own = providers[provider] !== undefined && provider !== 'mcp';
  const again = provider === 'mcp' ? `svc connect mcp ${name}` : `svc connect provider ${provider} ${name}`;
  switch (status) {
    case 'authorization_required':
    case 'scope_required':
    case 'uncertain':
      return own ? `svc connection set-credentials ${name}` : again;
    case 'removed':
      if (provider === 'codehost') {
        return `install the application again, then: svc connection edit ${name} --installation-id ID`;
      }
      return `connect it again at the provider, then: svc connection check ${name}`;
    case 'suspended':
      return `bring the installation back at the provider, then: svc connection check ${name}`;
    case 'degraded':
      return degradedAdvice(of);
    default:
      return undefined;
  }
}

export const connectionShow: Handler = async (call) => {
  const client = await connect(call);
  const found = await read(client, call.arg('NAME'));
  call.screen.emit(found, () => detailText(call, found));
  return 0;
};

export const connectionCheck: Handler = async (call) => {
  const client = await connect(call);
  const found = await client.call(connections.checkConnection, { params: { name: call.arg('NAME') } });
  call.screen.emit(found, () => detailText(call, found));
  if (found.status === 'active') return 0;
  if (!call.json) {
    const why = found.reason === undefined ? '' : ` (${clean(found.reason, true)})`;
    call.screen.note(`${call.screen.errPaint('red', 'svc:')} ${clean(found.name, true)} is ${found.status}${why}`);
  }
  return 1;
};

export const connectionEdit: Handler = async (call) => {
  const client = await connect(call);
  const name = call.arg('NAME');
  const { provider } = await read(client, name);
  const shape = providers[provider];
  if (shape === undefined || Object.keys(shape.config).length === 0) {
    throw refusal('wrong-provider', `${name} has no settings of its own`, `svc connection show ${name}`);
  }
  refuseForeign(call, provider, shape);
  const config: { [key: string]: string } = {};
  for (const [option, key] of Object.entries(shape.config)) {
    const value = call.text(option);
    if (value !== undefined) config[key] = value;
  }
  if (Object.keys(config).length === 0) {
    throw new UsageError(
      `nothing to change: give ${Object.keys(shape.config)
        .map((option) => `--${option}`)
        .join(', ')}`,
    );
  }
  const answer = await client.call(connections.changeConnection, { params: { name }, body: { config } });
  call.screen.emit(answer, () => detailText(call, answer));
  return 0;
};

export const connectionSetCredentials: Handler = async (call) => {
  const client = await connect(call);
  const name = call.arg('NAME');
  const { provider } = await read(client, name);
  const shape = providers[provider];
  if (shape === undefined) {
    throw refusal(
      'wrong-provider',
      `the credentials of ${name} are its configuration's or come by consent`,
      adviceOf({ name, provider, status: 'authorization_required' }),
    );
  }
  refuseForeign(call, provider, shape);
  const credentials: { [key: string]: string } = {};
  for (const [option, key] of Object.entries(shape.files)) {
    if (call.text(option) !== undefined) credentials[key] = (await readSecret(call, key, option)).trim();
  }
  const [key, prompt] = shape.secret;
  if (call.text('from-file') !== undefined || Object.keys(credentials).length === 0) {
    credentials[key] = (await readSecret(call, `${prompt} of ${name}`)).replace(/\r?\n$/, '');
  }
  const answer = await client.call(connections.setConnectionCredentials, { params: { name }, body: { credentials } });
  const keys = Object.keys(credentials).join(', ');
  call.screen.emit(answer, () => `replaced ${keys} of ${clean(name, true)}`);
  return 0;
};

export const connectionRemove: Handler = async (call) => {
  const client = await connect(call);
  const name = call.arg('NAME');
  const look = async () =>
    (await client.call(connections.deleteConnection, { params: { name }, query: dryRun })) as DryRun;
  if (!(await isMeant(call, `removing ${name}`, look))) return 0;
  await client.call(connections.deleteConnection, { params: { name }, ...reasonBody(call) });
  call.screen.emit({ name, status: 'removed' }, () => `removed ${name}`);
  return 0;
};
