// `svc agent …`: what is stored of agents, and starting one by hand.

import * as agents from '../../../schemas/api/agents.ts';
import * as sessions from '../../../schemas/api/sessions.ts';
import { agent } from '../../../schemas/agent.ts';
import { type AnyVariants, type Desc, keysOf } from '../../../schemas/grammar.ts';
import type { DryRun, Spending } from '../../../schemas/api/common.ts';
import { isExactNumber, readPayload } from '../../core/match/match.ts';
import { connect } from './client.ts';
import { reasonBody, dryRun, isMeant } from './confirm.ts';
import { UsageError } from './failure.ts';
import { readJson } from './input.ts';
import { jsonLines, type Row, rowOf, short, showList } from './lists.ts';
import { shortCommit } from './print-run.ts';
import { clean, details, relativeTime, table } from './text.ts';
import type { Call, Handler } from './types.ts';

/** `manual`, or the repository's name. */
const ownerText = (agent: Row<agents.ListedAgent>): string =>
  agent.text(agent.at('owner.name') === undefined ? 'owner.kind' : 'owner.name');

export const agentList: Handler = async (call) => {
  const client = await connect(call);
  return showList(call, client, {
    operation: agents.listAgents,
    empty: 'no agents',
    head: ['name', 'revision', 'harness', 'environment', 'triggers', 'owner', 'updated'],
    row: (agent) => {
      const triggers = agent.at('spec.triggers');
      return [
        agent.text('name'),
        agent.text('revision'),
        agent.text('spec.harness'),
        agent.text('spec.environment'),
        Array.isArray(triggers) ? String(triggers.length) : '-',
        ownerText(agent),
        relativeTime(agent.at('updatedAt'), call.screen.now()),
      ];
    },
    agentOf: (agent) => agent.text('name'),
    wide: {
      head: ['model', 'labels', 'source', 'commit', 'id'],
      row: (agent) => [
        agent.text('spec.model'),
        Object.entries(agent.at('spec.labels') ?? {})
          .map(([label, value]) => `${label}=${value}`)
          .join(',') || '-',
        agent.text('source.file'),
        shortCommit(agent.at('commit')),
        agent.text('resourceId'),
      ],
    },
  });
};

export const agentShow: Handler = async (call) => {
  const client = await connect(call);
  const params = { name: call.arg('NAME') };
  const withOrigins = call.flag('origins');
  const query = { ...(withOrigins && { origins: 'true' as const }), ...(!call.json && { counts: 'true' as const }) };
  const stored = await client.call(agents.getAgent, { params, query });
  const value = { ...stored, spec: inOrder(stored.spec) as typeof stored.spec };
  const used = call.json ? undefined : rowOf(await client.call(agents.getAgentUsage, { params }));
  call.screen.emit(value, () => {
    const agent = rowOf(value);
    const head = details(
      [
        ['agent', call.screen.paint('bold', clean(agent.text('name'), true))],
        ...identityRows(value.identity),
        ['id', agent.text('resourceId')],
        ['revision', agent.text('revision')],
        ['owner', clean(ownerText(agent), true)],
        ['commit', value.commit === null ? undefined : shortCommit(value.commit)],
        [
          'applied',
          `${clean(agent.text('updatedAt'), true)} (${relativeTime(agent.at('updatedAt'), call.screen.now())})`,
        ],
        ['source', clean(agent.text('source.file'), true)],
        ['used today', spentText(used, 'day', agent.at('spec.spendCaps.dailyUsd'))],
        ['this month', spentText(used, 'month', agent.at('spec.spendCaps.monthlyUsd'))],
        ['session max', maxText(agent.at('spec.spendCaps.maxPerSessionUsd'))],
        ['triggers', countText(value.counts?.triggers)],
        ['sessions', sessionsText(value.counts)],
      ],
      call.screen.paint,
    );
    if (withOrigins) return `${head}\n\n${originLines(call, value)}`;
    return `${head}\n\n${call.screen.paint('bold', 'spec')}\n${jsonLines(value.spec, '  ')}`;
  });
  return 0;
};

/** How it appears to people; of its picture where that lies in the tree. */
function identityRows(identity: agents.AgentIdentity | undefined): (readonly [string, string | undefined])[] {
  const { displayName, username, description, avatar } = identity ?? {};
  const said = (text: string | undefined): string | undefined => (text === undefined ? undefined : clean(text, true));
  return [
    ['display name', said(displayName)],
    ['username', said(username)],
    ['description', said(description)],
    ['avatar', said(avatar?.asset)],
  ];
}

/** Values that are one line, each with the layer and the place that it comes from. */
function originLines(call: Call, { spec, origins }: agents.Agent): string {
  if (origins === undefined || origins === null) return 'what it was made of is not kept any more';
  const paths = Object.keys(origins);
  // A path that another begins with holds that one.
  const isLeaf = (path: string): boolean =>
    !paths.some((other) => other.startsWith(`${path}.`) || other.startsWith(`${path}[`));
  const rows = paths.filter(isLeaf).map((path) => {
    const { layer, file, line } = origins[path] ?? { layer: 'default', file: null, line: null };
    const place = file === null ? '' : `${file}${line === null ? '' : `:${line}`}`;
    return [path, short(JSON.stringify(valueAt(spec, path)) ?? '', 40), layer, place];
  });
  return table(['path', 'value', 'layer', 'place'], rows, call.screen);
}

/** The value at a path such as `triggers[0].where["$.a"]`. */
function valueAt(spec: unknown, path: string): unknown {
  let value: unknown = spec;
  for (const [, word, bracket] of path.matchAll(/([^.[\]"]+)|\[("(?:[^"\\]|\\.)*")\]/g)) {
    const step = bracket === undefined ? word : (JSON.parse(bracket) as string);
    value = Object(value)[step ?? ''];
  }
  return value;
}

/** `$1.20 of $5`; nothing where nothing was used and no cap is set. */
function spentText(used: Row<Spending> | undefined, span: 'day' | 'month', cap: unknown): string | undefined {
  const cost = used?.at(`${span}.costUsd`);
  const isIdle = Number(used?.at(`${span}.calls`) ?? 0) === 0;
  if (typeof cost !== 'string' || (isIdle && cap === undefined)) return undefined;
  return `$${clean(cost, true)}${typeof cap === 'string' ? ` of $${clean(cap, true)}` : ''}`;
}

const maxText = (cap: unknown): string | undefined => (typeof cap === 'string' ? `$${clean(cap, true)}` : undefined);
/** What a server of before does not count is left out. */
const countText = (count: number | undefined): string | undefined => (count === undefined ? undefined : String(count));
const sessionsText = (counts: agents.Agent['counts']): string | undefined =>
  counts === undefined ? undefined : `${counts.sessions}, ${counts.liveSessions} live`;

export const agentHistory: Handler = async (call) => {
  const client = await connect(call);
  return showList(call, client, {
    operation: agents.listAgentRevisions,
    input: { params: { name: call.arg('NAME') }, query: call.json ? {} : { view: 'row' } },
    empty: 'no revisions',
    head: ['revision', 'created', 'commit', 'run'],
    row: (revision) => [
      revision.text('revision'),
      relativeTime(revision.at('createdAt'), call.screen.now()),
      shortCommit(revision.at('commit')),
      revision.text('reconcileId'),
    ],
  });
};

export const agentStart: Handler = async (call) => {
  const file = call.text('input');
  const message = call.text('message');
  if (message?.trim() === '') throw new UsageError('--message is empty');
  const input = file === undefined ? undefined : await readJson(call, file, '--input', readPayload);
  const client = await connect(call);
  const body = { ...(message !== undefined && { message }), ...(input !== undefined && { input }) };
  const session = await client.call(sessions.startSession, { params: { name: call.arg('NAME') }, body });
  call.screen.emit(session, () => {
    const id = clean(rowOf(session).text('id'), true);
    return `started session ${id}\nits messages: svc session logs -f ${id}`;
  });
  return 0;
};

export const agentDelete: Handler = async (call) => {
  const client = await connect(call);
  const name = call.arg('NAME');
  const look = async () => (await client.call(agents.deleteAgent, { params: { name }, query: dryRun })) as DryRun;
  if (!(await isMeant(call, `deleting ${name}`, look))) return 0;
  await client.call(agents.deleteAgent, { params: { name }, ...reasonBody(call) });
  call.screen.emit({ name, status: 'deleted' }, () => `deleted ${name}`);
  return 0;
};

// A stored spec in the order of the reference: the database keeps keys by their length, which nobody reads by.

type Members = { readonly [key: string]: unknown };
const isMap = (value: unknown): value is Members =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** The spec with the fields of every map in the order of their table; what a newer server knows beside them last. */
export const inOrder = (spec: unknown): Members => ordered(agent, Object(spec)) as Members;

function ordered(desc: Desc | undefined, value: unknown): unknown {
  if (Array.isArray(value)) {
    const item = desc?.kind === 'list' ? desc.item : undefined;
    return value.map((one) => ordered(item, one));
  }
  if (desc === undefined || !isMap(value) || isExactNumber(value)) return value;
  if (desc.kind === 'either') return ordered(desc.parts, value);
  if (desc.kind === 'record')
    return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, ordered(desc.value, one)]));
  if (desc.kind === 'variants') return withFirst(desc, value);
  if (desc.kind !== 'group') return value;
  const known = keysOf(desc).filter((key) => Object.hasOwn(value, key));
  const keys = [...new Set([...known, ...Object.keys(value)])];
  return Object.fromEntries(keys.map((key) => [key, ordered(desc.fields[key], value[key])]));
}

/** What tells the variants apart stands first, as authors write it. */
function withFirst({ by, variants }: AnyVariants, value: Members): Members {
  const name = value[by];
  const desc = typeof name === 'string' && Object.hasOwn(variants, name) ? variants[name] : undefined;
  const sorted = ordered(desc, value) as Members;
  return Object.hasOwn(sorted, by) ? { [by]: sorted[by], ...sorted } : sorted;
}
