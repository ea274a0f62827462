// A receiver that swallows what it is sent, and another project's beside it, over real HTTP.

import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { startTestDaemon } from '../../base/testkit/daemon.ts';
import { landed, roomFor } from '../in-flight.ts';
import { tellWaiting } from './notify.ts';

test('what was told while the database broke off is noted as soon as that is back, and told no second time', async () => {
  let heard = 0;
  const server = createServer((request, response) => {
    request.resume();
    heard += 1;
    response.writeHead(204).end();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`;
  const daemon = await startTestDaemon({ config: { roles: ['api'], allowPrivateNetwork: true } });
  const { api, ctx, database } = daemon;
  try {
    assert.equal((await api('POST', 'P/receivers', { name: 'hook', kind: 'webhook', url })).status, 201);
    // Once, as where the server is restarted in that breath.
    await database.db.query(
      `create sequence svc.tries;
       create function svc.break_off() returns trigger language plpgsql as $$ begin
         if nextval('svc.tries') < 3 then raise exception using errcode = '57P01'; end if;
         return new;
       end $$;
       create trigger break_off before update on svc.notifications for each row when (new.status = 'done')
         execute function svc.break_off()`,
    );
    await database.db.query(
      `insert into svc.notices (project_id, condition, key, subject_id, subject)
         select id, 'connection-lost', 'one', gen_random_uuid(), '{}' from svc.projects`,
    );
    await tellWaiting(ctx).catch(() => undefined);
    await landed(ctx);
    const { rows } = await database.db.query('select status, claimed_by as by from svc.notifications');
    assert.deepEqual([heard, rows], [1, [{ status: 'done', by: null }]]);
  } finally {
    await daemon.stop();
    server.closeAllConnections();
    server.close();
  }
});

test('whom a project tells waits for no receiver of another project, however much that has to swallow', async () => {
  const swallowed: (() => void)[] = [];
  let heard = 0;
  const server = createServer((request, response) => {
    request.resume();
    const answer = (): void => {
      if (!response.headersSent) response.writeHead(204).end();
    };
    if (request.url === '/deaf') return void swallowed.push(answer);
    heard += 1;
    answer();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const daemon = await startTestDaemon({ config: { roles: ['api'], allowPrivateNetwork: true } });
  const { api, ctx, database } = daemon;
  try {
    assert.equal((await api('POST', '/api/v1/orgs/default/projects', { slug: 'other', name: 'other' })).status, 201);
    for (const [project, path] of [
      ['default', 'deaf'],
      ['other', 'ears'],
    ] as const) {
      const body = { name: 'hook', kind: 'webhook', url: `${url}/${path}` };
      const { status } = await api('POST', `/api/v1/orgs/default/projects/${project}/receivers`, body);
      assert.equal(status, 201);
    }
    const note = (slug: string, count: number): Promise<unknown> =>
      database.db.query(
        `insert into svc.notices (project_id, condition, key, subject_id, subject)
           select id, 'connection-lost', gen_random_uuid()::text, gen_random_uuid(), '{}' from svc.projects, generate_series(1, $2::int)
            where slug = $1::text`,
        [slug, count],
      );
    await note('default', 60);
    await tellWaiting(ctx);
    await note('other', 1);
    // Each waits a moment, and no longer, for what it has begun.
    for (let turns = 0; turns < 5 && heard === 0; turns += 1) await tellWaiting(ctx);
    assert.equal(heard, 1);
    assert.ok(swallowed.length > 0 && swallowed.length <= 20, `${swallowed.length}`);
    assert.deepEqual(roomFor(ctx, 'notice', 20).busy.length, 1);
    const kinds = `select kind, cardinality(ids) as ids from svc.in_hand`;
    assert.deepEqual((await database.db.query(kinds)).rows, [{ kind: 'notice', ids: swallowed.length }]);
    for (const answer of swallowed) answer();
    await landed(ctx);
    assert.deepEqual(roomFor(ctx, 'notice', 20), { limit: 20, busy: [] });
    assert.deepEqual((await database.db.query(kinds)).rows, []);
  } finally {
    for (const answer of swallowed) answer();
    await daemon.stop();
    server.closeAllConnections();
    server.close();
  }
});
