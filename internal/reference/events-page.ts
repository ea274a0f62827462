// docs/reference/events.md: every key that a source emits, what its events are about, and what apply asks of a trigger on it.

import {
  EVENT_SOURCES,
  type EventSource,
  KNOWN_EVENTS,
  OPEN_EVENTS,
  SOURCE_NEEDS,
  targetOf,
} from '../domain/events.ts';
import { payloadRows } from '../domain/payloads.ts';
import { code, madeFrom, page, table } from './text.ts';

const NEEDS: { readonly [need in (typeof SOURCE_NEEDS)[EventSource]]: string } = {
  connection: 'Apply asks for an active connection: named, or the only one.',
  endpoint: 'Apply asks for an `endpoint`, and for `auth` where it is new.',
  nothing: 'Apply asks for nothing more.',
};

function sourcePart(source: EventSource): string[] {
  const listed = [...KNOWN_EVENTS].filter((key) => key.startsWith(`${source}.`));
  const open = OPEN_EVENTS.filter((prefix) => prefix.startsWith(`${source}.`) || prefix === `${source}.`);
  const rows = [...listed, ...open.map((prefix) => `${prefix}<name>`)];
  return [
    `## ${source}`,
    NEEDS[SOURCE_NEEDS[source]],
    table(
      ['Key', 'Target'],
      rows.map((key) => [code(key), targetOf(key) ?? 'none']),
    ),
  ];
}

export const eventsPage = (): string =>
  page([
    madeFrom('the tables of events'),
    '# Events',
    'The first word of a key is its source. Keys beyond that are an open set: one that no source emits applies with a warning and never fires. Issues of the error tracker arrive as `svc.errtrack.issue.*`; there is no source of that name. A tick has the key `heartbeat.<agentResourceId>.<ordinal>`, which only its own trigger can match.',
    ...EVENT_SOURCES.flatMap(sourcePart),
    '## Payloads',
    'The paths that `where` and `{{ path }}` read, by the beginning of the key. A path that does not apply is absent; behind `.*` anything may follow. The body of a webhook is its payload as it is.',
    ...payloadRows().flatMap(([prefix, paths]) => [`### ${prefix}`, paths.map(code).join(', ')]),
  ]);
