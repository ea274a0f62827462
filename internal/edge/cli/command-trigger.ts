// `svc trigger …`, `svc endpoint …`, `svc schedule list`: what wakes agents.

import { readPayload } from '../../core/match/match.ts';
import { connect, type Client } from './client.ts';
import { Misuse } from './failure.ts';
import { readJson } from './input.ts';
import { rowOf, type Row, short, showList } from './lists.ts';
import { explainText } from './print-event.ts';
import { statusColour } from './print-run.ts';
import { clean, details, relativeTime, table } from './text.ts';
import type { Call, Handler } from './types.ts';

const endpointPath = (client: Client, name: string): string => client.project(`/endpoints/${encodeURIComponent(name)}`);

export const triggerList: Handler = async (call) => {
  const client = await connect(call);
  return showList(call, client, {
    path: client.project('/triggers'),
    query: { agent: call.text('agent') },
    empty: 'no triggers',
    head: ['agent', '#', 'event', 'through', 'routing', 'where', 'status'],
    row: (trigger) => {
      const through = trigger.raw('endpoint') ?? trigger.raw('connection');
      return [
        trigger.text('agent'),
        trigger.text('ordinal'),
        trigger.text('event'),
        typeof through === 'string' ? through : '-',
        routingText(trigger) + (trigger.raw('fallback') === true ? ' (fallback)' : ''),
        whereText(trigger.raw('where')),
        { text: trigger.text('status'), colour: statusColour(trigger.text('status')) },
      ];
    },
  });
};

function routingText(trigger: Row): string {
  const kind = trigger.text('routing.kind');
  const target = trigger.raw('routing.target') ?? trigger.raw('routing.routeBy.kind');
  return typeof target === 'string' ? `${kind} ${target}` : kind;
}

function whereText(where: unknown): string {
  const clauses = Object.entries(Object(where));
  return clauses.length === 0
    ? '-'
    : short(clauses.map(([path, clause]) => `${path}=${JSON.stringify(clause)}`).join(' '));
}

export const triggerExplain: Handler = async (call) => {
  const event = call.text('event');
  const file = call.text('payload');
  if (event === undefined || file === undefined) throw new Misuse('--event KEY and --payload FILE are needed');
  const payload = await readJson(call, file, '--payload', readPayload);
  const endpoint = call.text('endpoint');
  const client = await connect(call);
  const body = { event, payload, ...(endpoint !== undefined && { endpoint }) };
  const answer = await client.request('POST', client.project('/triggers/explain'), { body });
  call.screen.emit(answer, () => explainText(answer, call.screen.paint));
  return 0;
};

export const endpointList: Handler = async (call) => {
  const client = await connect(call);
  return showList(call, client, {
    path: client.project('/endpoints'),
    empty: 'no webhook endpoints',
    head: ['name', 'status', 'auth', 'triggers', 'problems', 'address'],
    row: (endpoint) => [
      endpoint.text('name'),
      { text: endpoint.text('status'), colour: statusColour(endpoint.text('status')) },
      authText(endpoint),
      countOf(endpoint.raw('triggers')),
      countOf(endpoint.raw('problems')),
      endpoint.text('ingestUrl'),
    ],
  });
};

const countOf = (list: unknown): string => (Array.isArray(list) ? String(list.length) : '-');
const authText = (endpoint: Row): string =>
  endpoint.raw('auth.secretRef') === undefined
    ? endpoint.text('auth.kind')
    : `${endpoint.text('auth.kind')} (${endpoint.text('auth.secretRef')})`;

export const endpointShow: Handler = async (call) => {
  const client = await connect(call);
  const value = await client.request('GET', endpointPath(client, call.arg('NAME')));
  call.screen.emit(value, () => endpointText(value, call));
  return 0;
};

const REPLAYS = 'only a dedupKey in the body stops one; the signature covers the body alone';

function endpointText(value: unknown, call: Call): string {
  const { paint, width } = call.screen;
  const endpoint = rowOf(value);
  const lines = [
    details(
      [
        ['endpoint', paint('bold', clean(endpoint.text('name'), true))],
        ['status', paint(statusColour(endpoint.text('status')), endpoint.text('status'))],
        ['address', paint('cyan', clean(endpoint.text('ingestUrl'), true))],
        ['slug', endpoint.text('slug')],
        ['auth', clean(authText(endpoint), true)],
        // As the contract wants it told wherever an endpoint is shown (section 3).
        ['replays', endpoint.raw('auth.kind') === 'hmac_sha256' ? REPLAYS : undefined],
      ],
      paint,
    ),
  ];
  const triggers = (endpoint.raw('triggers') ?? []) as readonly unknown[];
  if (triggers.length > 0) {
    const rows = triggers.map(rowOf).map((row) => [row.text('agent'), row.text('ordinal'), row.text('event')]);
    lines.push('', table(['agent', '#', 'event'], rows, { paint, width }));
  }
  const problems = ((endpoint.raw('problems') ?? []) as readonly unknown[]).map(rowOf);
  if (problems.length > 0) lines.push('');
  for (const problem of problems) {
    const severity = problem.text('severity');
    lines.push(`${paint(statusColour(severity), `${severity}:`)} ${clean(problem.text('message'))}`);
  }
  return lines.join('\n');
}

export const endpointReserve: Handler = async (call) => {
  const client = await connect(call);
  const value = await client.request('POST', client.project('/endpoints'), { body: { name: call.arg('NAME') } });
  call.screen.emit(value, () => `reserved for one hour: ${clean(rowOf(value).text('ingestUrl'), true)}`);
  return 0;
};

export const endpointDelete: Handler = async (call) => {
  const client = await connect(call);
  const name = call.arg('NAME');
  const answer = await client.request('DELETE', endpointPath(client, name));
  call.screen.emit(answer ?? { name, status: 'deleted' }, () => `deleted ${name}`);
  return 0;
};

export const scheduleList: Handler = async (call) => {
  const client = await connect(call);
  const now = call.screen.now();
  return showList(call, client, {
    path: client.project('/schedules'),
    empty: 'no schedules',
    head: ['agent', '#', 'cron', 'time zone', 'next', 'last', 'last status', 'id'],
    row: (schedule) => [
      schedule.text('agent'),
      schedule.text('ordinal'),
      schedule.text('cron'),
      schedule.text('timezone'),
      relativeTime(schedule.raw('nextAt') as string | null, now),
      relativeTime(schedule.raw('lastAt') as string | null, now),
      schedule.text('lastStatus'),
      schedule.text('scheduleId'),
    ],
  });
};
