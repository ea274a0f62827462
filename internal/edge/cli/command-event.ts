// `svc event …`: what came in, why it did what it did, and once more.

import { connect, type Client } from './client.ts';
import { wholeId } from './ids.ts';
import { rowOf, showList } from './lists.ts';
import { eventText, explainedEventText, routesText, targetText } from './print-event.ts';
import { statusColour } from './print-run.ts';
import { clean, relativeTime } from './text.ts';
import type { Call, Handler } from './types.ts';

async function pathOf(call: Call, client: Client, rest = ''): Promise<string> {
  const id = await wholeId(client, { path: '/events' }, call.arg('ID'));
  return client.project(`/events/${encodeURIComponent(id)}${rest}`);
}

export const eventList: Handler = async (call) => {
  const client = await connect(call);
  const now = call.screen.now();
  return showList(call, client, {
    path: client.project('/events'),
    query: { key: call.text('key'), status: call.text('status'), severity: call.text('severity') },
    limit: 50,
    empty: 'no events',
    head: ['received', 'key', 'status', 'target', 'what came of it', 'id'],
    row: (event) => {
      const status = event.text('routerStatus');
      const severity = event.raw('severity');
      const shown = typeof severity === 'string' ? `${status} (${severity})` : status;
      return [
        relativeTime(event.raw('receivedAt') as string, now),
        event.text('key'),
        { text: shown, colour: statusColour(typeof severity === 'string' ? severity : status) },
        targetText(event),
        routesText(event.raw('routes')),
        event.text('id'),
      ];
    },
  });
};

export const eventShow: Handler = async (call) => {
  const client = await connect(call);
  const event = await client.request('GET', await pathOf(call, client));
  call.screen.emit(event, () => eventText(event, { paint: call.screen.paint, now: call.screen.now() }));
  return 0;
};

export const eventExplain: Handler = async (call) => {
  const client = await connect(call);
  const path = await pathOf(call, client);
  const answer = await client.request('GET', `${path}/explain`);
  const event = call.json ? undefined : await client.request('GET', path);
  const options = { paint: call.screen.paint, now: call.screen.now() };
  call.screen.emit(answer, () => explainedEventText(event, answer, options));
  return 0;
};

export const eventReplay: Handler = async (call) => {
  const client = await connect(call);
  const answer = await client.request('POST', await pathOf(call, client, '/replay'));
  const id = rowOf(answer).text('eventRecordId');
  call.screen.emit(answer, () => `recorded again as ${clean(id, true)}; svc event explain ${clean(id, true)}`);
  return 0;
};
