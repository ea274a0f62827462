// Two providers of sign-in, of which one takes what it is asked and never answers.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { startTestDaemon } from '../../base/testkit/daemon.ts';
import { keepRefreshToken, refreshGroups } from './refresh.ts';

const hourMs = 60 * 60 * 1_000;

test('the groups of one provider are asked about beside those of another that never answers', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'svc-refresh-'));
  const secret = join(dir, 'secret');
  await writeFile(secret, 'secret\n');
  const held = new Set<Socket>();
  const server = createServer((socket) => {
    held.add(socket.on('error', () => undefined));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const deaf = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  // Nobody listens there: it is put off at once.
  const gone = 'http://127.0.0.1:1';
  const oidc = [
    { name: 'deaf', issuer: deaf, clientId: 'c', clientSecretFile: secret },
    { name: 'gone', issuer: gone, clientId: 'c', clientSecretFile: secret },
  ];
  const daemon = await startTestDaemon({ config: { roles: ['schedule'], file: { signIn: { oidc } } } });
  const stopping = new AbortController();
  try {
    const { ctx } = daemon;
    const people = ['a', 'b', 'c', 'd'];
    const began = ctx.runtime.now().getTime();
    for (const [index, subject] of people.entries()) {
      const [issuer, method] = subject === 'd' ? [gone, 'gone'] : [deaf, 'deaf'];
      await ctx.db.tx(async (tx) => {
        await tx.query(
          `with p as (insert into svc.principals (id, kind, name, created_at) values (gen_random_uuid(), 'user', $1::text, now()) returning id)
           insert into svc.external_identities (issuer, subject, principal_id, created_at, last_signin_at)
           select $2::text, $1::text, id, now(), now() from p`,
          [subject, issuer],
        );
        const at = new Date(began - 2 * hourMs + index);
        await keepRefreshToken(ctx, tx, { issuer, subject, method }, `token of ${subject}`, at);
      });
    }
    const refreshing = refreshGroups(ctx, stopping.signal);
    const isPutOff = async (): Promise<boolean> =>
      (
        await ctx.db.query(
          `select from svc.external_identities where subject = 'd' and refresh_sent_at is null and refreshed_at > $1::timestamptz`,
          [new Date(began - hourMs)],
        )
      ).rowCount === 1;
    while (!(await isPutOff()) && ctx.runtime.now().getTime() - began < 8_000) await sleep(50);
    assert.ok(await isPutOff(), 'the other provider was not asked');
    stopping.abort();
    for (const socket of held) socket.destroy();
    await refreshing;
  } finally {
    stopping.abort();
    for (const socket of held) socket.destroy();
    server.close();
    await daemon.stop();
    await rm(dir, { recursive: true });
  }
});
