// A session that opens as many connections to its way out as it can: this process, which has the edges of two sessions,
// grows by no more than 150 MB, computes for no more than 200 ms at a time, and serves the other one meanwhile.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { FlowContext } from '../../flows/context.ts';
import { createEgressRoutes } from './egress.ts';

const most = { grownMb: 150, busyMs: 200 };
const connections = 10_000;

/** Another process: `argv` is the socket and what is said on each connection. */
const flood = `
const { connect } = require('node:net');
const [path, said] = process.argv.slice(1);
const all = [];
for (let at = 0; at < ${connections}; at += 1) {
  const one = connect(path, () => said === '' || one.write(said));
  all.push(one.resume().on('error', () => one.destroy()));
}
setTimeout(() => process.exit(0), 4_000);
`;

describe('ten thousand connections of one session', () => {
  const plain = createServer((_request, response) => response.end('served'));
  const ctx = { config: { allowPrivateNetwork: true }, runtime: { now: () => new Date() } } as unknown as FlowContext;
  const routes = createEgressRoutes(() => ctx);
  let dir: string;
  let url: string;
  before(async () => {
    dir = await mkdtemp(join(tmpdir(), 'svc-flood-'));
    plain.listen(0, '127.0.0.1');
    await once(plain, 'listening');
    const { port } = plain.address() as AddressInfo;
    url = `http://127.0.0.1:${port}/`;
    for (const name of ['hostile', 'other']) {
      const allow = [`127.0.0.1:${port}`];
      await routes.open({ sessionId: name, allow, injections: [], socketPath: join(dir, name) });
    }
  });
  after(async () => {
    await routes.stop();
    plain.close();
    plain.closeAllConnections();
    await rm(dir, { recursive: true, force: true });
  });

  const ask = async (): Promise<number | undefined> => {
    const asked = request({ socketPath: join(dir, 'other'), path: url, headers: { host: 'h' }, agent: false });
    asked.end();
    const [message] = (await once(asked, 'response')) as [IncomingMessage];
    message.resume();
    await once(message, 'end');
    return message.statusCode;
  };
  const kb = async (name: 'VmRSS' | 'VmHWM'): Promise<number> => {
    const text = await readFile('/proc/self/status', 'utf8');
    return Number(new RegExp(`${name}:\\s+(\\d+) kB`).exec(text)?.[1]);
  };
  const cpuMs = (): number => {
    const { user, system } = process.threadCpuUsage();
    return (user + system) / 1_000;
  };

  /** What is said on each connection. */
  const kinds = { 'that say nothing': () => '', 'that ask': () => `GET ${url} HTTP/1.1\r\nhost: h\r\n\r\n` };
  for (const [what, said] of Object.entries(kinds)) {
    it(what, async () => {
      await ask();
      await writeFile('/proc/self/clear_refs', '5');
      const before = await kb('VmRSS');
      let [at, cpu, busyMs] = [performance.now(), cpuMs(), 0];
      const watch = setInterval(() => {
        const [now, used] = [performance.now(), cpuMs()];
        busyMs = Math.max(busyMs, Math.min(now - at, used - cpu));
        [at, cpu] = [now, used];
      }, 5);
      const child = spawn(process.execPath, ['-e', flood, join(dir, 'hostile'), said()], {
        stdio: ['ignore', 'ignore', 'inherit'],
      });
      let isOver = false;
      const exited = once(child, 'exit').then(() => (isOver = true));
      for (; !isOver; await sleep(20)) assert.equal(await ask(), 200);
      await exited;
      clearInterval(watch);
      const grownMb = ((await kb('VmHWM')) - before) / 1_024;
      assert.ok(grownMb <= most.grownMb && busyMs <= most.busyMs, JSON.stringify({ grownMb, busyMs }));
    });
  }
});
