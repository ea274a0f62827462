// The last step of the tour: a webhook is posted, a session starts, and its answer is shown.

import { setTimeout as sleep } from 'node:timers/promises';
import { call } from './register.ts';

const triesMax = 300;
const pauseMs = 100;

interface Route {
  readonly sessionId?: string;
}

/** Posts to an endpoint and waits for the answer of the session that it starts; undefined where none comes in time. */
export async function postAndAwaitAnswer(
  dataDir: string,
  ingestUrl: string,
  body: object,
): Promise<{ readonly sessionId: string; readonly answered: boolean } | undefined> {
  const posted = await fetch(ingestUrl, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  const { eventRecordId } = Object(await posted.json()) as { eventRecordId?: string };
  if (eventRecordId === undefined) return undefined;
  let sessionId: string | undefined;
  for (let tries = 0; tries < triesMax; tries += 1) {
    sessionId ??= await sessionOf(dataDir, eventRecordId);
    if (sessionId !== undefined && (await hasAnswered(dataDir, sessionId))) return { sessionId, answered: true };
    await sleep(pauseMs);
  }
  return sessionId === undefined ? undefined : { sessionId, answered: false };
}

async function sessionOf(dataDir: string, eventId: string): Promise<string | undefined> {
  const { body } = await call(dataDir, 'GET', `/events/${eventId}`);
  return (Object(body) as { routes?: readonly Route[] }).routes?.find((one) => one.sessionId !== undefined)?.sessionId;
}

async function hasAnswered(dataDir: string, sessionId: string): Promise<boolean> {
  const { body } = await call(dataDir, 'GET', `/sessions/${sessionId}/messages`);
  const { items } = Object(body) as { items?: readonly { readonly role: string }[] };
  const { body: session } = await call(dataDir, 'GET', `/sessions/${sessionId}`);
  const { state } = Object(session) as { state?: string };
  return (items?.some((one) => one.role === 'assistant') === true && state === 'idle') || state === 'failed';
}
