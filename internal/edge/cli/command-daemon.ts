// `svc daemon list`: which daemons share the installation's database, and whether they live.

import * as daemons from '../../../schemas/api/daemons.ts';
import { connect } from './client.ts';
import { showList } from './lists.ts';
import { relativeTime } from './text.ts';
import type { Handler } from './types.ts';

export const daemonList: Handler = async (call) => {
  const client = await connect(call);
  const now = call.screen.now();
  return showList(call, client, {
    operation: daemons.listDaemons,
    empty: 'no daemons',
    head: ['host', 'pid', 'status', 'roles', 'started', 'seen', 'id'],
    row: ({ value: one }) => [
      one.self ? `${one.host} (answers)` : one.host,
      String(one.pid),
      { text: one.status, colour: one.status === 'live' ? 'green' : 'red' },
      one.roles.join(','),
      relativeTime(one.startedAt, now),
      relativeTime(one.beatAt, now),
      one.id,
    ],
  });
};
