// The broker of the code host (docs/reference/tools.md#the-code-host): which tools an alias has, what each may touch, and the
// calls themselves. Every call is confined to a mount and its capabilities before anything is asked, runs on a token for that
// one repository and no more than it needs, and leaves a row; writes go through the outbox. Never hands out a token and never
// acts for a repository that no mount names.

import { scrypt } from 'node:crypto';
import { promisify } from 'node:util';
import { codehostInputProblems, codehostToolSchema } from '../../../schemas/codehost-tools.ts';
import type { InputSchema } from '../../../schemas/tool-input.ts';
import type { SealedConnection } from '../../adapters/store/secrets/credentials.ts';
import type { Json, JsonObject } from '../../domain/json.ts';
import { outsideFault } from '../../domain/outside.ts';
import type { ToolCaller } from '../../adapters/store/sessions/tool-callers.ts';
import type { Catalog } from '../../domain/catalog.ts';
import { Fault } from '../../domain/fault.ts';
import { objectAt, textAt } from '../../domain/fields.ts';
import type { AgentSpec, Tool } from '../../domain/spec.ts';
import { codehostOf, codehosts, settingText } from '../codehost-mounts.ts';
import type { FlowContext, ProjectRef } from '../context.ts';
import { type Call, performRead, performWrite, refusedBefore, type Step } from '../outbox/outbox.ts';
import { connectionSecrets } from '../sealed.ts';
import type { Permissions } from '../installation-token.ts';
import { CodehostCall } from './codehost-call.ts';
import { body, type BrokerTool, sentSince, text } from './tool.ts';
import { checkAttachment, download, noteAnswer } from './attachments.ts';
import { type AppMount, confine, hasCapability, missing, mountsWith, type Want } from './confine.ts';
import { checkSearch, type Rows, searchTools, searchOne } from './search.ts';
import { listed } from './shape.ts';
import { codeTools } from './tools-code.ts';
import { issueTools } from './tools-issues.ts';
import { pullTools } from './tools-pulls.ts';
import { reviewTools } from './tools-reviews.ts';
import { workTools } from './tools-work.ts';
import { tieWritten } from './ties.ts';
import { idAndUrl, named } from '../../adapters/providers/codehost/codehost.ts';

export { gitUpstream, type GitUpstream, noteRefusedPush, sendPush } from './git.ts';
export { CodehostCall } from './codehost-call.ts';
export { findCodehostStep } from './lookup.ts';

const toolsByName: { readonly [name: string]: BrokerTool } = {
  ...issueTools,
  ...pullTools,
  ...reviewTools,
  ...codeTools,
  ...workTools,
};
/** Without owner and repo: what they name says whose it is. */
const byId = new Set(['resolve_review_thread', 'unresolve_review_thread']);
/** Names whose capability is asked for before they are shown at all (docs/reference/compile.md#tools). */
const shownWith: { readonly [needs: string]: readonly string[] } = { merge: ['merge'], secrets: ['secrets'] };

/** What the provider's own tool server reads, where one is configured: of a named repository alone. */
function remoteOf(ctx: FlowContext, name: string): BrokerTool | undefined {
  const url = ctx.outbox?.codehostMcpUrl;
  const required = (codehostToolSchema(name, false)?.['required'] ?? []) as readonly string[];
  if (url === undefined || !/^(get|list)_/.test(name) || !required.includes('owner') || !required.includes('repo'))
    return undefined;
  return {
    about: '',
    effect: 'none',
    write: false,
    wants: () => ['contents:read'],
    run: (codehost, { input }) => codehost.remote(url, name, input),
  };
}

const ownOf = (name: string): BrokerTool | undefined =>
  Object.hasOwn(toolsByName, name) ? toolsByName[name] : undefined;
const isServed = (name: string): boolean =>
  ownOf(name) !== undefined || searchOf(name) !== undefined || name === 'download_attachment';
const toolOf = (ctx: FlowContext, name: string): BrokerTool | undefined =>
  ownOf(name) ?? (isServed(name) ? undefined : remoteOf(ctx, name));
const searchOf = (name: string) => (Object.hasOwn(searchTools, name) ? searchTools[name] : undefined);

export interface BrokerListing {
  readonly name: string;
  readonly description: string;
  readonly inputSchema: InputSchema;
  readonly effect: 'none' | 'adds' | 'takes';
}

/** Whether a name is one of the tools of an alias. */
export function isBrokered(
  name: string,
  { tools }: Extract<Tool, { kind: 'codehost' }>,
  mounts: AgentSpec['mounts'],
  catalog: Catalog['codehostTools'],
): boolean {
  const entry = Object.hasOwn(catalog, name) ? catalog[name] : undefined;
  if (entry === undefined) return false;
  return (tools?.includes(name) ?? entry.default === true) && isShown(mounts, name, entry.needs);
}

/** The tools of an alias: those that it names or the defaults, less what its mounts keep from it. */
export function brokerTools(
  tool: Extract<Tool, { kind: 'codehost' }>,
  mounts: AgentSpec['mounts'],
  catalog: Catalog['codehostTools'],
): readonly BrokerListing[] {
  return [...new Set(tool.tools ?? Object.keys(catalog))]
    .filter((name) => isBrokered(name, tool, mounts, catalog))
    .map((name) => {
      const own = ownOf(name);
      const about = own?.about ?? searchOf(name)?.about ?? `Code host: ${name.replaceAll('_', ' ')}.`;
      const schema = codehostToolSchema(name, own?.write === true) ?? { type: 'object', additionalProperties: true };
      return { name, description: about, inputSchema: schema, effect: own?.effect ?? 'none' };
    });
}

function isShown(mounts: AgentSpec['mounts'], name: string, needs: string | undefined): boolean {
  if (needs === undefined) return true;
  const level = /list/.test(name) ? 'read' : 'write';
  return mounts.some(
    (mount) =>
      mount.auth.kind === 'codehostApp' &&
      (shownWith[needs] ?? []).every((capability) => hasCapability(mount as AppMount, capability, level)),
  );
}

export interface BrokerCall {
  readonly ctx: FlowContext;
  readonly caller: ToolCaller;
  readonly alias: string;
  readonly name: string;
  readonly input: unknown;
}

/** Calls a tool that `brokerTools` lists. Throws Fault with a code of domain/outside.ts. */
export async function callCodehost(call: BrokerCall): Promise<Json> {
  const { ctx, caller, alias, name } = call;
  const given = objectAt((call.input ?? {}) as Json);
  const { idempotencyKey: key, ...input } = given;
  const own = toolOf(ctx, name);
  const isWrite = own?.write === true && (own.isWrite?.(input) ?? true);
  const row: Call = {
    project: caller.project,
    sessionId: caller.sessionId,
    provider: 'codehost',
    connectionId: null,
    alias,
    tool: name,
  };
  let plan: Plan;
  try {
    const problems = codehostInputProblems(name, own?.write === true, call.input ?? {});
    if (problems.length > 0) throw outsideFault('invalid-input', problems.join('; '));
    plan = await planOf(call, input);
  } catch (error) {
    if (error instanceof Fault) await refusedBefore(ctx, row, { write: isWrite, code: error.code });
    throw error;
  }
  const answer = await run(call, { input, key: textAt(key), isWrite, row, plan });
  await noteAnswer(ctx, caller.sessionId, answer);
  return answer;
}

/** Repositories that the call is tried at, in order: one, but where its mount is not named. */
interface Plan {
  readonly calls: readonly CodehostCall[];
}

async function planOf(call: BrokerCall, input: JsonObject): Promise<Plan> {
  const { ctx, caller, name } = call;
  const { spec } = caller;
  const own = toolOf(ctx, name);
  const search = searchOf(name);
  if (search !== undefined) checkSearch(input);
  if (name === 'download_attachment') await checkAttachment(ctx, caller, text(input, 'url'));
  const wants = search?.wants ?? own?.wants(input);
  if (wants === undefined && name !== 'download_attachment') throw notAvailable(name);
  const isNamed = input['owner'] !== undefined || (own !== undefined && !byId.has(name));
  const places = isNamed
    ? [confine(spec, { owner: text(input, 'owner'), repo: text(input, 'repo') }, wants ?? [])]
    : anywhere(spec, name, wants);
  own?.check?.(input);
  const hosts = await codehosts(ctx, caller.project);
  return { calls: places.map(({ mount, permissions }) => codehostCallOf(call, mount, permissions, hosts)) };
}

/** Every mount that may do it, where the call names none. */
function anywhere(spec: Pick<AgentSpec, 'mounts'>, name: string, wants: readonly Want[] | undefined) {
  const tries: readonly (readonly Want[])[] = wants === undefined ? [['contents:read'], ['talk:read']] : [wants];
  for (const some of tries) {
    const mounts = mountsWith(spec, some);
    if (mounts.length === 0) continue;
    return mounts.map((mount) => {
      const [owner = '', repo = ''] = mount.repository.split('/');
      return confine(spec, { owner, repo }, some);
    });
  }
  if (spec.mounts.every((mount) => mount.auth.kind !== 'codehostApp')) {
    throw outsideFault('repository-not-mounted', `${name} needs a mount, and this session has none of the code host`);
  }
  throw missing(tries[0] ?? []);
}

function codehostCallOf(
  { ctx, caller }: BrokerCall,
  mount: AppMount,
  permissions: Permissions,
  hosts: readonly SealedConnection[],
): CodehostCall {
  let connection: SealedConnection;
  try {
    connection = codehostOf(mount, hosts);
  } catch (error) {
    if (error instanceof Fault) throw outsideFault('connection-inactive', error.message);
    throw error;
  }
  return new CodehostCall({
    ctx,
    project: caller.project,
    connection,
    installationId: mount.auth.installationId,
    repository: mount.repository,
    permissions,
    session: { id: caller.sessionId, agent: caller.agent },
  });
}

interface Running {
  readonly input: JsonObject;
  readonly key: string | undefined;
  readonly isWrite: boolean;
  readonly row: Call;
  readonly plan: Plan;
}

async function run(call: BrokerCall, { input, key, isWrite, row, plan }: Running): Promise<Json> {
  const { ctx, caller, name } = call;
  const [first] = plan.calls;
  const connectionId = first?.options.connection.id ?? null;
  const asked = { ctx, caller, input };
  if (!isWrite) return performRead(ctx, { ...row, connectionId }, () => read(call, plan.calls, input));
  return performWrite(ctx, {
    ...row,
    connectionId,
    actor: { kind: 'session', id: caller.sessionId, name: caller.agent },
    idempotencyKey: key,
    input: await hashed(input, key, caller.sessionId),
    run: async (step, callId) => {
      const answer = await atOne(plan.calls, (codehost) =>
        (toolOf(ctx, name) as BrokerTool).run(codehost.writing(step, callId), asked),
      );
      const url = textAt(objectAt(answer)['url']);
      const { project, sessionId } = caller;
      const isChange = input['method'] === 'update';
      await tieWritten(ctx, { projectId: project.id, sessionId, tool: name, isChange, url });
      return { answer, url };
    },
  });
}

/** At the first repository that knows what the call names; a mount's name, where it names one, has left one. */
async function atOne(calls: readonly CodehostCall[], run: (codehost: CodehostCall) => Promise<Json>): Promise<Json> {
  for (const [index, codehost] of calls.entries()) {
    try {
      return await run(codehost);
    } catch (error) {
      if (!(error instanceof Fault) || error.code !== 'not-found' || index === calls.length - 1) throw error;
    }
  }
  throw outsideFault('not-found', 'no mount of this session has it');
}

async function read(call: BrokerCall, calls: readonly CodehostCall[], input: JsonObject): Promise<Json> {
  const { ctx, caller, name } = call;
  const search = searchOf(name);
  if (search !== undefined) {
    const found: Rows[] = [];
    for (const codehost of calls) found.push(await searchOne(codehost, search, input));
    const next = found.some((one) => one.nextPage !== undefined) ? Number(input['page'] ?? 1) + 1 : undefined;
    return listed(
      found.flatMap((one) => one.items),
      next,
    );
  }
  if (name === 'download_attachment') return atOne(calls, (codehost) => download(codehost, caller, text(input, 'url')));
  return atOne(calls, (codehost) => (toolOf(ctx, name) as BrokerTool).run(codehost, { ctx, caller, input }));
}

const derive = promisify<string, string, number, Buffer>(scrypt);
/** The input as the outbox tells calls apart; a value that is a secret as what nobody guesses it from. */
async function hashed(input: JsonObject, key: string | undefined, sessionId: string): Promise<Json> {
  const { value, ...rest } = input;
  if (value === undefined || key === undefined) return rest;
  return { ...rest, value: (await derive(textAt(value) ?? '', `${sessionId} ${key}`, 32)).toString('base64') };
}

/** Why a name of the catalog cannot be called. */
function notAvailable(name: string): Fault {
  if (name === 'get_me')
    return outsideFault('not-available', 'a session acts as an installation, which is nobody; nothing was done');
  return outsideFault('not-available', `${name} needs a permission that no mount capability grants; nothing was done`);
}

// What the service itself says on a pull request or an issue, as a step of a write of its own.

export interface OwnComment {
  readonly project: Pick<ProjectRef, 'id' | 'orgId'>;
  readonly connection: SealedConnection;
  /** `owner/name` */
  readonly repository: string;
  readonly number: number;
  readonly permission: 'issues' | 'pull_requests';
  readonly text: string;
}

/** Comments; answers with `{id, url}`. Throws Fault with a code of domain/outside.ts. */
export function commentOn(ctx: FlowContext, of: OwnComment, step: Step, callId: string): Promise<JsonObject> {
  const { project, connection, repository, number, permission, text } = of;
  // A bare token was given for reading; only an installation writes.
  if (settingText(connectionSecrets(ctx, connection)['privateKey']) === undefined) {
    throw outsideFault('credential-refused', `connection ${connection.name} has no private key; nothing was done`);
  }
  const codehost = new CodehostCall({
    ctx,
    project,
    connection,
    installationId: undefined,
    repository,
    permissions: { [permission]: 'write' },
    session: null,
  }).writing(step, callId);
  const path = `/issues/${number}/comments`;
  return codehost.write(
    { method: 'POST', path, body: { body: body(codehost, text) } },
    {
      probe: { kind: 'marked', path, since: sentSince(codehost), answer: 'id' },
      shape: (json) => idAndUrl(named(json)),
    },
  );
}
