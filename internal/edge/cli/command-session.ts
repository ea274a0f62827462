// `svc session …` and `svc binding …`: what runs, what it says, and who holds what.

import { writeFile } from 'node:fs/promises';
import type { DryRun } from '../../../schemas/api/common.ts';
import * as bindings from '../../../schemas/api/bindings.ts';
import * as calls from '../../../schemas/api/calls.ts';
import * as sessions from '../../../schemas/api/sessions.ts';
import { type Client, connect, type Page } from './client.ts';
import { dryRun, isMeant, reasonOf } from './confirm.ts';
import { wholeId } from './ids.ts';
import { readText, wholeNumber } from './input.ts';
import { UsageError, refusal } from './failure.ts';
import { short, showList } from './lists.ts';
import { targetText } from './print-event.ts';
import { statusColour } from './print-run.ts';
import { costText, joinPieces, messageText, type SessionChange, sessionText, stateText } from './print-session.ts';
import { isFormat } from './screen.ts';
import { clean, relativeTime } from './text.ts';
import type { Call, Handler } from './types.ts';

const idOf = (call: Call, client: Client): Promise<string> =>
  wholeId(client, { operation: sessions.listSessions }, call.arg('ID'));

export const sessionList: Handler = async (call) => {
  const client = await connect(call);
  const now = call.screen.now();
  return showList(call, client, {
    operation: sessions.listSessions,
    input: { query: { agent: call.text('agent'), state: call.text('state'), live: call.flag('live') || undefined } },
    limit: 50,
    empty: call.flag('live') ? 'no live sessions' : 'no sessions',
    head: ['created', 'active', 'agent', 'state', 'cost', 'title', 'id'],
    row: (session) => [
      relativeTime(session.at('createdAt'), now),
      relativeTime(session.at('lastActiveAt'), now),
      session.text('agent'),
      { text: session.text('state').replaceAll('_', ' '), colour: statusColour(session.text('state')) },
      costText(session.at('usage')),
      short(session.text('displayTitle')),
      session.text('id'),
    ],
    agentOf: (session) => session.text('agent'),
    wide: {
      head: ['revision', 'origin', 'reason'],
      row: (session) => [session.text('revision'), session.text('origin'), session.text('reason')],
    },
    ofAgent: call.text('agent'),
  });
};

export const sessionShow: Handler = async (call) => {
  const client = await connect(call);
  const session = await client.call(sessions.getSession, { params: { id: await idOf(call, client) } });
  call.screen.emit(session, () => sessionText(session, { paint: call.screen.paint, now: call.screen.now() }));
  return 0;
};

export const sessionLogs: Handler = async (call) => {
  const client = await connect(call);
  const tail = wholeNumber(call, 'tail', 0, 10_000);
  const id = await idOf(call, client);
  if (call.flag('follow')) return follow(call, client, id, tail);
  const page = await transcript(client, id, tail);
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
async function transcript(client: Client, id: string, tail: number | undefined): Promise<Page<sessions.Message>> {
  const params = { id };
  if (tail === undefined) return client.list(sessions.listMessages, { params });
  if (tail === 0) return { items: [], nextCursor: null };
  const newest = await client.list(sessions.listMessages, { params, query: { order: 'desc' } }, tail);
  return { items: newest.items.toReversed(), nextCursor: null };
}

/** Messages and changes of state as they come, until the session has ended. */
async function follow(call: Call, client: Client, id: string, tail: number | undefined): Promise<number> {
  const { screen } = call;
  let after: number | undefined;
  if (tail !== undefined) {
    const [newest] = (await transcript(client, id, 1)).items;
    after = newest?.seq ?? 0;
    for (const one of (await transcript(client, id, tail)).items) {
      screen.stream(one, () => `${messageText(one, screen.paint)}\n\n`);
      after = Math.max(after, one.seq);
    }
  }
  let state = '';
  for await (const event of client.events(sessions.streamSession, { params: { id }, query: { after } })) {
    const value = parsed(event.data);
    if (event.event === 'message') {
      const message = value as sessions.Message;
      screen.stream(message, () => `${messageText(message, screen.paint)}\n\n`);
    }
    if (event.event !== 'state') continue;
    const changed = value as SessionChange;
    const told = stateText(changed, screen.paint);
    // After a broken connection it is told again.
    if (told !== state) screen.stream(value, () => `${told}\n\n`);
    state = told;
    if (changed.live === false) return 0;
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
    operation: calls.listSessionCalls,
    input: { params: { id: await idOf(call, client) } },
    limit: 50,
    empty: 'no calls',
    head: ['at', 'tool', 'kind', 'status', 'why', 'url'],
    row: (one) => [
      relativeTime(one.at('at'), now),
      `${one.text('alias')} ${one.text('tool')}`,
      one.at('write') === true ? 'write' : 'read',
      { text: one.text('status'), colour: statusColour(one.text('status')) },
      short(one.text('code')),
      one.text('url'),
    ],
  });
};

/** Lists what a session left, or writes one file: to --output, else to the standard output. */
export const sessionFiles: Handler = async (call) => {
  const client = await connect(call);
  const id = await idOf(call, client);
  const path = call.optionalArg('PATH');
  const output = call.text('output');
  if (path === undefined) {
    if (output !== undefined && !isFormat(output))
      throw new UsageError(
        '--output takes a PATH of the session beside it',
        'or a format of the list: json, yaml, name, wide',
      );
    return showList(call, client, {
      operation: sessions.listSessionFiles,
      input: { params: { id } },
      limit: 200,
      empty: 'no files',
      head: ['path', 'bytes', 'kept', 'why not'],
      row: (file) => [
        file.text('path'),
        file.text('size'),
        relativeTime(file.at('keptAt'), call.screen.now()),
        file.text('refused'),
      ],
    });
  }
  const bytes = await client.bytes(sessions.getSessionFile, { params: { id, path } });
  if (output !== undefined && output !== '-') {
    await writeFile(output, bytes, { flag: 'wx' }).catch((error: NodeJS.ErrnoException) => {
      throw refusal('not-written', `${output} cannot be written (${error.code})`, 'name a file that is not there yet');
    });
    call.screen.emit({ path, output, bytes: bytes.length }, () => `${output}: ${bytes.length} bytes`);
    return 0;
  }
  if (call.json) throw new UsageError('--json and a file on the standard output are one too many: give --output');
  // An agent made it: what steers a terminal stays out of one, and every other reader has it to the byte.
  call.io.stdout.write(call.io.stdout.isTTY === true ? clean(bytes.toString()) : bytes);
  return 0;
};

export const sessionDiff: Handler = async (call) => {
  const client = await connect(call);
  const diff = await client.call(sessions.getSessionDiff, { params: { id: await idOf(call, client) } });
  call.screen.emit(diff, () => {
    const told = diff.mounts.map(({ mountPath, repository, ref, commit, diff: text, truncated }) => {
      const head = `# ${clean(mountPath, true)} (${clean(repository, true)}${ref === null ? '' : ` ${clean(ref, true)}`} at ${commit.slice(0, 12)})`;
      const body = text === '' ? '# no difference' : clean(text);
      return `${head}\n${body}${truncated ? '\n# cut after 1 MiB' : ''}`;
    });
    return told.length === 0 ? 'no work tree has been looked at yet' : told.join('\n');
  });
  return 0;
};

export const sessionSend: Handler = async (call) => {
  const given = call.arg('MESSAGE');
  const text = given === '-' ? await readText(call, '-', 'MESSAGE') : given;
  if (text.trim() === '') throw new UsageError('the message is empty');
  const client = await connect(call);
  const answer = await client.call(sessions.sendMessage, { params: { id: await idOf(call, client) }, body: { text } });
  call.screen.emit(answer, () => `sent to ${clean(call.arg('ID'), true)}`);
  return 0;
};

export const sessionAllow: Handler = (call) => answer(call, call.flag('always') ? 'allow_always' : 'allow');
export const sessionReject: Handler = (call) => answer(call, 'reject');

async function answer(call: Call, decision: 'allow' | 'allow_always' | 'reject'): Promise<number> {
  const client = await connect(call);
  const params = { id: await idOf(call, client) };
  const { permissions: open } = await client.call(sessions.getSession, { params });
  const wanted = call.optionalArg('REQUEST');
  const request = wanted === undefined ? open[0] : open.find((one) => one.id === wanted);
  if (request === undefined) {
    throw refusal(
      'permission-closed',
      wanted === undefined ? 'the session asks for nothing' : 'it asks for no such thing',
    );
  }
  const { id } = request;
  await client.call(sessions.answerPermission, { params: { ...params, permission: id }, body: { decision } });
  const done = decision === 'reject' ? 'rejected' : 'allowed';
  call.screen.emit({ id, decision }, () => `${done}: ${clean(request.title, true)}`);
  return 0;
}

export const sessionInterrupt: Handler = async (call) => {
  const client = await connect(call);
  const id = await idOf(call, client);
  const answer = await client.call(sessions.interruptSession, { params: { id } });
  const { turn } = answer;
  call.screen.emit(answer, () =>
    turn === null ? 'no turn runs in it' : `stopping turn ${turn} of ${clean(id, true)}`,
  );
  return 0;
};

export const sessionArchive: Handler = async (call) => {
  const client = await connect(call);
  const id = await idOf(call, client);
  const look = async () =>
    (await client.call(sessions.archiveSession, { params: { id }, query: dryRun, body: {} })) as DryRun;
  if (!(await isMeant(call, `archiving ${id}`, look))) return 0;
  const answer = await client.call(sessions.archiveSession, { params: { id }, body: reasonOf(call) });
  call.screen.emit(answer, () => `archived ${clean(id, true)}`);
  return 0;
};

export const bindingList: Handler = async (call) => {
  const client = await connect(call);
  const now = call.screen.now();
  return showList(call, client, {
    operation: bindings.listBindings,
    input: { query: { all: call.flag('all') || undefined, agent: call.text('agent') } },
    limit: 50,
    empty: 'no bindings',
    head: ['bound', 'agent', 'target', 'state', 'lifecycle', 'continuity', 'session', 'id'],
    row: (binding) => [
      relativeTime(binding.at('createdAt'), now),
      binding.text('agent'),
      targetText(binding.at('target')),
      { text: binding.text('state'), colour: statusColour(binding.text('state')) },
      binding.text('lifecycle'),
      binding.text('continuity'),
      binding.at('sessionId') === null ? 'waits for one' : binding.text('sessionId'),
      binding.text('id'),
    ],
    agentOf: (binding) => binding.text('agent'),
    ofAgent: call.text('agent'),
  });
};

export const bindingRelease: Handler = async (call) => {
  const client = await connect(call);
  const id = await wholeId(client, { operation: bindings.listBindings }, call.arg('ID'));
  const look = async () =>
    (await client.call(bindings.releaseBinding, { params: { id }, query: dryRun, body: {} })) as DryRun;
  if (!(await isMeant(call, `releasing ${id}`, look))) return 0;
  await client.call(bindings.releaseBinding, { params: { id }, body: reasonOf(call) });
  call.screen.emit({ id, status: 'released' }, () => `released ${clean(id, true)}`);
  return 0;
};
