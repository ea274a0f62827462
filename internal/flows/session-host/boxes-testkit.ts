// For kill tests of sessions in boxes of an engine: what the API shows of one, and what has to hold after something was
// killed. Only tests import this.

import assert from 'node:assert/strict';
import type { Api, JsonBody } from '../../base/testkit/daemon.ts';
import { eventually } from './host-crash-testkit.ts';

export interface Box {
  readonly name: string;
  readonly epoch: number;
  readonly runs: boolean;
}
export type BoxesOf = (session: string) => readonly Box[] | Promise<readonly Box[]>;

export const readSession = async (api: Api, session: string): Promise<JsonBody> =>
  (await api('GET', `P/sessions/${session}`)).body;

export const stateOf = async (api: Api, session: string): Promise<string> =>
  String((await readSession(api, session))['state']);

export async function saidIn(api: Api, session: string): Promise<string> {
  const { body } = await api('GET', `P/sessions/${session}/messages?limit=200`);
  const items = body['items'] as unknown as { kind: string; text: string }[];
  return items.flatMap((one) => (one.kind === 'text' ? [one.text] : [])).join('');
}

/** Waits until a session has said this, rests, and nothing waits for it. */
export const atRest = (api: Api, session: string, text: string): Promise<void> =>
  eventually(`it said ${text}`, async () => {
    const { state, inbox } = await readSession(api, session);
    if (state !== ('idle' as never) || inbox?.['pending'] !== (0 as never)) return false;
    return (await saidIn(api, session)).includes(text);
  });

/** The boxes of a session that run. */
export const running = async (boxesOf: BoxesOf, session: string): Promise<Box[]> =>
  (await boxesOf(session)).filter(({ runs }) => runs);

/**
 * Waits for `ready.` of a session and gives it a turn that hangs where `hangs`, a shell command of the box, succeeds, and
 * says `after.` elsewhere. The box that it hangs in.
 */
export async function hang(
  api: Api,
  session: string,
  { boxesOf, hangs }: { readonly boxesOf: BoxesOf; readonly hangs: (box: Box) => string },
): Promise<Box> {
  await atRest(api, session, 'ready.');
  const [box] = await running(boxesOf, session);
  assert.ok(box !== undefined);
  const text = `!exec if ${hangs(box)}; then sleep 600; fi\n!say after.`;
  const sent = await api('POST', `P/sessions/${session}/messages`, { text });
  assert.ok(sent.status < 300, JSON.stringify(sent.body));
  await eventually('it runs', async () => (await stateOf(api, session)) === 'running');
  return box;
}

/** The message of that turn was delivered again and nothing failed; one box, of a later epoch, runs. */
export async function wentOn(
  api: Api,
  session: string,
  { boxesOf, before }: { readonly boxesOf: BoxesOf; readonly before: Box },
): Promise<void> {
  await atRest(api, session, 'after.');
  const { inbox } = await readSession(api, session);
  assert.deepEqual(inbox, { pending: 0, inFlight: 0, done: 2, failed: 0 } as never);
  const [now, ...more] = await running(boxesOf, session);
  assert.deepEqual(more, []);
  assert.ok((now?.epoch ?? 0) > before.epoch, `${now?.name} after ${before.name}`);
}

const chunks = 200;
/** What the turn of `stream` says, before `after.`. */
export const streamed = Array.from({ length: chunks }, (_, n) => `chunk ${n + 1} `).join('');

/** Gives a session at `ready.` a turn that streams for four seconds; the box that it runs in, once it has begun. */
export async function stream(
  api: Api,
  session: string,
  boxesOf: BoxesOf,
  { before = '', behind = '!say after.' }: { readonly before?: string; readonly behind?: string } = {},
): Promise<Box> {
  await atRest(api, session, 'ready.');
  const [box] = await running(boxesOf, session);
  assert.ok(box !== undefined);
  const sent = await api('POST', `P/sessions/${session}/messages`, {
    text: `${before}!stream ${chunks} 20\n${behind}`,
  });
  assert.ok(sent.status < 300, JSON.stringify(sent.body));
  await eventually('it has begun', async () => (await saidIn(api, session)).includes('chunk 5 '));
  return box;
}

/** That turn went on in that box: nothing failed, nothing was told, and nothing was given in again. */
export async function wentThrough(
  api: Api,
  session: string,
  { boxesOf, box }: { readonly boxesOf: BoxesOf; readonly box: Box },
): Promise<void> {
  const { body } = await api('GET', `P/sessions/${session}/messages?limit=200`);
  const items = body['items'] as unknown as { kind: string; text: string }[];
  const notices = items.filter(({ kind }) => kind === 'notice').map(({ text }) => text);
  assert.deepEqual(notices, []);
  const { inbox } = await readSession(api, session);
  assert.deepEqual(inbox, { pending: 0, inFlight: 0, done: 2, failed: 0 } as never);
  const names = (await running(boxesOf, session)).map(({ name }) => name);
  assert.deepEqual(names, [box.name]);
}
