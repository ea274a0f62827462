// A tool as an author may write it (spec, Tools): one variant for each kind and implementation.

import * as v from 'valibot';
import { choice, described, flag, name, text } from './common.ts';

const common = {
  disabled: v.optional(flag('True: declared, and not given to sessions.')),
  description: v.optional(v.pipe(v.string(), v.minLength(1))),
};
const provider = text(64, 'Provider of the connection.');
const connection = name('Name of the connection.');
const optional = v.optional(flag('True: skipped while the connection has no active grant.'));
const pair = v.strictObject({ provider: v.optional(provider), connection: v.optional(connection) });
const pairFields = { provider: v.optional(provider), connection: v.optional(connection) };

const remoteAuth = v.union([
  v.strictObject({ kind: v.optional(v.literal('none')) }),
  v.strictObject({
    kind: v.optional(v.literal('bearer')),
    token: v.optional(v.strictObject({ $secret: name('Name of the secret.') })),
  }),
  v.strictObject({ kind: v.optional(v.literal('mcp_oauth')), connection: v.optional(connection), optional }),
  v.strictObject({ kind: v.optional(v.literal('provider_oauth')), ...pairFields, optional }),
]);

const chatAuth = v.union([
  v.strictObject({ kind: v.optional(v.literal('connection')), ...pairFields, optional }),
  v.strictObject({
    kind: v.optional(v.literal('connections')),
    connections: v.optional(v.pipe(v.array(pair), v.minLength(1))),
    optional,
  }),
]);

const local = v.optional(v.literal('local'));

export const tool = v.union([
  v.strictObject({
    kind: v.optional(v.literal('mcp_remote')),
    url: v.optional(described(v.pipe(v.string(), v.regex(/^[Hh][Tt][Tt][Pp][Ss]:\/\/|\{\{/)), 'An https URL.')),
    transport: v.optional(v.literal('streamable_http')),
    auth: v.optional(remoteAuth),
    ...common,
  }),
  v.strictObject({ kind: v.optional(v.literal('connection')), ...pairFields, optional, ...common }),
  v.strictObject({
    kind: local,
    implementation: v.optional(v.literal('svc')),
    capabilities: v.optional(
      v.strictObject({ billing: v.optional(choice(['none', 'read', 'write'], 'Access to usage.')) }),
    ),
    ...common,
  }),
  v.strictObject({ kind: local, implementation: v.optional(v.literal('chat')), auth: v.optional(chatAuth), ...common }),
  v.strictObject({ kind: local, implementation: v.optional(v.literal('ping')), ...common }),
  v.strictObject({
    kind: v.optional(v.literal('codehost')),
    tools: v.optional(
      described(v.pipe(v.array(v.string()), v.minLength(1)), 'Exactly these tools, instead of the default list.'),
    ),
    ...common,
  }),
]);
