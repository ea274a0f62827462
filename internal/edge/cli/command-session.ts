// `svc session …` and `svc binding …`: what runs, what it says, and who holds what.

import { connect, type Client } from './client.ts';
import { wholeId } from './ids.ts';
import { readText, wholeNumber } from './input.ts';
import { Misuse, refusal } from './failure.ts';
import { rowOf, short, showList } from './lists.ts';
import { targetText } from './print-event.ts';
import { statusColour } from './print-run.ts';
import { costText, joinPieces, messageText, sessionText, stateText } from './print-session.ts';
import { clean, relativeTime } from './text.ts';
import type { Call, Handler } from './types.ts';

async function pathOf(call: Call, client: Client, rest = ''): Promise<string> {
  const id = await wholeId(client, { path: '/sessions' }, call.arg('ID'));
  return client.project(`/sessions/${encodeURIComponent(id)}${rest}`);
}

export const sessionList: Handler = async (call) => {
  const client = await connect(call);
  const now = call.screen.now();
  return showList(call, client, {
    path: client.project('/sessions'),
    query: { agent: call.text('agent'), state: call.text('state'), live: call.flag('live') || undefined },
    limit: 50,
    empty: call.flag('live') ? 'no live sessions' : 'no sessions',
    head: ['created', 'active', 'agent', 'state', 'cost', 'title', 'id'],
    row: (session) => [
      relativeTime(session.raw('createdAt') as string, now),
      relativeTime(session.raw('lastActiveAt') as string, now),
      session.text('agent'),
      { text: session.text('state').replaceAll('_', ' '), colour: statusColour(session.text('state')) },
      costText(session),
      short(session.text('displayTitle')),
      session.text('id'),
    ],
  });
};

export const sessionShow: Handler = async (call) => {
  const client = await connect(call);
  const session = await client.request('GET', await pathOf(call, client));
  call.screen.emit(session, () => sessionText(session, { paint: call.screen.paint, now: call.screen.now() }));
  return 0;
};

export const sessionLogs: Handler = async (call) => {
  const client = await connect(call);
  const tail = wholeNumber(call, 'tail', 0, 10_000);
  const path = await pathOf(call, client);
  if (call.flag('follow')) return follow(call, client, path, tail);
  const page = await transcript(client, path, tail);
  const { paint } = call.screen;
  call.screen.emit(page, () =>
    page.items.length === 0
      ? 'no messages'
      : joinPieces(page.items)
          .map((one) => messageText(one, paint))
          .join('\n\n'),
  );
  return 0;
};

/** The whole transcript, or the newest messages of it, in order. */
async function transcript(client: Client, path: string, tail: number | undefined) {
  if (tail === undefined) return client.list(`${path}/messages`);
  if (tail === 0) return { items: [], nextCursor: null };
  const newest = await client.list(`${path}/messages`, { order: 'desc' }, tail);
  return { items: newest.items.toReversed(), nextCursor: null };
}

/** Messages and changes of state as they come, until the session has ended. */
async function follow(call: Call, client: Client, path: string, tail: number | undefined): Promise<number> {
  const { screen } = call;
  let after: number | undefined;
  if (tail !== undefined) {
    const [newest] = (await client.list(`${path}/messages`, { order: 'desc' }, 1)).items;
    after = Number(rowOf(newest).raw('seq') ?? 0);
    for (const one of (await transcript(client, path, tail)).items) {
      screen.stream(one, () => `${messageText(one, screen.paint)}\n\n`);
      after = Math.max(after, Number(rowOf(one).raw('seq') ?? 0));
    }
  }
  let state = '';
  for await (const event of client.events(`${path}/stream`, { after })) {
    const value = parsed(event.data);
    if (event.event === 'message') screen.stream(value, () => `${messageText(value, screen.paint)}\n\n`);
    if (event.event !== 'state') continue;
    const told = stateText(value, screen.paint);
    // After a broken connection it is told again.
    if (told !== state) screen.stream(value, () => `${told}\n\n`);
    state = told;
    if (rowOf(value).raw('live') === false) return 0;
  }
  return 0;
}

function parsed(data: string): unknown {
  try {
    return JSON.parse(data);
  } catch {
    // Not ours: a keep-alive of something between.
    return undefined;
  }
}

export const sessionCalls: Handler = async (call) => {
  const client = await connect(call);
  const now = call.screen.now();
  return showList(call, client, {
    path: await pathOf(call, client, '/calls'),
    query: {},
    limit: 50,
    empty: 'no calls',
    head: ['at', 'tool', 'kind', 'status', 'why', 'url'],
    row: (one) => [
      relativeTime(one.raw('at') as string, now),
      `${one.text('alias')} ${one.text('tool')}`,
      one.raw('write') === true ? 'write' : 'read',
      { text: one.text('status'), colour: statusColour(one.text('status')) },
      short(one.text('code')),
      one.text('url'),
    ],
  });
};

export const sessionSend: Handler = async (call) => {
  const given = call.arg('MESSAGE');
  const text = given === '-' ? await readText(call, '-', 'MESSAGE') : given;
  if (text.trim() === '') throw new Misuse('the message is empty');
  const client = await connect(call);
  const path = await pathOf(call, client, '/messages');
  const answer = await client.request('POST', path, { body: { text } });
  call.screen.emit(answer ?? { id: call.arg('ID'), status: 'sent' }, () => `sent to ${clean(call.arg('ID'), true)}`);
  return 0;
};

export const sessionAllow: Handler = (call) => answer(call, call.flag('always') ? 'allow_always' : 'allow');
export const sessionReject: Handler = (call) => answer(call, 'reject');

async function answer(call: Call, decision: 'allow' | 'allow_always' | 'reject'): Promise<number> {
  const client = await connect(call);
  const path = await pathOf(call, client);
  const session = rowOf(await client.request('GET', path));
  const open = ((session.raw('permissions') ?? []) as readonly unknown[]).map(rowOf);
  const wanted = call.optionalArg('REQUEST');
  const request = wanted === undefined ? open[0] : open.find((one) => one.text('id') === wanted);
  if (request === undefined) {
    throw refusal(
      'permission-closed',
      wanted === undefined ? 'the session asks for nothing' : 'it asks for no such thing',
    );
  }
  const id = request.text('id');
  await client.request('POST', `${path}/permissions/${encodeURIComponent(id)}`, { body: { decision } });
  const done = decision === 'reject' ? 'rejected' : 'allowed';
  call.screen.emit({ id, decision }, () => `${done}: ${clean(request.text('title'), true)}`);
  return 0;
}

export const sessionArchive: Handler = async (call) => {
  const client = await connect(call);
  const answer = await client.request('POST', await pathOf(call, client, '/archive'));
  const id = call.arg('ID');
  call.screen.emit(answer ?? { id, status: 'archived' }, () => `archived ${clean(id, true)}`);
  return 0;
};

export const bindingList: Handler = async (call) => {
  const client = await connect(call);
  const now = call.screen.now();
  return showList(call, client, {
    path: client.project('/bindings'),
    query: { all: call.flag('all') || undefined, agent: call.text('agent') },
    limit: 50,
    empty: 'no bindings',
    head: ['bound', 'agent', 'target', 'state', 'lifecycle', 'continuity', 'session', 'id'],
    row: (binding) => [
      relativeTime(binding.raw('createdAt') as string | undefined, now),
      binding.text('agent'),
      targetText(binding),
      { text: binding.text('state'), colour: statusColour(binding.text('state')) },
      binding.text('lifecycle'),
      binding.text('continuity'),
      binding.raw('sessionId') === null ? 'waits for one' : binding.text('sessionId'),
      binding.text('id'),
    ],
  });
};

export const bindingRelease: Handler = async (call) => {
  const client = await connect(call);
  const id = await wholeId(client, { path: '/bindings' }, call.arg('ID'));
  const answer = await client.request('DELETE', client.project(`/bindings/${encodeURIComponent(id)}`));
  call.screen.emit(answer ?? { id, status: 'released' }, () => `released ${clean(id, true)}`);
  return 0;
};
