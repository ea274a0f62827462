// The hidden marker `<!-- svc:v=1 session=<id> agent=<name> -->` (docs/reference/routing.md#attributions): it ties a session
// to the target of the event that brings it, where the text was written by the service's own app or bot. Anybody else's
// counts for nothing.

import { connectionsByIds } from '../../adapters/store/connections/connections.ts';
import { type LiveSession, sessionsNamed } from '../../adapters/store/routing/routing.ts';
import type { RoutingTx } from '../../adapters/store/routing/routing-lock.ts';
import { isBotLogin } from '../../adapters/providers/codehost/codehost.ts';
import { objectAt, textAt } from '../../domain/fields.ts';
import type { Json, JsonObject } from '../../domain/json.ts';
import { uuidPattern } from '../../domain/uuid.ts';

interface Marker {
  readonly sessionId: string;
  readonly agent: string;
  /** `created`: in the thing itself; `posted`: in something said about it. */
  readonly relation: 'created' | 'posted';
}

const shape = new RegExp(
  String.raw`<!--\s*svc:v=1\s+session=(${uuidPattern})\s+agent=([A-Za-z0-9_.-]{1,128})\s*-->`,
  'g',
);
const markersMax = 20;

/** Where code-host and tracker payloads keep what was written, and what the writing made. */
const places: readonly (readonly [part: string, relation: Marker['relation']])[] = [
  ['issueComment', 'posted'],
  ['review', 'posted'],
  ['reviewComment', 'posted'],
  ['commitComment', 'posted'],
  ['comment', 'posted'],
  ['pullRequest', 'created'],
  ['issue', 'created'],
];

/** The markers that count, each once. `botLogin`: who the service is on the event's connection, where that is known. */
function markersIn(payload: Json, botLogin: string | undefined): Marker[] {
  const root = objectAt(payload);
  const found = new Map<string, Marker>();
  for (const { text, relation } of ownTexts(root, botLogin)) {
    for (const [, sessionId = '', agent = ''] of text.matchAll(shape)) {
      if (found.size < markersMax) found.set(`${sessionId} ${relation}`, { sessionId, agent, relation });
    }
  }
  return [...found.values()];
}

/** Whether bytes of a payload may hold a marker at all: most do not, and are not looked into. */
export const mayHoldMarker = (...bytes: readonly (Buffer | null)[]): boolean =>
  bytes.some((part) => part?.includes('svc:v=1') === true);

interface Text {
  readonly text: string;
  readonly relation: Marker['relation'];
}

function ownTexts(root: JsonObject, botLogin: string | undefined): Text[] {
  const message = objectAt(root['message']);
  const chat: Text[] =
    objectAt(message['author'])['isMe'] === true ? [{ text: textAt(message['text']) ?? '', relation: 'posted' }] : [];
  return [...chat, ...partsOf(root, 'codehost', botLogin), ...partsOf(root, 'tracker', undefined)];
}

/**
 * The texts of a code host's or tracker's event that the service wrote. What the event itself makes or edits is its own
 * where the event is; beside that, what its author is known to have written, as long as nobody else edits it just now.
 */
function partsOf(root: JsonObject, source: 'codehost' | 'tracker', botLogin: string | undefined): Text[] {
  const event = objectAt(root[source]);
  const isAuthored = objectAt(root['svc'])['authored'] === true;
  const isEdit = event['action'] === 'edited' || event['action'] === 'updated';
  const present = places.filter(([part]) => event[part] !== undefined);
  const [subject] = present;
  return present.flatMap(([part, relation]): Text[] => {
    const said = objectAt(event[part]);
    const isSubject = part === subject?.[0];
    const isOwn = isSubject && makes(event, part) ? isAuthored : isBot(said['author'], botLogin) && !isEdit;
    const text = textAt(said['body']) ?? textAt(said['description']) ?? '';
    return isOwn ? [{ text, relation }] : [];
  });
}

const making = ['opened', 'created', 'submitted', 'edited', 'updated'];
/** A comment or review is what its event is about; of a pull request or issue, only some events write its text. */
const makes = (event: JsonObject, part: string): boolean =>
  (part !== 'pullRequest' && part !== 'issue') || making.includes(textAt(event['action']) ?? '');

function isBot(author: Json | undefined, botLogin: string | undefined): boolean {
  const login = textAt(author);
  return login !== undefined && botLogin !== undefined && isBotLogin(login, botLogin);
}

export interface MarkedSession extends LiveSession {
  readonly relation: Marker['relation'];
}
interface MarkedEvent {
  readonly id: string;
  readonly connectionId: string | null;
  readonly payload: Json;
}

/** The live sessions that the service's own texts name, by event; a marker that names no such session is nothing. */
export async function sessionsMarked(
  tx: RoutingTx,
  events: readonly MarkedEvent[],
): Promise<ReadonlyMap<string, readonly MarkedSession[]>> {
  if (events.length === 0) return new Map();
  const connections = await connectionsByIds(tx, [...new Set(events.flatMap((event) => event.connectionId ?? []))]);
  const found = events.map(({ id, connectionId, payload }): readonly [string, readonly Marker[]] => {
    const config = connections.get(connectionId ?? '');
    return [id, markersIn(payload, textAt(config?.['botLogin']))];
  });
  const named = [...new Set(found.flatMap(([, markers]) => markers.map((marker) => marker.sessionId)))];
  const live = new Map((await sessionsNamed(tx, named)).filter((one) => one.live).map((one) => [one.sessionId, one]));
  return new Map(
    found.map(([id, markers]) => [
      id,
      markers.flatMap(({ sessionId, agent, relation }) => {
        const session = live.get(sessionId);
        return session?.agent === agent ? [{ ...session, relation }] : [];
      }),
    ]),
  );
}
