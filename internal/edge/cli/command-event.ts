// `svc event …`: what came in, why it did what it did, and once more.

import * as events from '../../../schemas/api/events.ts';
import { connect, type Client } from './client.ts';
import { wholeId } from './ids.ts';
import { rowOf, showList } from './lists.ts';
import { eventText, explainedEventText, routesText, targetText } from './print-event.ts';
import { statusColour } from './print-run.ts';
import { clean, nearest, relativeTime } from './text.ts';
import type { Call, Handler } from './types.ts';

const idOf = (call: Call, client: Client): Promise<string> =>
  wholeId(client, { operation: events.listEvents }, call.arg('ID'));

export const eventList: Handler = async (call) => {
  const client = await connect(call);
  const now = call.screen.now();
  return showList(call, client, {
    operation: events.listEvents,
    input: {
      query: {
        key: call.text('key'),
        status: call.text('status'),
        severity: call.text('severity'),
        endpoint: call.text('endpoint'),
      },
    },
    limit: 50,
    empty: 'no events',
    whenEmpty: async () => {
      const endpoint = call.text('endpoint');
      if (endpoint !== undefined) await (await import('./selector.ts')).requireEndpoint(client, endpoint);
      await doubt(call);
    },
    head: ['received', 'key', 'status', 'target', 'what came of it', 'id'],
    row: (event) => {
      const status = event.text('routerStatus');
      const severity = event.at('severity');
      const shown = typeof severity === 'string' ? `${status} (${severity})` : status;
      return [
        relativeTime(event.at('receivedAt'), now),
        event.text('key'),
        { text: shown, colour: statusColour(typeof severity === 'string' ? severity : status) },
        targetText(event.at('target')),
        routesText(event.at('routes')),
        event.text('id'),
      ];
    },
  });
};

/** A key without events that is nearly one of those that sources emit; a webhook may name any key, so it is no mistake. */
async function doubt(call: Call): Promise<void> {
  const key = call.text('key');
  if (key === undefined || key.includes('*')) return;
  const { knownEvents } = await import('../../domain/events.ts');
  const near = knownEvents.has(key) ? undefined : nearest(key, knownEvents);
  if (near !== undefined) call.screen.note(`no known source emits ${clean(key, true)}: did you mean ${near}?`);
}

export const eventShow: Handler = async (call) => {
  const client = await connect(call);
  const event = await client.call(events.getEvent, { params: { id: await idOf(call, client) } });
  call.screen.emit(event, () => eventText(event, { paint: call.screen.paint, now: call.screen.now() }));
  return 0;
};

export const eventExplain: Handler = async (call) => {
  const client = await connect(call);
  const params = { id: await idOf(call, client) };
  const answer = await client.call(events.explainEvent, { params });
  const event = await client.call(events.getEvent, { params });
  const options = { paint: call.screen.paint, now: call.screen.now() };
  call.screen.emit(answer, () => explainedEventText(event, answer, options));
  return 0;
};

export const eventReplay: Handler = async (call) => {
  const client = await connect(call);
  const answer = await client.call(events.replayEvent, { params: { id: await idOf(call, client) } });
  const id = rowOf(answer).text('eventRecordId');
  call.screen.emit(answer, () => `recorded again as ${clean(id, true)}; svc event explain ${clean(id, true)}`);
  return 0;
};
