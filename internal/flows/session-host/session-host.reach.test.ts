// From a fenced session nothing but its channels and the hosts of its list answers: a table of attempts on the daemon, its
// database, metadata services, engine sockets, neighbours and names, made from one real session. And want of memory.
// Precondition: namespaces can be made here.

import assert from 'node:assert/strict';
import { createServer, type Server } from 'node:http';
import { type AddressInfo, createServer as createSocketServer, type Server as SocketServer } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { findProgram } from '../../adapters/sandbox/sandbox.ts';
import { answered, type Attempt, attemptArgv, attempts, neighbourSockets } from '../../base/testkit/attempts.ts';
import { createHostBench, type HostBench } from './host-testkit.ts';

const here = await findProgram('bwrap', process.env['PATH'] ?? '');
const secret = 'sesame-that-stays-outside';

describe('a fenced session', { skip: here === null && 'no bubblewrap on this machine' }, () => {
  let bench: HostBench;
  let web: Server;
  let engine: SocketServer;
  let neighbour: string;
  const heard: string[] = [];
  before(async () => {
    web = createServer((request, response) => {
      heard.push(String(request.headers.host));
      // Where it leads to is another's.
      if (request.url === '/away') response.writeHead(302, { location: 'http://169.254.169.254/latest/' }).end();
      else response.end('allowed');
    });
    await new Promise<void>((resolve) => web.listen(0, '127.0.0.1', resolve));
    const { port } = web.address() as AddressInfo;
    const file = { sandboxes: { network: { allow: [`localhost:${port}`] } } };
    bench = await createHostBench({ config: { sandbox: 'bubblewrap', allowPrivateNetwork: true, file } });
    engine = createSocketServer((socket) => socket.end());
    await new Promise<void>((resolve) => engine.listen(join(bench.daemon.dataDir, 'engine.sock'), resolve));
    await bench.daemon.api('PUT', 'P/secrets/key', { value: secret });
    const environment = { name: 'small', image: { kind: 'preset', name: 'base' }, resources: { memoryMB: 512 } };
    await bench.apply({ inside: { env: { KEY: { $secret: 'key' } } }, small: { environment } });
    neighbour = await bench.start('inside', '!say ready');
    await bench.until(neighbour, ({ state }) => state === 'idle');
  });
  after(async () => {
    await bench?.stop();
    engine.close();
    web.close();
  });

  it('reaches none of some hundred places, and the host of its list', async () => {
    const { daemon } = bench;
    const { port } = web.address() as AddressInfo;
    const wanted = attempts({
      daemonPort: Number(new URL(daemon.url).port),
      databasePort: Number(new URL(daemon.database.url).port || 5432),
      openPort: port,
      sockets: [join(daemon.dataDir, 'engine.sock'), ...neighbourSockets(daemon.dataDir, neighbour)],
    });
    assert.ok(wanted.length >= 400, `${wanted.length} attempts`);
    const open: Attempt[] = [
      ['get', `http://localhost:${port}/`],
      ['connect', `localhost:${port}`],
    ];
    const [file, flag, source, given] = attemptArgv(process.execPath, [...wanted, ...open]);
    const session = await bench.start('inside', '!say ready');
    await bench.until(session, ({ state }) => state === 'idle');
    await bench.send(session, `!exec ${file} ${flag} '${source}' ${given}`);
    const view = await bench.until(session, ({ state, said }) => state === 'idle' && said.includes('DONE'));
    assert.deepEqual(answered(view.said), { count: wanted.length + 2, open });
    assert.deepEqual([...new Set(heard)], [`localhost:${port}`]);
    // They are written down behind what is refused.
    const deniedOf = (body: typeof view.body): readonly object[] =>
      (body['egress'] as unknown as { denied?: readonly object[] } | undefined)?.denied ?? [];
    await bench.until(session, ({ body }) => deniedOf(body).length > 10);
    // A redirection of a host of the list leads nowhere else.
    await bench.send(
      session,
      `!exec ${process.execPath} -e 'fetch("http://localhost:${port}/away").then(async (r) => console.log("GOT", r.status, r.headers.get("x-svc-egress")), () => console.log("GOT nothing"))'`,
    );
    const led = await bench.until(session, ({ state, said }) => state === 'idle' && said.includes('GOT'));
    assert.match(led.said, /GOT (403 denied|nothing)/);
  });

  it('that has no more memory says so, and goes on in a new process', async (t) => {
    const session = await bench.start('small', '!say ready');
    const ready = await bench.until(session, ({ state }) => state === 'idle');
    const lacking = ready.body['sandbox']?.['notEnforced'] as unknown as string[];
    if (lacking.includes('resources')) return t.skip('no limits on this machine');
    // The harness itself is what the kernel ends: its child makes itself the last to go.
    const hold = 'const held=[]; for(;;) held.push(Buffer.alloc(16777216, 1))';
    await bench.send(
      session,
      `!exec test -e once || { touch once; echo 1000 > /proc/$PPID/oom_score_adj; ${process.execPath} -e '${hold}'; sleep 60; }\n!say survived`,
    );
    const view = await bench.until(session, ({ state, said }) => state === 'idle' && said.includes('survived'));
    const turns = await bench.turns(session);
    assert.deepEqual(
      turns.map(({ state, error }) => [state, error]).slice(-2),
      [
        ['lost', 'out of memory (512 MB)'],
        ['done', null],
      ],
      view.reason ?? '',
    );
  });
});
