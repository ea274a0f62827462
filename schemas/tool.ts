// Tools by alias: one group for each kind and implementation (docs/reference/agent-document.md#tools).

import type { ChatAuth, RemoteAuth, Tool } from '../internal/domain/spec.ts';
import { as, choice, flag, group, list, name, type Same, text, type Value, variants } from './grammar.ts';
import { plainSecretRef } from './shared.ts';

const common = {
  disabled: flag('True: declared, and not given to sessions.', { otherwise: 'it is given to sessions' }),
  description: text('What it is for.', { what: 'a description' }),
};
const provider = text('Provider of the connection.', {
  required: true,
  most: 64,
  what: 'a provider name',
  example: 'tracker',
});
const connection = name('Name of the connection.', { required: true, example: 'issues' });
const optional = flag('True: skipped while the connection has no active grant.', {
  otherwise: 'apply fails without an active grant',
});
const pair = { provider, connection };

const kindOf = <const K extends string>(kind: K, description: string) =>
  choice([kind] as const, description, { required: true });

export const remoteAuth = variants(
  'kind',
  {
    none: group({ kind: kindOf('none', 'No credential.') }, 'No credential.'),
    bearer: group(
      {
        kind: kindOf('bearer', 'A bearer token.'),
        token: as(plainSecretRef, { required: true, description: 'The token, as a reference to a secret.' }),
      },
      'A bearer token from a secret.',
    ),
    mcp_oauth: group(
      { kind: kindOf('mcp_oauth', 'A connection made by the server’s own consent.'), connection, optional },
      'A connection made by the server’s own consent.',
    ),
    provider_oauth: group(
      {
        kind: kindOf('provider_oauth', 'A connection made by a configured provider’s consent.'),
        provider,
        connection,
        optional,
      },
      'A connection made by a configured provider’s consent.',
    ),
  },
  'How the service proves itself to the server; the credential never reaches the sandbox.',
  { default: { kind: 'none' }, example: { kind: 'bearer', token: { $secret: 'docs-token' } } },
);

export const remote = group(
  {
    kind: kindOf('mcp_remote', 'A remote MCP server.'),
    ...common,
    url: text('An https URL, without user name or password.', {
      required: true,
      least: 0,
      what: 'an https URL',
      pattern: '[Hh][Tt][Tt][Pp][Ss]://.*',
      example: 'https://mcp.example.com/mcp',
    }),
    transport: choice(['streamable_http'] as const, 'The only transport.', { default: 'streamable_http' }),
    auth: remoteAuth,
  },
  'A remote MCP server.',
  { example: { kind: 'mcp_remote', url: 'https://mcp.example.com/mcp' } },
);
export const connected = group(
  {
    kind: kindOf('connection', 'A hosted tool of a provider.'),
    ...common,
    ...pair,
    tools: list(text('Name of a tool.', { least: 0, what: 'the name of a tool' }), 'Exactly these tools.', {
      least: 1,
      what: 'a list of tool names',
      otherwise: 'all that the connection has',
      rule: 'Only with `provider: errtrack`, whose tools are `list_projects`, `search_issues`, `get_issue_details` and `get_latest_event`.',
    }),
    optional,
  },
  'A hosted tool that a connected provider backs.',
  { example: { kind: 'connection', provider: 'tracker', connection: 'issues' } },
);
const billing = choice(['none', 'read', 'write'] as const, 'What the agent may know and do about usage.', {
  default: 'none',
});
export const svcTool = group(
  {
    kind: kindOf('local', 'A tool of the service itself.'),
    ...common,
    implementation: kindOf('svc', 'Coordination.'),
    capabilities: group({ billing }, 'What it may do beside.', { default: { billing: 'none' } }),
  },
  'Coordination: spawning, messaging and binding sessions, and introspection.',
  { example: { kind: 'local', implementation: 'svc' } },
);
const chatAuthExample = 'For example: auth: { kind: connection, provider: chat, connection: team-chat }';
export const chatAuth = variants(
  'kind',
  {
    connection: group({ kind: kindOf('connection', 'One connection.'), ...pair, optional }, 'One connection.'),
    connections: group(
      {
        kind: kindOf('connections', 'Several connections.'),
        connections: list(group(pair, 'A provider and its connection.'), 'Providers and their connections.', {
          required: true,
          least: 1,
          what: 'a list of provider and connection pairs',
        }),
        optional,
      },
      'Several connections.',
    ),
  },
  'The connections through which it posts.',
  {
    required: true,
    what: 'a map with a kind',
    // A path alone does not tell it from the auth of a remote tool.
    lacking: chatAuthExample,
    hint: chatAuthExample,
    example: { kind: 'connection', provider: 'chat', connection: 'team-chat' },
  },
);
export const chatTool = group(
  {
    kind: kindOf('local', 'A tool of the service itself.'),
    ...common,
    implementation: kindOf('chat', 'Posting to chat.'),
    auth: chatAuth,
  },
  'Posting to chat providers.',
);
export const pingTool = group(
  { kind: kindOf('local', 'A tool of the service itself.'), ...common, implementation: kindOf('ping', 'A test.') },
  'A test of the connection between a session and its tools.',
  { example: { kind: 'local', implementation: 'ping' } },
);
export const local = variants(
  'implementation',
  { svc: svcTool, chat: chatTool, ping: pingTool },
  'A tool of the service itself.',
);
export const codehost = group(
  {
    kind: kindOf('codehost', 'The code host’s brokered tools.'),
    ...common,
    tools: list(text('Name of a tool.', { least: 0, what: 'the name of a code-host tool' }), 'Exactly these tools.', {
      least: 1,
      what: 'a list of tool names',
      otherwise: 'the default list of 24',
      example: ['pull_request_read', 'add_issue_comment'],
      rule: 'Merge tools need a mount with merge: write, secrets tools one with the secrets capability.',
    }),
  },
  'The code host’s brokered tools.',
  { example: { kind: 'codehost' } },
);

/** A tool of kind `local` is told further apart by its `implementation`. */
export const tool = variants(
  'kind',
  { mcp_remote: remote, connection: connected, local, codehost },
  'A tool: a remote MCP server, a hosted one of a provider, one of the service itself, or the code host’s.',
  { what: 'a map with the kind of a tool' },
);

true satisfies Same<Value<typeof chatAuth>, ChatAuth>;
true satisfies Same<Value<typeof remoteAuth>, RemoteAuth>;
true satisfies Same<Value<typeof svcTool>, Extract<Tool, { readonly implementation: 'svc' }>>;
true satisfies Same<Value<typeof chatTool>, Extract<Tool, { readonly implementation: 'chat' }>>;
true satisfies Same<Value<typeof pingTool>, Extract<Tool, { readonly implementation: 'ping' }>>;
true satisfies Same<Value<typeof tool>, Tool>;
