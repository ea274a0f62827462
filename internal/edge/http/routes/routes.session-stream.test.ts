import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { lockRouting } from '../../../adapters/store/routing/routing-lock.ts';
import { deliver } from '../../../flows/sessions/sessions.ts';
import { startTestDaemon, type TestDaemon } from '../../../base/testkit/daemon.ts';

let daemon: TestDaemon;
before(async () => {
  daemon = await startTestDaemon({ config: { roles: ['api'] } });
  const agent = {
    name: 'a',
    harness: 'harness-a',
    environment: { name: 'e', image: { kind: 'preset', name: 'base' } },
  };
  const files = [{ path: '.svc/agents/a.json', content: JSON.stringify(agent) }];
  assert.equal((await daemon.api('POST', 'P/apply', { files })).status, 200);
});
after(() => daemon.stop());

interface Told {
  readonly id: string;
  readonly event: string;
  readonly data: Record<string, unknown>;
}

const start = async (message: string): Promise<string> =>
  String((await daemon.api('POST', 'P/agents/a/sessions', { message })).body['id']);
const send = (id: string, text: string) => daemon.api('POST', `P/sessions/${id}/messages`, { text });

/** Says `m<from>` and on, before `m<to>`, in one transaction. */
async function sayMany(id: string, from: number, to: number): Promise<void> {
  const { ctx, database } = daemon;
  const { rows } = await database.db.query<{ project: string }>(
    `select project_id as project from svc.sessions where id = $1::uuid`,
    [id],
  );
  const messages = Array.from({ length: to - from }, (_, at) => ({
    sessionId: id,
    text: `m${from + at}`,
    sender: 'operator' as const,
    mode: 'interrupt' as const,
  }));
  await ctx.db.tx(async (tx) => deliver(ctx, await lockRouting(tx, rows[0]?.project ?? ''), messages));
}

/** Reads a stream; `until` says when enough was read, else it is read to its end. */
async function watch(
  id: string,
  options: {
    readonly lastEventId?: string;
    readonly query?: string;
    readonly until?: (told: readonly Told[]) => boolean;
  },
): Promise<{ readonly told: Told[]; readonly ended: boolean }> {
  const path = `/api/v1/orgs/default/projects/default/sessions/${id}/stream${options.query ?? ''}`;
  const response = await fetch(`${daemon.url}${path}`, {
    headers: {
      authorization: `Bearer ${daemon.token}`,
      ...(options.lastEventId !== undefined && { 'last-event-id': options.lastEventId }),
    },
  });
  assert.equal(response.status, 200);
  assert.match(response.headers.get('content-type') ?? '', /^text\/event-stream/);
  const told: Told[] = [];
  let rest = '';
  const decoder = new TextDecoder();
  for await (const chunk of response.body ?? []) {
    const parts = (rest + decoder.decode(chunk as Uint8Array, { stream: true })).split('\n\n');
    rest = parts.pop() ?? '';
    for (const part of parts.filter((one) => !one.startsWith(':'))) {
      const field = (name: string): string => new RegExp(`^${name}: (.*)$`, 'm').exec(part)?.[1] ?? '';
      told.push({ id: field('id'), event: field('event'), data: JSON.parse(field('data')) });
    }
    // Leaving the loop cancels the request.
    if (options.until?.(told) === true) return { told, ended: false };
  }
  return { told, ended: true };
}
const outline = (told: readonly Told[]): string[] =>
  told.map(({ event, data }) => `${event} ${String(event === 'state' ? data['state'] : data['text'])}`);
const count = (event: string, number: number) => (told: readonly Told[]) =>
  told.filter((one) => one.event === event).length >= number;

test('a stream tells the state, every message and every further state, and ends with the session', async () => {
  const id = await start('one');
  const opened = Promise.withResolvers<void>();
  const begun = (told: readonly Told[]): boolean => {
    if (told.length > 0) opened.resolve();
    return false;
  };
  const watching = watch(id, { until: begun });
  await opened.promise;
  await send(id, 'two');
  await daemon.database.db.query(`update svc.sessions set state = 'provisioning' where id = $1::uuid`, [id]);
  await watch(id, { until: (told) => told.some(({ data }) => data['state'] === 'provisioning') });
  await send(id, 'three');
  assert.equal((await daemon.api('POST', `P/sessions/${id}/archive`)).status, 200);
  const { told, ended } = await watching;
  assert.ok(ended);
  const seen = outline(told);
  assert.equal(seen[0], 'state queued');
  assert.equal(seen.at(-1), 'state archived');
  assert.deepEqual(
    seen.filter((one) => one.startsWith('message')),
    ['message one', 'message two', 'message three', 'message The session is archived: archived by administrator'],
  );
  assert.equal(told.at(-1)?.data['reason'], 'archived by administrator');
  assert.deepEqual(outline((await watch(id, {})).told).at(-1), 'state archived', 'an ended one is told as it was');
});

test('a reader that comes back is told what is behind the last that it has', async () => {
  const id = await start('m0');
  for (let at = 1; at < 30; at += 1) await send(id, `m${at}`);
  const all = (await watch(id, { until: count('message', 30) })).told.filter((one) => one.event === 'message');
  const tenth = all[9];
  assert.equal(tenth?.id, String(tenth?.data['seq']));
  const rest = Array.from({ length: 20 }, (_, at) => `message m${at + 10}`);
  for (const how of [{ lastEventId: tenth?.id ?? '' }, { query: `?after=${tenth?.id}` }]) {
    const again = await watch(id, { ...how, until: count('message', 20) });
    assert.deepEqual(outline(again.told), ['state queued', ...rest]);
  }
});

test('a message that commits after a later one is told all the same, and none is told twice', async () => {
  const id = await start('m0');
  const { db } = daemon.database;
  const say = (from: number, to: number): Promise<void> => sayMany(id, from, to);
  await say(1, 40);
  const { rows } = await db.query<{ seq: number }>(`select nextval('svc.messages_seq') as seq`);
  const watching = watch(id, { until: count('message', 45) });
  await say(40, 44);
  await watch(id, { until: count('message', 44) });
  await db.query(
    `insert into svc.messages (session_id, seq, role, kind, text, at)
     values ($1::uuid, $2::bigint, 'assistant', 'text', 'late', now())`,
    [id, rows[0]?.seq],
  );
  const texts = outline((await watching).told).filter((one) => one.startsWith('message'));
  assert.equal(new Set(texts).size, 45);
  assert.equal(texts.length, 45);
  assert.ok(texts.includes('message late'));
});

test('a message that commits behind any number of later ones is told to who watches', async () => {
  const id = await start('m0');
  const { db } = daemon.ctx;
  const [drawn, free, passed] = Array.from({ length: 3 }, () => Promise.withResolvers<void>());
  const writer = db.tx(async (tx) => {
    await tx.query(`insert into svc.messages (session_id, role, kind, text, at)
      values ('${id}'::uuid, 'assistant', 'text', 'late', now())`);
    drawn?.resolve();
    await free?.promise;
  });
  await drawn?.promise;
  const watching = watch(id, {
    until: (told) => {
      if (count('message', 61)(told)) passed?.resolve();
      return told.at(-1)?.data['text'] === 'end';
    },
  });
  await sayMany(id, 1, 61);
  await passed?.promise;
  free?.resolve();
  await writer;
  await send(id, 'end');
  const { told } = await watching;
  const ids = told.map((one) => Number(one.id));
  assert.deepEqual(
    ids,
    ids.toSorted((a, b) => a - b),
  );
  const texts = outline(told).filter((one) => one.startsWith('message'));
  assert.deepEqual([texts.length, new Set(texts).size, texts.includes('message late')], [63, 63, true]);
});

test('watchers hold no connections: more of them than the pool has, and calls go on', async () => {
  const id = await start('one');
  const watching = Array.from({ length: 40 }, () => watch(id, { until: count('message', 2) }));
  await send(id, 'two');
  for (const { told } of await Promise.all(watching)) assert.equal(told.at(-1)?.data['text'], 'two');
});

test('what a host writes wakes the watchers at once', async () => {
  const { db } = daemon.database;
  const told: (string | null)[] = [];
  const stop = await db.listen('svc_sessions', (payload) => told.push(payload));
  const id = await start('one');
  const own = async (count: number): Promise<(string | null)[]> => {
    for (let turn = 0; told.filter((one) => one === id).length < count && turn < 6_000; turn += 1) await sleep(10);
    return told.filter((one) => one === id);
  };
  assert.deepEqual(await own(1), [id], 'of its start');
  await db.query(
    `insert into svc.messages (session_id, role, kind, text, at)
     values ($1::uuid, 'assistant', 'text', 'a', now()), ($1::uuid, 'tool', 'tool_call', 'b', now())`,
    [id],
  );
  await db.query(`update svc.sessions set active_at = now() where id = $1::uuid`, [id]);
  await db.query(`update svc.sessions set state = 'suspended' where id = $1::uuid`, [id]);
  await watch(id, { until: (events) => events.some(({ data }) => data['text'] === 'b') });
  const all = await own(3);
  await stop();
  assert.deepEqual(all, [id, id, id], 'once per transaction, and not where neither changes');
});
