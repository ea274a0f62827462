// `svc sandbox show|list|reap`: what sessions run in, which sandboxes are there, and the end of those that nobody owns.

import * as sandboxes from '../../../schemas/api/sandbox.ts';
import { connect } from './client.ts';
import { type Cell, clean, table } from './text.ts';
import type { Call, Handler } from './types.ts';

function noteUnreachable(call: Call, hosts: readonly string[]): void {
  if (hosts.length > 0) call.screen.note(`not reached: ${clean(hosts.join(', '), true)}`);
}

export const sandboxShow: Handler = async (call) => {
  const client = await connect(call);
  const found = await client.call(sandboxes.getSandbox);
  const lines = found.providers.flatMap((one) => [
    `${one.provider}${one.isDefault ? ' (default)' : ''}: ${one.works ? '' : 'does not work: '}${one.why}`,
    ...Object.entries(one.capabilities ?? {}).map(([name, value]) => {
      const why = one.missing[name];
      const said = typeof value === 'boolean' ? (value ? 'yes' : 'no') : value;
      return `  ${name.padEnd(16)} ${said}${why === undefined ? '' : `: ${why}`}`;
    }),
  ]);
  const reach = found.allow === null ? 'its channels alone' : found.allow.join(', ');
  const network = found.fenced ? `fenced; reached: ${reach}` : 'open';
  if (found.providers.length === 0) call.screen.note('no daemon that runs sessions is reached');
  call.screen.emit(found, () => clean([...lines, `network: ${network}`].join('\n')));
  return 0;
};

const colours = { running: 'green', resting: 'grey', left: 'yellow' } as const;

export const sandboxList: Handler = async (call) => {
  const client = await connect(call);
  const found = await client.call(sandboxes.listSandboxes);
  const rows = found.items.map((one): (string | Cell)[] => [
    one.session,
    { text: one.state, colour: colours[one.state] },
    one.provider ?? '-',
    one.image ?? '-',
    one.org === null ? '-' : `${one.org}/${one.project}`,
    one.agent ?? '-',
    one.sessionState ?? '-',
    one.daemon,
  ]);
  const head = ['session', 'state', 'provider', 'image', 'project', 'agent', 'session state', 'daemon'];
  call.screen.emit(found, () =>
    rows.length === 0 ? 'no sandboxes' : table(head, rows, { paint: call.screen.paint, width: call.screen.width }),
  );
  noteUnreachable(call, found.unreachable);
  return 0;
};

export const sandboxReap: Handler = async (call) => {
  const client = await connect(call);
  const done = await client.call(sandboxes.reapSandboxes, { body: {} });
  call.screen.emit(done, () => `${done.reaped.length} ${done.reaped.length === 1 ? 'sandbox' : 'sandboxes'} removed`);
  noteUnreachable(call, done.unreachable);
  return 0;
};
