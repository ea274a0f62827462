// What commands on a daemon's host say of a database that does not answer, or goes in the middle, and of a directory that
// cannot be made: one line.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { tempDataDir } from '../../internal/base/testkit/daemon.ts';
import { callSvc } from './testkit.ts';

let data: { readonly path: string; remove(): Promise<void> };
let saved: string;
before(async () => {
  data = await tempDataDir();
  saved = join(data.path, 'saved');
  await writeFile(join(data.path, 'keys'), `1:${randomBytes(32).toString('base64')}\n`, { mode: 0o600 });
  const { code, stderr } = await callSvc(data.path, ['backup', saved, '--without-key', '--data-dir', data.path]);
  assert.equal(code, 0, stderr);
});
after(() => data.remove());

const servers = [
  ['goes once it is spoken to', (socket: Socket) => socket.once('data', () => socket.end()), 'Connection terminated'],
  ['says nothing', (socket: Socket) => socket.resume(), 'timeout expired'],
] as const;
for (const [what, serve, says] of servers)
  test(`a database that ${what}`, async (t) => {
    const open = new Set<Socket>();
    const server = createServer((socket) => {
      open.add(socket.on('error', () => undefined));
      serve(socket);
    });
    await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
    t.after(() => {
      server.close();
      for (const socket of open) socket.destroy();
    });
    const env = {
      SVC_DATABASE_URL: `postgres://u:hush@127.0.0.1:${(server.address() as AddressInfo).port}/x`,
      SVC_MASTER_KEY_FILE: join(data.path, 'keys'),
    };
    for (const args of [
      ['backup', join(data.path, 'other')],
      ['upgrade', 'check'],
      ['restore', saved],
    ]) {
      const { code, stderr } = await callSvc(data.path, args, { env }).catch((error: unknown) => ({
        code: null,
        stderr: String((error as Error).stack),
      }));
      assert.deepEqual([code, stderr.trim().split('\n').length], [1, 1], `${args[0]}: ${stderr}`);
      assert.ok(stderr.startsWith('svc: ') && stderr.includes(says) && !stderr.includes('hush'), stderr);
    }
  });

test('a data directory that cannot be made is told of by what would be put there, and is tried to no end', async () => {
  // Of a file system that says of no name that it could be there; Node's own recursive mkdir never ends on it.
  const env = { PATH: process.env['PATH'] ?? '', HOME: data.path, SVC_DATA_DIR: '/proc/svc-nowhere' };
  for (const args of [
    ['harness', 'install', 'harness-a'],
    ['preset', 'build', 'node', '--from', data.path],
  ]) {
    const main = join(import.meta.dirname, 'main.mjs');
    // Only that ends one whose threads are busy.
    const ran = spawnSync(process.execPath, [main, ...args], {
      env,
      encoding: 'utf8',
      timeout: 120_000,
      killSignal: 'SIGKILL',
    });
    assert.equal(ran.status, 1, `${args[0]}: ${ran.signal} ${ran.stderr}`);
    assert.match(ran.stderr, /^svc: \/proc\/svc-nowhere.* cannot be (?:read or )?written \(ENOENT\)\n$/);
  }
});
