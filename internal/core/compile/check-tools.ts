// Tools by alias (docs/reference/compile.md#tools): one row per kind and implementation, each strict.

import type { Catalog } from '../../domain/catalog.ts';
import type { Harness, Mount, Tool } from '../../domain/spec.ts';
import { agentFields } from '../../../schemas/agent.ts';
import { errtrackToolNames, mcpServerNames } from '../../domain/tool-names.ts';
import { type Fields, keysOf } from '../../../schemas/grammar.ts';
import { codehost, connected, tool } from '../../../schemas/tool.ts';
import { mountsGrant } from './check-mounts.ts';
import { readFields, recordReading, variantOf } from './read-field.ts';
import { Once } from './read-once.ts';
import type { Check, MapRef, NodeRef, Reader } from './read.ts';
import { fault, faultAt, items, map, pathOf, strict, string, suggest, wrong } from './read.ts';

export interface ToolContext {
  readonly harness: Harness | undefined;
  /** Undefined where the mounts are wrong, so that what they grant is unknown. */
  readonly mounts: readonly Mount[] | undefined;
  readonly catalog: Catalog;
}

/** The alias that a harness has for itself. */
const reserved: { readonly [harness in Harness]?: string } = { 'harness-a': 'workspace' };

type Tools = { readonly [alias: string]: Tool };

const once = new Once<Tools>();

/** Of agents with mounts each is read by itself: what a tool may be called rests on what they grant. */
export function checkTools(check: Check, spot: NodeRef, world: ToolContext): Tools | undefined {
  const read = (): Tools | undefined => readTools(check, spot, world);
  const { harness, mounts, catalog } = world;
  return mounts?.length === 0 ? once.read(check, spot.node, [harness, catalog], read) : read();
}

function readTools(check: Check, spot: NodeRef, world: ToolContext): Tools | undefined {
  const seen = new Map<string, NodeRef>();
  const read: Reader<Tool> = (_, at) => {
    const alias = String(at.trail?.step);
    if (!isDisabled(at)) seen.set(alias, at);
    if (world.harness !== undefined && reserved[world.harness] === alias) {
      const message = `The tool alias ${alias} is reserved by ${world.harness}`;
      fault(check, 'tool-alias-reserved', message, at.key, pathOf(at.trail));
    }
    return checkTool(check, at, world);
  };
  const tools = recordReading(agentFields.tools, read)(check, spot);
  checkAlike(check, seen);
  return tools;
}

const isDisabled = ({ node }: NodeRef): boolean => {
  const value = node.kind === 'map' ? node.entries.get('disabled')?.value : undefined;
  return value?.kind === 'scalar' && value.value === true;
};

/** To a harness two aliases of one name would be one server, with half of the tools: the launch would be refused. */
function checkAlike(check: Check, seen: ReadonlyMap<string, NodeRef>): void {
  const named = mcpServerNames([...seen.keys()]);
  for (const group of named.ok ? [] : named.collisions) {
    const message = `Tool aliases look alike to the harness: ${group.join(' and ')}; give each a name of its own`;
    for (const alias of group) {
      const at = seen.get(alias);
      if (at !== undefined) fault(check, 'tool-alias-conflict', message, at.key, pathOf(at.trail));
    }
  }
}

/** The tool of a kind and, where it is local, of an implementation; what needs the catalog or the mounts is read by its own. */
function checkTool(check: Check, spot: NodeRef, world: ToolContext): Tool | undefined {
  const found = map(check, spot, tool.what);
  if (found === undefined) return undefined;
  let desc = variantOf(check, found, tool);
  if (desc?.kind === 'variants') desc = variantOf(check, found, desc);
  if (desc?.kind !== 'group') return undefined;
  const before = check.errors;
  const isConnected = desc.fields === connected.fields;
  // Of the error tracker's tools alone it is known which there are, so that they can be named.
  const isNamed = !isConnected || isErrtrack(found);
  strict(
    check,
    found,
    keysOf(desc).filter((key) => isNamed || key !== 'tools'),
  );
  const fields: Fields = desc.fields;
  const tools = isConnected ? errtrackTools(isNamed) : toolNames(world);
  const read = readFields(check, found, fields, { url: httpsUrl, tools });
  // Every kind's fields were read by the group of that kind.
  return check.errors > before ? undefined : (read as unknown as Tool);
}

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

const isErrtrack = ({ node }: MapRef): boolean => {
  const provider = node.entries.get('provider')?.value;
  return provider?.kind === 'scalar' && provider.value === 'errtrack';
};

/** Exactly these tools of the error tracker; nothing is read where they are no key of it. */
const errtrackTools =
  (isNamed: boolean): Reader<readonly string[]> =>
  (check, spot) => {
    if (!isNamed) return undefined;
    if (spot.node.kind === 'scalar')
      return wrong(check, spot, connected.fields.tools.what, { code: 'invalid-type', hint: errtrackHint });
    const { what, least } = connected.fields.tools;
    const names = items(check, spot, what, { least });
    return names?.map((item) => checkErrtrackTool(check, item) ?? '');
  };

const errtrackHint = `Its tools are ${errtrackToolNames.join(', ')}.`;

function checkErrtrackTool(check: Check, spot: NodeRef): string | undefined {
  const name = string(check, spot, 'the name of a tool');
  if (name === undefined || (errtrackToolNames as readonly string[]).includes(name)) return name;
  return faultAt(check, 'tool-unknown', `${show40(name)} is not a tool of the error tracker`, spot, {
    hint: errtrackHint,
  });
}

/** Exactly these tools of the code host; each is looked at, whatever is wrong with another. */
const toolNames =
  (world: ToolContext): Reader<readonly string[]> =>
  (check, spot) => {
    const { what, least } = codehost.fields.tools;
    const names = items(check, spot, what, { least }) ?? [];
    return names.map((item) => checkToolName(check, item, world) ?? '');
  };

function checkToolName(check: Check, spot: NodeRef, world: ToolContext): string | undefined {
  const name = string(check, spot, 'the name of a code-host tool');
  if (name === undefined) return undefined;
  const known = world.catalog.codehostTools;
  const entry = Object.hasOwn(known, name) ? known[name] : undefined;
  if (entry === undefined) {
    const near = suggest(check, name, Object.keys(known), 3);
    const hint = near === undefined ? 'Omit tools for the default list.' : `Did you mean ${near}?`;
    return faultAt(check, 'tool-unknown', `${show40(name)} is not a tool of the code host`, spot, { hint });
  }
  const need = entry.needs;
  if (need === undefined || world.mounts === undefined || mountsGrant(world.mounts, need)) return name;
  const wants = need === 'merge' ? 'merge: write' : 'secrets: read or write';
  const message = `The tool ${name} requires a mount with the capability ${wants}`;
  return faultAt(check, 'tool-capability', message, spot, {
    hint: `Declare ${wants} under a mount's auth.capabilities.`,
  });
}

const show40 = (name: string): string => JSON.stringify(name.slice(0, 40).toWellFormed());
