// `svc event …`, `svc session …`, `svc binding …`: what came in and what runs.

import { connect } from './client.ts';
import { explainText } from './command-trigger.ts';
import { jsonLines, rowOf, type Row, short, showList } from './lists.ts';
import { statusColour } from './print-run.ts';
import { clean, relativeTime } from './text.ts';
import type { Call, Handler } from './types.ts';

const eventPath = (call: Call, rest = ''): string => `/events/${encodeURIComponent(call.arg('ID'))}${rest}`;
const sessionPath = (call: Call, rest = ''): string => `/sessions/${encodeURIComponent(call.arg('ID'))}${rest}`;
const targetText = (row: Row): string =>
  row.raw('target') === null || row.raw('target') === undefined
    ? '-'
    : `${row.text('target.type')} ${row.text('target.key')}`;

export const eventList: Handler = async (call) => {
  const client = await connect(call);
  const now = call.screen.now();
  return showList(call, client, {
    path: client.project('/events'),
    query: { key: call.text('key'), status: call.text('status') },
    limit: 50,
    empty: 'no events',
    head: ['received', 'key', 'status', 'target', 'routes', 'id'],
    row: (event) => [
      relativeTime(event.raw('receivedAt') as string, now),
      event.text('key'),
      {
        text: event.text('routerStatus'),
        colour: statusColour(event.text('severity') === '-' ? event.text('routerStatus') : event.text('severity')),
      },
      targetText(event),
      Array.isArray(event.raw('routes')) ? String((event.raw('routes') as unknown[]).length) : '-',
      event.text('id'),
    ],
  });
};

export const eventShow: Handler = async (call) => {
  const client = await connect(call);
  const event = await client.request('GET', client.project(eventPath(call)));
  call.screen.emit(event, () => jsonLines(event));
  return 0;
};

export const eventExplain: Handler = async (call) => {
  const client = await connect(call);
  const answer = await client.request('GET', client.project(eventPath(call, '/explain')));
  call.screen.emit(answer, () => explainText(answer, call.screen.paint));
  return 0;
};

export const eventReplay: Handler = async (call) => {
  const client = await connect(call);
  const answer = await client.request('POST', client.project(eventPath(call, '/replay')));
  call.screen.emit(answer ?? { id: call.arg('ID'), status: 'replayed' }, () => `routing ${call.arg('ID')} again`);
  return 0;
};

export const sessionList: Handler = async (call) => {
  const client = await connect(call);
  const now = call.screen.now();
  return showList(call, client, {
    path: client.project('/sessions'),
    query: { agent: call.text('agent'), live: call.flag('live') || undefined },
    limit: 50,
    empty: 'no sessions',
    head: ['created', 'agent', 'state', 'title', 'id'],
    row: (session) => [
      relativeTime(session.raw('createdAt') as string, now),
      session.text('agent'),
      { text: session.text('state'), colour: statusColour(session.text('state')) },
      short(session.text('displayTitle')),
      session.text('id'),
    ],
  });
};

export const sessionShow: Handler = async (call) => {
  const client = await connect(call);
  const session = await client.request('GET', client.project(sessionPath(call)));
  call.screen.emit(session, () => jsonLines(session));
  return 0;
};

export const sessionLogs: Handler = async (call) => {
  const client = await connect(call);
  const page = await client.list(client.project(sessionPath(call, '/messages')));
  for (const message of page.items) logMessage(call, message);
  if (!call.flag('follow')) return 0;
  const seen = new Set(page.items.map((message) => rowOf(message).text('seq')));
  for await (const event of client.events(client.project(sessionPath(call, '/stream')))) {
    const message = parsed(event.data);
    const seq = rowOf(message).text('seq');
    if (seq === '-' || seen.has(seq)) continue;
    seen.add(seq);
    logMessage(call, message);
  }
  return 0;
};

function parsed(data: string): unknown {
  try {
    return JSON.parse(data);
  } catch {
    // Not a message: a keep-alive or an event of another kind.
    return undefined;
  }
}

function logMessage(call: Call, value: unknown): void {
  const message = rowOf(value);
  const { paint } = call.screen;
  call.screen.stream(value, () => {
    const head = `${paint('grey', message.text('at'))}  ${paint('bold', clean(message.text('role'), true))}  ${paint('grey', clean(message.text('kind'), true))}`;
    return `${head}\n${clean(message.text('text')).replace(/^/gm, '    ')}`;
  });
}

export const sessionSend: Handler = async (call) => {
  const client = await connect(call);
  const answer = await client.request('POST', client.project(sessionPath(call, '/messages')), {
    body: { text: call.arg('MESSAGE') },
  });
  call.screen.emit(answer ?? { id: call.arg('ID'), status: 'sent' }, () => 'sent');
  return 0;
};

export const sessionArchive: Handler = async (call) => {
  const client = await connect(call);
  const answer = await client.request('POST', client.project(sessionPath(call, '/archive')));
  call.screen.emit(answer ?? { id: call.arg('ID'), status: 'archived' }, () => `archived ${call.arg('ID')}`);
  return 0;
};

export const bindingList: Handler = async (call) => {
  const client = await connect(call);
  return showList(call, client, {
    path: client.project('/bindings'),
    query: { all: call.flag('all') || undefined },
    limit: 50,
    empty: 'no bindings',
    head: ['agent', 'target', 'state', 'lifecycle', 'continuity', 'session', 'id'],
    row: (binding) => [
      binding.text('agent'),
      targetText(binding),
      { text: binding.text('state'), colour: statusColour(binding.text('state')) },
      binding.text('lifecycle'),
      binding.text('continuity'),
      binding.text('sessionId'),
      binding.text('id'),
    ],
  });
};

export const bindingRelease: Handler = async (call) => {
  const client = await connect(call);
  const answer = await client.request('DELETE', client.project(`/bindings/${encodeURIComponent(call.arg('ID'))}`));
  call.screen.emit(answer ?? { id: call.arg('ID'), status: 'released' }, () => `released ${call.arg('ID')}`);
  return 0;
};
