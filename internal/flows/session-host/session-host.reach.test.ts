// From a fenced session nothing but its channels and the hosts of its list answers: a table of attempts on the daemon, its
// database, metadata services, engine sockets, neighbours and names, made from one real session. And want of memory.
// Precondition: namespaces can be made here.

import assert from 'node:assert/strict';
import { createServer, type Server } from 'node:http';
import { type AddressInfo, createServer as createSocketServer, type Server as SocketServer } from 'node:net';
import { networkInterfaces } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { findProgram } from '../../adapters/sandbox/sandbox.ts';
import { createHostBench, type HostBench } from './host-testkit.ts';

const here = await findProgram('bwrap', process.env['PATH'] ?? '');
const secret = 'sesame-that-stays-outside';

/** Run inside: tries every target, and prints those that answered, as JSON. */
const tryScript = String.raw`
const net = require('node:net'), dgram = require('node:dgram'), dns = require('node:dns'), http = require('node:http');
const within = (work, ms = 1500) => Promise.race([work, new Promise((done) => setTimeout(done, ms, false))]);
const tcp = ([host, port]) => within(new Promise((done) => {
  const s = net.connect(port, host, () => (s.destroy(), done(true))); s.on('error', () => done(false)); }));
const unix = ([path]) => within(new Promise((done) => {
  const s = net.connect(path, () => (s.destroy(), done(true))); s.on('error', () => done(false)); }));
const udp = ([host, port]) => within(new Promise((done) => {
  const s = dgram.createSocket(host.includes(':') ? 'udp6' : 'udp4'); s.on('error', () => done(false)); s.on('message', () => done(true));
  s.send(Buffer.from('000001000001000000000000076578616d706c6503636f6d0000010001', 'hex'), port, host, (e) => e && done(false)); }), 700);
const name = ([host]) => within(new Promise((done) => dns.resolve4(host, (e) => done(!e))));
const proxy = (method, [path, headers = {}]) => within(new Promise((done) => {
  const q = http.request({ host: '127.0.0.1', port: 4404, method, path, headers });
  q.on('connect', (r, s) => (s.destroy(), done(r.statusCode === 200))).on('response', (r) => (r.resume(), done(r.statusCode < 400)));
  q.on('error', () => done(false)).end(); }));
const ways = { tcp, unix, udp, name, connect: (a) => proxy('CONNECT', a), get: (a) => proxy('GET', a) };
(async () => {
  const targets = JSON.parse(Buffer.from(process.argv[1], 'base64'));
  const open = [];
  for (let at = 0; at < targets.length; at += 200) {
    const tried = targets.slice(at, at + 200);
    const got = await Promise.all(tried.map(([way, ...args]) => ways[way](args)));
    tried.forEach((one, index) => got[index] && open.push(one));
  }
  console.log('TRIED' + targets.length + JSON.stringify(open) + 'DONE');
})();`;

type Target = readonly [
  way: 'tcp' | 'unix' | 'udp' | 'name' | 'connect' | 'get',
  ...args: (string | number | object)[],
];

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

  function targets(): Target[] {
    const { daemon } = bench;
    const daemonPort = Number(new URL(daemon.url).port);
    const database = Number(new URL(daemon.database.url).port || 5432);
    const webPort = (web.address() as AddressInfo).port;
    const own = Object.values(networkInterfaces())
      .flatMap((all) => all ?? [])
      .map(({ address }) => address);
    const local = [
      '127.0.0.1',
      '127.0.0.2',
      '127.1.2.3',
      '0.0.0.0',
      'localhost',
      '::1',
      '::',
      '::ffff:127.0.0.1',
      ...own,
    ];
    const metadata = [
      '169.254.169.254',
      '169.254.170.2',
      '100.100.100.200',
      '168.63.129.16',
      'fd00:ec2::254',
      'fe80::1',
    ];
    const private_ = ['10.0.0.1', '172.17.0.1', '192.168.0.1', '100.64.0.1', 'fc00::1'];
    const outside = ['1.1.1.1', '8.8.8.8', '93.184.215.14', '2606:4700:4700::1111', '2001:4860:4860::8888'];
    const ports = [daemonPort, database, webPort, 22, 80, 443, 2375, 2376, 5432, 6443, 8080, 10250];
    const tcp = [
      ...local.flatMap((host) => ports.map((port): Target => ['tcp', host, port])),
      ...[...metadata, ...private_, ...outside].flatMap((host) => [80, 443].map((port): Target => ['tcp', host, port])),
    ];
    const sandboxes = join(daemon.dataDir, 'sandboxes');
    const unix = [
      ...[
        'docker.sock',
        'podman/podman.sock',
        'containerd/containerd.sock',
        'crio/crio.sock',
        'systemd/private',
        'dbus/system_bus_socket',
      ],
      ...['snapd.socket', 'user/0/bus', 'user/1000/bus', 'postgresql/.s.PGSQL.5432'],
    ].flatMap((path): Target[] => [
      ['unix', `/run/${path}`],
      ['unix', `/var/run/${path}`],
    ]);
    const own_ = [join(daemon.dataDir, 'engine.sock'), `/tmp/.s.PGSQL.${database}`, '\0/tmp/.X11-unix/X0', '/dev/log'];
    const others = ['model', 'tools', 'git', 'egress'].map(
      (name): Target => ['unix', join(sandboxes, neighbour, 'run', `${name}.sock`)],
    );
    const udp = ['1.1.1.1', '8.8.8.8', '127.0.0.53', '127.0.0.1', '2606:4700:4700::1111'].map(
      (host): Target => ['udp', host, 53],
    );
    const names = [
      'example.com',
      'metadata.google.internal',
      'kubernetes.default.svc',
      'host.docker.internal',
      'localhost.example',
    ];
    const hosts = [
      ...local,
      ...metadata,
      ...private_,
      'example.com',
      'metadata.google.internal',
      'host.docker.internal',
    ];
    const bare = (host: string): string => (host.includes(':') ? `[${host}]` : host);
    const tunnels = hosts.flatMap((host) =>
      [80, 443, daemonPort].map((port): Target => ['connect', `${bare(host)}:${port}`]),
    );
    const gets = hosts.map((host): Target => ['get', `http://${bare(host)}:${daemonPort}/healthz`]);
    const tricks: Target[] = [
      ['get', `http://localhost:${daemonPort}/healthz`, { host: `localhost:${webPort}` }],
      ['get', `http://localhost:${webPort}@127.0.0.1:${daemonPort}/healthz`],
      ['get', `http://2130706433:${daemonPort}/healthz`],
      ['get', `http://0x7f.1:${daemonPort}/healthz`],
      ['get', `http://0177.0.0.1:${daemonPort}/healthz`],
      ['get', `http://localhost.:${daemonPort}/healthz`],
      ['get', '/healthz', { host: `127.0.0.1:${daemonPort}` }],
      ['connect', `localhost:${webPort}.example.com:443`],
      ['connect', `localhost%00:${daemonPort}`],
      ['get', 'ftp://localhost/'],
      ['get', 'file:///etc/passwd'],
    ];
    return [
      ...tcp,
      ...unix,
      ...own_.map((path): Target => ['unix', path]),
      ...others,
      ...udp,
      ...names.map((one): Target => ['name', one]),
      ...tunnels,
      ...gets,
      ...tricks,
    ];
  }

  it('reaches none of some hundred places, and the host of its list', async () => {
    const wanted = targets();
    assert.ok(wanted.length >= 200, `${wanted.length} attempts`);
    const { port } = web.address() as AddressInfo;
    const all: Target[] = [...wanted, ['get', `http://localhost:${port}/`], ['connect', `localhost:${port}`]];
    const given = Buffer.from(JSON.stringify(all)).toString('base64');
    const script = Buffer.from(tryScript).toString('base64');
    const command = `${process.execPath} -e 'eval(Buffer.from("${script}","base64").toString())' ${given}`;
    const session = await bench.start('inside', '!say ready');
    await bench.until(session, ({ state }) => state === 'idle');
    await bench.send(session, `!exec ${command}`);
    const view = await bench.until(session, ({ state, said }) => state === 'idle' && said.includes('DONE'));
    const [, count, open] = /TRIED(\d+)(\[.*\])DONE/.exec(view.said) ?? [];
    assert.equal(Number(count), all.length);
    assert.deepEqual(JSON.parse(open ?? 'null'), [
      ['get', `http://localhost:${port}/`],
      ['connect', `localhost:${port}`],
    ]);
    assert.deepEqual([...new Set(heard)], [`localhost:${port}`]);
    const denied = view.body['egress']?.['denied'] as unknown as { host: string; count: number }[];
    assert.ok(denied.length > 10);
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
