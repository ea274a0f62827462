// Sessions that the daemon of the history test holds: what its host sends for them is there to be explained, and is
// explained as things stood while it held them. Only tests import this.

import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import type { TestDaemon } from '../../internal/base/testkit/daemon.ts';

const patienceMs = 120_000;

export async function eventually(what: string, isSo: () => boolean | Promise<boolean>): Promise<void> {
  const until = performance.now() + patienceMs;
  while (!(await isSo())) {
    if (performance.now() > until) throw new Error(`not within ${patienceMs} ms: ${what}`);
    await sleep(50);
  }
}

/**
 * Has two places taken: by a session that asks a person, and by `longId`, for which one that rested was let go of. Then one
 * goes on with what it is told and the other with its answer; `held` is called while they stand still in between.
 */
export async function talk(
  { api }: Pick<TestDaemon, 'api'>,
  longId: string,
  held: (ids: readonly string[]) => Promise<void>,
): Promise<void> {
  const start = async (agent: string, message: string): Promise<string> => {
    const { status, body } = await api('POST', `P/agents/${agent}/sessions`, { message });
    assert.equal(status, 201, JSON.stringify(body));
    return String(body['id']);
  };
  const say = async (text: string): Promise<void> => {
    const { status, body } = await api('POST', `P/sessions/${longId}/messages`, { text });
    assert.ok(status < 300, JSON.stringify(body));
  };
  const until = (id: string, state: string, loaded: boolean): Promise<void> =>
    eventually(`${id} is ${state}, loaded: ${loaded}`, async () => {
      const { body } = await api('GET', `P/sessions/${id}`);
      return String(body['state']) === state && Boolean(body['loaded']) === loaded;
    });
  const heard = (text: string): Promise<void> =>
    eventually(`${text} is answered`, async () => {
      const { body } = await api('GET', `P/sessions/${longId}/messages?order=desc&limit=5`);
      return JSON.stringify(body['items']).includes(`echo: ${text}`);
    });
  const [resting, asking] = await Promise.all([start('worker', 'hello'), start('asker', '!ask May I')]);
  await Promise.all([until(resting, 'idle', true), until(asking, 'waiting_permission', true)]);
  await say('are you there');
  await heard('are you there');
  await Promise.all([until(longId, 'idle', true), until(resting, 'idle', false)]);
  await held([longId, asking]);
  await say('once more');
  const { body } = await api('GET', `P/sessions/${asking}`);
  const permission = String(body['permissions']?.[0]?.['id']);
  const answer = await api('POST', `P/sessions/${asking}/permissions/${permission}`, { decision: 'allow' });
  assert.equal(answer.status, 204, JSON.stringify(answer.body));
  await Promise.all([heard('once more'), until(asking, 'idle', true)]);
  await until(longId, 'idle', true);
}

/** Tables of what a host writes, by what their rows are of; of the long ones what is open. */
const hostTables = [
  ['sessions', 'id', 'true'],
  ['session_leases', 'session_id', 'true'],
  ['turns', 'session_id', `state = 'running'`],
  ['inbox', 'session_id', `state in ('pending', 'in_flight')`],
  ['permissions', 'session_id', `state = 'open'`],
  ['messages', 'session_id', 'false'],
] as const;

/** Sessions as they stand now, to be put back so, whatever is written of them later. */
export async function keepSessions(url: string, ids: readonly string[]): Promise<{ restore(): Promise<void> }> {
  const mine = `any(array['${ids.join(`','`)}']::uuid[])`;
  const inOne = async (statements: readonly string[]): Promise<pg.QueryResult[]> => {
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    try {
      return [await client.query(['begin', ...statements, 'commit'].join(';\n'))].flat();
    } finally {
      await client.end();
    }
  };
  await inOne([
    'create schema kept',
    'create table kept.mark as select pg_current_xact_id()::text::bigint as xid',
    ...hostTables.map(
      ([table, id, more]) =>
        `create table kept.${table} as select * from svc.${table} where ${id} = ${mine} and ${more}`,
    ),
  ]);
  return {
    async restore() {
      await inOne([
        'set local session_replication_role = replica',
        ...hostTables.map(
          ([table, id]) =>
            `delete from svc.${table} where ${id} = ${mine} and xmin::text::bigint >= (select xid from kept.mark)`,
        ),
        ...hostTables.map(([table]) => restoreSql(table)),
        'drop schema kept cascade',
      ]);
    },
  };
}

/** All columns but those that are made from others. */
const restoreSql = (table: string): string => `do $do$ begin execute (
  select format('insert into svc.${table} (%1$s) select %1$s from kept.${table} on conflict do nothing', string_agg(column_name, ', '))
    from information_schema.columns where table_schema = 'svc' and table_name = '${table}' and is_generated = 'NEVER'); end $do$`;
