// `svc login`, `whoami`, `logout` and `console` against a real daemon; a person lets the command line in.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { link, mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { startTestDaemon } from '../../internal/base/testkit/daemon.ts';
import { emptyHome, runSvc } from './testkit.ts';

test('a command line signs in by a browser, says who it is, opens the console, and signs out', async (t) => {
  const daemon = await startTestDaemon({ config: { roles: ['api'] } });
  const home = await emptyHome();
  const dir = join(home.path, 'data');
  t.after(async () => {
    await daemon.stop();
    await home.remove();
  });
  const env = { SVC_DATA_DIR: dir };
  const none = await runSvc(home.path, ['whoami'], { env });
  assert.equal(none.code, 1);
  // Of an earlier sign-in, as somebody reads it who has opened it before.
  const earlier = { url: daemon.url, token: `svc_${'y'.repeat(43)}`, org: 'default', project: 'default' };
  await mkdir(dir);
  await writeFile(join(dir, 'login.json'), JSON.stringify(earlier), { mode: 0o644 });
  await link(join(dir, 'login.json'), join(dir, 'opened.json'));

  const login = runSvc(home.path, ['login', '--url', daemon.url], { env });
  const { db } = daemon.database;
  const waiting = async (): Promise<number> =>
    (await db.query(`select from svc.device_grants where state = 'pending'`)).rowCount;
  while ((await waiting()) === 0) await new Promise((resolve) => setTimeout(resolve, 50));
  // The code is on the person's screen alone: here the decision is written as its page writes it.
  await db.query(
    `update svc.device_grants set state = 'allowed', principal_id = (select id from svc.principals where kind = 'user' limit 1)`,
  );
  const done = await login;
  assert.equal(done.code, 0, done.stderr);
  assert.match(done.stderr, /\/device\nand type the code [B-Z]{4}-[B-Z]{4}/);
  assert.equal((await stat(join(dir, 'login.json'))).mode & 0o777, 0o600);
  // It is replaced as a whole: an end in the middle leaves the one or the other, and never half of a token.
  assert.deepEqual(JSON.parse(await readFile(join(dir, 'opened.json'), 'utf8')), earlier);
  assert.doesNotMatch(done.stdout + done.stderr, /svc_/);

  const who = await runSvc(home.path, ['whoami', '--json'], { env });
  assert.equal(who.code, 0, who.stderr);
  const said = JSON.parse(who.stdout);
  assert.deepEqual([said.name, said.from, said.org, said.url], ['administrator', 'login', 'default', daemon.url]);

  // What somebody signed in to goes before what a daemon of this machine wrote.
  const client = { url: 'http://127.0.0.1:9', token: `svc_${'x'.repeat(43)}`, org: 'default', project: 'default' };
  await writeFile(join(dir, 'client.json'), JSON.stringify(client));
  assert.equal((await runSvc(home.path, ['whoami'], { env })).code, 0);
  await rm(join(dir, 'client.json'));

  const opened = await runSvc(home.path, ['console', '--print'], { env });
  assert.equal(opened.code, 0, opened.stderr);
  assert.match(opened.stdout, new RegExp(`^${daemon.url}/signin#h=[\\w-]{43}\n$`));

  const out = await runSvc(home.path, ['logout'], { env });
  assert.equal(out.code, 0, out.stderr);
  await assert.rejects(stat(join(dir, 'login.json')));
  const { rows } = await db.query<{ n: number }>(
    `select count(*)::int as n from svc.api_tokens where name like 'svc login%' and revoked_at is null`,
  );
  assert.equal(rows[0]?.n, 0);
});

test('whoever signs out of a server that is gone, or refuses, keeps no token for it, and is told that it may be good still', async (t) => {
  const home = await emptyHome();
  const dir = join(home.path, 'data');
  const server = createServer((_, response) => void response.writeHead(503).end());
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(async () => {
    server.close();
    await home.remove();
  });
  await mkdir(dir);
  const { port } = server.address() as AddressInfo;
  for (const url of ['http://127.0.0.1:9', `http://127.0.0.1:${port}`]) {
    const tokenId = randomUUID();
    const login = { url, token: `svc_${'x'.repeat(43)}`, tokenId, org: 'default', project: 'default' };
    await writeFile(join(dir, 'login.json'), JSON.stringify(login));
    const { code, stdout, stderr } = await runSvc(home.path, ['logout', '--json'], { env: { SVC_DATA_DIR: dir } });
    assert.deepEqual(
      [code, stdout],
      [0, JSON.stringify({ status: 'signed-out', url, revoked: false }, null, 2) + '\n'],
    );
    assert.match(stderr, new RegExp(`^warning: the token is not revoked: .*\n.*svc token revoke ${tokenId}\n$`));
    await assert.rejects(stat(join(dir, 'login.json')));
  }
});

test('whoever lacks a permission is told of a command that shows which there are', async (t) => {
  const daemon = await startTestDaemon({ config: { roles: ['api'] } });
  const home = await emptyHome();
  t.after(async () => {
    await daemon.stop();
    await home.remove();
  });
  const owner = { SVC_DATA_DIR: daemon.dataDir };
  const done = async (...args: string[]): Promise<string> => {
    const { code, stdout, stderr } = await runSvc(home.path, args, { env: owner });
    assert.equal(code, 0, stderr);
    return stdout;
  };
  await done('account', 'create', 'reader', '--role', 'member');
  await done('member', 'set', 'reader', '--role', 'viewer');
  const { token } = JSON.parse(await done('token', 'create', 'of-reader', '--for', 'reader', '--json'));
  const env = { SVC_URL: daemon.url, SVC_TOKEN: String(token) };
  const refused = await runSvc(home.path, ['secret', 'set', 'key', '--from-file', '-'], { env, stdin: 'value' });
  assert.equal(refused.code, 1);
  const [, command = ''] = /^`svc ([^`]+)`/m.exec(refused.stderr) ?? [];
  const shown = await runSvc(home.path, command.split(' '), { env });
  assert.equal(shown.code, 0, `${refused.stderr}${shown.stderr}`);
  assert.match(shown.stdout, /"secrets:list"/);
  assert.doesNotMatch(shown.stdout, /"secrets:write"/);
});
