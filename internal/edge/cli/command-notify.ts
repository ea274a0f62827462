// `svc notify …`: whom a project tells of what happens in it. The key of a webhook comes from a file or stdin, never from
// an argument.

import type { DryRun } from '../../../schemas/api/common.ts';
import type { Given } from '../../../schemas/api/operation.ts';
import * as receivers from '../../../schemas/api/receivers.ts';
import { conditionsList } from '../../domain/notification.ts';
import { connect } from './client.ts';
import { reasonBody, dryRun, isMeant } from './confirm.ts';
import { UsageError } from './failure.ts';
import { readSecret } from './input.ts';
import { showList } from './lists.ts';
import { statusColour } from './print-run.ts';
import { clean, relativeTime } from './text.ts';
import type { Call, Handler } from './types.ts';

type Change = Given<NonNullable<typeof receivers.updateReceiver.body>>;

export const notifyList: Handler = async (call) => {
  const client = await connect(call);
  return showList(call, client, {
    operation: receivers.listReceivers,
    empty: 'nobody is told; svc notify add chat|webhook NAME',
    head: ['name', 'kind', 'scope', 'status', 'to', 'on'],
    row: (receiver) => {
      const conditions = receiver.at('conditions') as readonly string[];
      const to =
        receiver.at('url') ?? `${String(receiver.at('connection') ?? '')} ${String(receiver.at('channel') ?? '')}`;
      return [
        receiver.text('name'),
        receiver.text('kind'),
        receiver.text('scope'),
        receiver.at('suspended') === true ? 'suspended' : 'active',
        String(to).trim(),
        conditions.length === conditionsList.length ? 'everything' : conditions.join(','),
      ];
    },
  });
};

/** What the options say. Throws UsageError. */
async function settingsOf(call: Call): Promise<Change> {
  const conditions = call.list('on');
  const strange = conditions.find((one) => !(conditionsList as readonly string[]).includes(one));
  if (strange !== undefined) throw new UsageError(`--on takes ${conditionsList.join(', ')}`);
  const [connection, channel, url] = ['connection', 'channel', 'url'].map((name) => call.text(name));
  const secret =
    call.text('from-file') === undefined
      ? undefined
      : (await readSecret(call, 'key of the webhook')).replace(/\r?\n$/, '');
  return {
    ...(conditions.length > 0 && { conditions: conditions as (typeof conditionsList)[number][] }),
    ...(connection !== undefined && { connection }),
    ...(channel !== undefined && { channel }),
    ...(url !== undefined && { url }),
    ...(secret !== undefined && { secret }),
  };
}

export const notifyAdd: Handler = async (call) => {
  const [kind, name] = [call.arg('KIND'), call.arg('NAME')];
  if (kind !== 'chat' && kind !== 'webhook') throw new UsageError('KIND is one of chat, webhook');
  const settings = await settingsOf(call);
  const { secret, ...rest } = settings;
  const client = await connect(call);
  const body = { name, kind, ...rest, ...(typeof secret === 'string' && { secret }) } as const;
  const answer = await client.call(receivers.createReceiver, { body });
  call.screen.emit(answer, () => `${clean(name, true)} is told from now on; try it with svc notify test ${name}`);
  return 0;
};

export const notifyEdit: Handler = async (call) => {
  const name = call.arg('NAME');
  const [suspend, resume] = [call.flag('suspend'), call.flag('resume')];
  if (suspend && resume) throw new UsageError('--suspend and --resume exclude each other');
  const settings = await settingsOf(call);
  const body = { ...settings, ...((suspend || resume) && { suspended: suspend }) };
  if (Object.keys(body).length === 0) throw new UsageError('nothing is to be changed');
  const client = await connect(call);
  const answer = await client.call(receivers.updateReceiver, { params: { name }, body });
  call.screen.emit(answer, () => `changed ${clean(name, true)}`);
  return 0;
};

export const notifyRemove: Handler = async (call) => {
  const name = call.arg('NAME');
  const client = await connect(call);
  const of = { params: { name } };
  const look = async () => (await client.call(receivers.deleteReceiver, { ...of, query: dryRun })) as DryRun;
  if (!(await isMeant(call, `removing ${name}`, look))) return 0;
  await client.call(receivers.deleteReceiver, { ...of, ...reasonBody(call) });
  call.screen.emit({ name, status: 'removed' }, () => `removed ${clean(name, true)}`);
  return 0;
};

export const notifyTest: Handler = async (call) => {
  const name = call.arg('NAME');
  const client = await connect(call);
  const answer = await client.call(receivers.testReceiver, { params: { name } });
  const isDone = answer.status === 'done';
  const why = isDone ? 'has taken the test' : `has not taken the test: ${answer.code ?? answer.status}`;
  const told = clean(`${name} ${why}`, true);
  call.screen.emit(answer, () => (isDone ? told : ''));
  if (!isDone && !call.json) call.screen.note(`${call.screen.errPaint('red', 'svc:')} ${told}`);
  return isDone ? 0 : 1;
};

export const notifyLog: Handler = async (call) => {
  const client = await connect(call);
  const now = call.screen.now();
  return showList(call, client, {
    operation: receivers.listNotices,
    limit: 50,
    empty: 'nothing yet',
    head: ['at', 'condition', 'about', 'told'],
    row: (notice) => {
      const subject = notice.at('subject') as { readonly [key: string]: unknown };
      const about = subject['repository'] ?? subject['agent'] ?? subject['connection'] ?? subject['secret'] ?? '';
      const tellings = notice.at('tellings') as readonly { receiver: string; status: string }[];
      return [
        relativeTime(notice.at('at'), now),
        {
          text: notice.text('condition'),
          colour: statusColour(notice.text('condition').endsWith('failed') ? 'failed' : 'held'),
        },
        String(about),
        tellings.length === 0 ? 'nobody' : tellings.map((one) => `${one.receiver} ${one.status}`).join(', '),
      ];
    },
  });
};
