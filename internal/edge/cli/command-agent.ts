// `svc agent …`: what is stored of agents, and starting one by hand.

import { readPayload } from '../../core/match/match.ts';
import { connect, type Client } from './client.ts';
import { Misuse } from './failure.ts';
import { readJson } from './input.ts';
import { jsonLines, type Row, rowOf, showList } from './lists.ts';
import { shortCommit } from './print-run.ts';
import { clean, details, relativeTime } from './text.ts';
import type { Handler } from './types.ts';

const agentPath = (client: Client, name: string, rest = ''): string =>
  client.project(`/agents/${encodeURIComponent(name)}${rest}`);

/** `manual`, or the repository's name. */
const ownerText = (agent: Row): string =>
  agent.text(agent.raw('owner.name') === undefined ? 'owner.kind' : 'owner.name');

export const agentList: Handler = async (call) => {
  const client = await connect(call);
  return showList(call, client, {
    path: client.project('/agents'),
    empty: 'no agents',
    head: ['name', 'revision', 'harness', 'environment', 'triggers', 'owner', 'updated'],
    row: (agent) => {
      const triggers = agent.raw('spec.triggers');
      return [
        agent.text('name'),
        agent.text('revision'),
        agent.text('spec.harness'),
        agent.text('spec.environment'),
        Array.isArray(triggers) ? String(triggers.length) : '-',
        ownerText(agent),
        relativeTime(agent.raw('updatedAt') as string | undefined, call.screen.now()),
      ];
    },
  });
};

export const agentShow: Handler = async (call) => {
  const client = await connect(call);
  const path = agentPath(client, call.arg('NAME'));
  const value = await client.request('GET', path);
  const used = call.json ? undefined : rowOf(await client.request('GET', `${path}/usage`));
  call.screen.emit(value, () => {
    const agent = rowOf(value);
    const head = details(
      [
        ['agent', call.screen.paint('bold', clean(agent.text('name'), true))],
        ['id', agent.text('resourceId')],
        ['revision', agent.text('revision')],
        ['owner', clean(ownerText(agent), true)],
        ['source', clean(agent.text('source.file'), true)],
        ['used today', spentText(used, 'day', agent.raw('spec.spendCaps.dailyUsd'))],
        ['this month', spentText(used, 'month', agent.raw('spec.spendCaps.monthlyUsd'))],
      ],
      call.screen.paint,
    );
    return `${head}\n\n${call.screen.paint('bold', 'spec')}\n${jsonLines(agent.raw('spec') ?? {}, '  ')}`;
  });
  return 0;
};

/** `$1.20 of $5`; nothing where nothing was used and no cap is set. */
function spentText(used: Row | undefined, span: 'day' | 'month', cap: unknown): string | undefined {
  const cost = used?.raw(`${span}.costUsd`);
  const isIdle = Number(used?.raw(`${span}.calls`) ?? 0) === 0;
  if (typeof cost !== 'string' || (isIdle && cap === undefined)) return undefined;
  return `$${clean(cost, true)}${typeof cap === 'string' ? ` of $${clean(cap, true)}` : ''}`;
}

export const agentHistory: Handler = async (call) => {
  const client = await connect(call);
  return showList(call, client, {
    path: agentPath(client, call.arg('NAME'), '/revisions'),
    empty: 'no revisions',
    head: ['revision', 'created', 'commit', 'run'],
    row: (revision) => [
      revision.text('revision'),
      relativeTime(revision.raw('createdAt') as string | undefined, call.screen.now()),
      shortCommit(revision.raw('commit') as string | null),
      revision.text('reconcileId'),
    ],
  });
};

export const agentStart: Handler = async (call) => {
  const file = call.text('input');
  const message = call.text('message');
  if (message?.trim() === '') throw new Misuse('--message is empty');
  const input = file === undefined ? undefined : await readJson(call, file, '--input', readPayload);
  const client = await connect(call);
  const body = { ...(message !== undefined && { message }), ...(input !== undefined && { input }) };
  const session = await client.request('POST', agentPath(client, call.arg('NAME'), '/sessions'), { body });
  call.screen.emit(session, () => {
    const id = clean(rowOf(session).text('id'), true);
    return `started session ${id}\nits messages: svc session logs -f ${id}`;
  });
  return 0;
};

export const agentDelete: Handler = async (call) => {
  const client = await connect(call);
  const name = call.arg('NAME');
  const answer = await client.request('DELETE', agentPath(client, name));
  call.screen.emit(answer ?? { name, status: 'deleted' }, () => `deleted ${name}`);
  return 0;
};
