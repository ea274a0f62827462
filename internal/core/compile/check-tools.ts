// Tools by alias (spec, Tools; decisions 55 and 56): one row per kind and implementation, each strict.

import type { Catalog } from '../../domain/catalog.ts';
import type { ChatAuth, Harness, Mount, RemoteAuth, Tool } from '../../domain/spec.ts';
import { RESOURCE_NAME } from '../../domain/spec.ts';
import { plainSecretRef } from './check-env.ts';
import { mountsGrant } from './check-mounts.ts';
import type { Check, MapSpot, Reader, NodeRef } from './read.ts';
import {
  boolean,
  compact,
  fault,
  faultAt,
  field,
  items,
  listOf,
  map,
  oneOf,
  optional,
  pathOf,
  recordOf,
  required,
  resourceName,
  strict,
  string,
  suggest,
  text,
  wrong,
} from './read.ts';

export interface ToolWorld {
  readonly harness: Harness | undefined;
  /** Undefined where the mounts are wrong, so that what they grant is unknown. */
  readonly mounts: readonly Mount[] | undefined;
  readonly catalog: Catalog;
}

const RESERVED: { readonly [harness in Harness]: readonly string[] } = { 'harness-a': ['workspace'], 'harness-b': [] };
const COMMON = ['kind', 'disabled', 'description'];
const description = text({ what: 'a description' });

export function checkTools(
  check: Check,
  spot: NodeRef,
  world: ToolWorld,
): { readonly [alias: string]: Tool } | undefined {
  return recordOf((_, at, alias) => {
    if (!RESOURCE_NAME.test(alias)) {
      const message = `A tool alias must be 1 to 128 of the characters A-Z a-z 0-9 _ . -`;
      fault(check, 'name-invalid', message, at.key, pathOf(at.trail));
    } else if (world.harness !== undefined && RESERVED[world.harness].includes(alias)) {
      fault(
        check,
        'tool-alias-reserved',
        `The tool alias ${alias} is reserved by ${world.harness}`,
        at.key,
        pathOf(at.trail),
      );
    }
    return checkTool(check, at, world);
  }, 'a map from alias to tool')(check, spot);
}

function checkTool(check: Check, spot: NodeRef, world: ToolWorld): Tool | undefined {
  const found = map(check, spot, 'a map with the kind of a tool');
  if (found === undefined) return undefined;
  const kind = required(check, found, 'kind', oneOf(['mcp_remote', 'connection', 'local', 'codehost'] as const));
  if (kind === 'mcp_remote') return checkRemote(check, found);
  if (kind === 'connection') return checkConnection(check, found);
  if (kind === 'local') return checkLocal(check, found);
  return kind === 'codehost' ? checkCodehost(check, found, world) : undefined;
}

const common = (check: Check, spot: MapSpot) => ({
  disabled: optional(check, spot, 'disabled', boolean),
  description: optional(check, spot, 'description', description),
});

const httpsUrl: Reader<string> = (check, spot) => {
  const value = string(check, spot, 'an https URL');
  if (value === undefined) return undefined;
  const url = /^https:\/\/[^/\s?#]/i.test(value) && !/\s/.test(value) ? URL.parse(value) : null;
  if (url === null) return wrong(check, spot, 'an https URL');
  if (url.username === '' && url.password === '' && !/^https:\/\/[^/?#]*@/i.test(value)) return value;
  const message = `${pathOf(spot.trail)} must not hold a user name or password`;
  const hint = 'Put the credential into a secret, and name it with auth: { kind: bearer, token: { $secret: <name> } }.';
  return faultAt(check, 'invalid-value', message, spot, { hint, hides: spot.node.range });
};

function checkRemote(check: Check, spot: MapSpot): Tool | undefined {
  strict(check, spot, [...COMMON, 'url', 'transport', 'auth']);
  const url = required(check, spot, 'url', httpsUrl);
  const transport = optional(check, spot, 'transport', oneOf(['streamable_http'] as const)) ?? 'streamable_http';
  const declared = field(spot, 'auth');
  const auth: RemoteAuth | undefined = declared === undefined ? { kind: 'none' } : checkRemoteAuth(check, declared);
  const shared = common(check, spot);
  if (url === undefined || auth === undefined) return undefined;
  return compact<Tool>({ kind: 'mcp_remote', ...shared, url, transport, auth });
}

const REMOTE_AUTH = {
  none: ['kind'],
  bearer: ['kind', 'token'],
  mcp_oauth: ['kind', 'connection', 'optional'],
  provider_oauth: ['kind', 'provider', 'connection', 'optional'],
} as const;
const REMOTE_AUTH_KINDS = ['none', 'bearer', 'mcp_oauth', 'provider_oauth'] as const;
const providerName = text({ most: 64, what: 'a provider name' });

function checkRemoteAuth(check: Check, spot: NodeRef): RemoteAuth | undefined {
  const found = map(check, spot);
  const kind = found && required(check, found, 'kind', oneOf(REMOTE_AUTH_KINDS));
  if (found === undefined || kind === undefined) return undefined;
  strict(check, found, REMOTE_AUTH[kind]);
  if (kind === 'none') return { kind };
  if (kind === 'bearer') {
    const token = required(check, found, 'token', plainSecretRef);
    return token === undefined ? undefined : { kind, token };
  }
  const connection = required(check, found, 'connection', resourceName);
  const isOptional = optional(check, found, 'optional', boolean);
  const provider = kind === 'mcp_oauth' ? '' : required(check, found, 'provider', providerName);
  if (connection === undefined || provider === undefined) return undefined;
  if (kind === 'mcp_oauth') return compact<RemoteAuth>({ kind, connection, optional: isOptional });
  return compact<RemoteAuth>({ kind, provider, connection, optional: isOptional });
}

function checkConnection(check: Check, spot: MapSpot): Tool | undefined {
  strict(check, spot, [...COMMON, 'provider', 'connection', 'optional']);
  const pair = checkPair(check, spot);
  const isOptional = optional(check, spot, 'optional', boolean);
  const shared = common(check, spot);
  return pair && compact<Tool>({ kind: 'connection', ...shared, ...pair, optional: isOptional });
}

function checkPair(check: Check, spot: MapSpot): { provider: string; connection: string } | undefined {
  const provider = required(check, spot, 'provider', providerName);
  const connection = required(check, spot, 'connection', resourceName);
  return provider === undefined || connection === undefined ? undefined : { provider, connection };
}

const LOCAL = ['svc', 'chat', 'ping'] as const;

function checkLocal(check: Check, spot: MapSpot): Tool | undefined {
  const implementation = required(check, spot, 'implementation', oneOf(LOCAL));
  if (implementation === undefined) return undefined;
  const own = { svc: ['capabilities'], chat: ['auth'], ping: [] }[implementation];
  strict(check, spot, [...COMMON, 'implementation', ...own]);
  const shared = common(check, spot);
  if (implementation === 'ping') return compact<Tool>({ kind: 'local', ...shared, implementation });
  if (implementation === 'svc') {
    const capabilities = optional(check, spot, 'capabilities', checkBilling) ?? { billing: 'none' };
    return compact<Tool>({ kind: 'local', ...shared, implementation, capabilities });
  }
  const auth = required(check, spot, 'auth', checkChatAuth);
  return auth && compact<Tool>({ kind: 'local', ...shared, implementation, auth });
}

const checkBilling: Reader<{ readonly billing: 'none' | 'read' | 'write' }> = (check, spot) => {
  const found = strict(check, spot, ['billing']);
  const billing = found && optional(check, found, 'billing', oneOf(['none', 'read', 'write'] as const));
  return { billing: billing ?? 'none' };
};

const checkChatAuth: Reader<ChatAuth> = (check, spot) => {
  const found = map(check, spot, 'a map with a kind');
  const kind = found && required(check, found, 'kind', oneOf(['connection', 'connections'] as const));
  if (found === undefined || kind === undefined) return undefined;
  const isOptional = optional(check, found, 'optional', boolean);
  if (kind === 'connection') {
    strict(check, found, ['kind', 'provider', 'connection', 'optional']);
    const pair = checkPair(check, found);
    return pair && compact<ChatAuth>({ kind, ...pair, optional: isOptional });
  }
  strict(check, found, ['kind', 'connections', 'optional']);
  const connections = required(
    check,
    found,
    'connections',
    listOf(
      (c, item) => {
        const entry = strict(c, item, ['provider', 'connection']);
        return entry && checkPair(c, entry);
      },
      'a list of provider and connection pairs',
      1,
    ),
  );
  return connections && compact<ChatAuth>({ kind, connections, optional: isOptional });
};

function checkCodehost(check: Check, spot: MapSpot, world: ToolWorld): Tool {
  strict(check, spot, [...COMMON, 'tools']);
  const shared = common(check, spot);
  const tools = optional(check, spot, 'tools', (_, at) => {
    const names = items(check, at, 'a list of tool names', 1) ?? [];
    return names.map((item) => checkToolName(check, item, world) ?? '');
  });
  return compact<Tool>({ kind: 'codehost', ...shared, tools });
}

function checkToolName(check: Check, spot: NodeRef, world: ToolWorld): string | undefined {
  const name = string(check, spot, 'the name of a code-host tool');
  if (name === undefined) return undefined;
  const known = world.catalog.codehostTools;
  if (!Object.hasOwn(known, name)) {
    const near = suggest(check, name, Object.keys(known), 3);
    const hint = near === undefined ? 'Omit tools for the default list.' : `Did you mean ${near}?`;
    return faultAt(check, 'tool-unknown', `${show40(name)} is not a tool of the code host`, spot, { hint });
  }
  const need = known[name]?.needs;
  if (need === undefined || world.mounts === undefined || mountsGrant(world.mounts, need)) return name;
  const wants = need === 'merge' ? 'merge: write' : 'secrets: read or write';
  const message = `The tool ${name} requires a mount with the capability ${wants}`;
  return faultAt(check, 'tool-capability', message, spot, {
    hint: `Declare ${wants} under a mount's auth.capabilities.`,
  });
}

const show40 = (name: string): string => JSON.stringify(name.slice(0, 40).toWellFormed());
