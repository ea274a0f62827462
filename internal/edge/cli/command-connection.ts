// `svc connection …`: providers. Credentials come from a prompt without an echo, files or stdin; none is ever printed.

import * as connections from '../../../schemas/api/connections.ts';
import type { Given } from '../../../schemas/api/operation.ts';
import { connect } from './client.ts';
import { Misuse } from './failure.ts';
import { readSecret } from './input.ts';
import { rowOf, showList } from './lists.ts';
import { statusColour } from './print-run.ts';
import { clean } from './text.ts';
import type { Call, Handler } from './types.ts';

type NewConnection = Given<NonNullable<typeof connections.createConnection.body>>;

interface ProviderShape {
  /** Name of the credential that is always needed, and what it is called for people. */
  readonly secret: readonly [key: string, prompt: string];
  /** Option → credential. */
  readonly files: { readonly [option: string]: string };
  /** Option → config key. */
  readonly config: { readonly [option: string]: string };
}

/** Contract, section 3, `P/connections`. */
const PROVIDERS: { readonly [provider: string]: ProviderShape } = {
  codehost: {
    secret: ['webhookSecret', 'webhook secret'],
    files: { 'private-key-file': 'privateKey' },
    config: { 'api-url': 'apiUrl', 'app-id': 'appId', 'installation-id': 'installationId', 'bot-login': 'botLogin' },
  },
  tracker: {
    secret: ['webhookSecret', 'webhook secret'],
    files: { 'api-key-file': 'apiKey' },
    config: { 'bot-user-id': 'botUserId' },
  },
  chat: {
    secret: ['signingSecret', 'signing secret'],
    files: { 'bot-token-file': 'botToken' },
    config: { 'bot-user-id': 'botUserId', 'workspace-id': 'workspaceId' },
  },
};

export const connectionList: Handler = async (call) => {
  const client = await connect(call);
  return showList(call, client, {
    operation: connections.listConnections,
    empty: 'no connections',
    head: ['name', 'provider', 'status', 'intake'],
    row: (connection) => [
      connection.text('name'),
      connection.text('provider'),
      { text: connection.text('status'), colour: statusColour(connection.text('status')) },
      connection.text('intakeUrl'),
    ],
  });
};

export const connectionAdd: Handler = async (call) => {
  const provider = call.arg('PROVIDER');
  const shape = PROVIDERS[provider];
  if (shape === undefined) throw new Misuse(`PROVIDER is one of ${Object.keys(PROVIDERS).join(', ')}`);
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
  for (const other of Object.values(PROVIDERS)) {
    for (const option of Object.keys({ ...other.files, ...other.config })) {
      if (call.text(option) !== undefined && shape.files[option] === undefined && shape.config[option] === undefined) {
        throw new Misuse(`--${option} is not for ${provider}`);
      }
    }
  }
}

export const connectionRemove: Handler = async (call) => {
  const client = await connect(call);
  const name = call.arg('NAME');
  await client.call(connections.deleteConnection, { params: { name } });
  call.screen.emit({ name, status: 'removed' }, () => `removed ${name}`);
  return 0;
};
