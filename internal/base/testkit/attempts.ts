// One table of attempts to get out of a fenced sandbox, shared by the tests of all providers: the daemon, its database,
// metadata services, sockets of engines, neighbours, link-local and private addresses, IPv6, name services, raw sockets, and
// the tricks of proxies. And the program that makes them inside. A sandbox that is tested has a network of its own with
// loopback alone, so that nothing of this leaves the machine where the fence holds; each attempt is one connection.

import { hostname, networkInterfaces } from 'node:os';
import { join } from 'node:path';

/** `connect` and `get` ask the edge, at 127.0.0.1:4404 inside; `raw` is an echo request of ICMP, `multicast` joins a group. */
export type Attempt = readonly [
  way: 'tcp' | 'unix' | 'udp' | 'name' | 'raw' | 'multicast' | 'connect' | 'get',
  ...args: (string | number | object)[],
];

/** What there is around a sandbox, all of it on this machine. */
export interface Surroundings {
  readonly daemonPort: number;
  readonly databasePort: number;
  /** Of a server that answers on this machine's loopback: what a leak would reach. */
  readonly openPort: number;
  /** Of the engine's API, a registry, a cluster's API server. */
  readonly otherPorts?: readonly number[];
  /** Sockets of this machine that answer: of the engine, and of other sandboxes. */
  readonly sockets: readonly string[];
}

const metadata = [
  '169.254.169.254',
  '169.254.170.2',
  '169.254.169.123',
  '100.100.100.200',
  '168.63.129.16',
  'fd00:ec2::254',
  'fe80::1',
  'fe80::1%eth0',
];
const privateList = [
  '10.0.0.1',
  '10.96.0.1',
  '172.17.0.1',
  '172.17.0.2',
  '192.168.0.1',
  '192.168.122.1',
  '100.64.0.1',
  'fc00::1',
];
const outside = [
  '1.1.1.1',
  '8.8.8.8',
  '93.184.215.14',
  '2606:4700:4700::1111',
  '2001:4860:4860::8888',
  '64:ff9b::7f00:1',
];
const names = [
  'example.com',
  'metadata.google.internal',
  'kubernetes.default.svc',
  'kubernetes.default.svc.cluster.local',
  'host.docker.internal',
  'gateway.docker.internal',
  'host.containers.internal',
  'localhost.example',
];
const socketsList = [
  ...['docker.sock', 'podman/podman.sock', 'containerd/containerd.sock', 'crio/crio.sock', 'systemd/private'],
  ...['dbus/system_bus_socket', 'snapd.socket', 'user/0/bus', 'user/1000/bus', 'postgresql/.s.PGSQL.5432'],
];

/** At least 400 of them. */
export function attempts(around: Surroundings): Attempt[] {
  const { daemonPort, databasePort, openPort, otherPorts = [], sockets } = around;
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
  const ports = [daemonPort, databasePort, openPort, ...otherPorts, 22, 80, 443, 2375, 2376, 5432, 6443, 8080, 10_250];
  const each = (hosts: readonly string[], on: readonly number[], way: 'tcp' | 'udp' = 'tcp'): Attempt[] =>
    hosts.flatMap((host) => on.map((port): Attempt => [way, host, port]));
  return [
    ...each(local, ports),
    ...each([...metadata, ...privateList, ...outside], [80, 443]),
    ...each(
      ['1.1.1.1', '8.8.8.8', '127.0.0.11', '127.0.0.53', '127.0.0.1', '10.96.0.10', '2606:4700:4700::1111'],
      [53],
      'udp',
    ),
    ...each(['169.254.169.254', '255.255.255.255', 'ff02::1', ...own.slice(0, 2)], [53, 123], 'udp'),
    ...[
      '169.254.169.254',
      '1.1.1.1',
      '172.17.0.1',
      ...own.filter((one) => !one.startsWith('127.') && one !== '::1'),
    ].map((host): Attempt => ['raw', host]),
    ...['224.0.0.251', '239.255.255.250'].map((group): Attempt => ['multicast', group]),
    ...socketsList.flatMap((path): Attempt[] => [
      ['unix', `/run/${path}`],
      ['unix', `/var/run/${path}`],
    ]),
    ...[`/tmp/.s.PGSQL.${databasePort}`, '\0/tmp/.X11-unix/X0', '\0/containerd-shim', '/dev/log', ...sockets].map(
      (path): Attempt => ['unix', path],
    ),
    ...[...names, hostname()].map((name): Attempt => ['name', name]),
    ...throughTheEdge([...local, ...metadata, ...privateList, ...names.slice(0, 6), hostname()], around),
  ];
}

/** What is asked of the edge, where there is one: none of the hosts is on its list. */
function throughTheEdge(hosts: readonly string[], { daemonPort, openPort }: Surroundings): Attempt[] {
  const bare = (host: string): string => (host.includes(':') ? `[${host}]` : host);
  return [
    ...hosts.flatMap((host) => [80, 443, daemonPort].map((port): Attempt => ['connect', `${bare(host)}:${port}`])),
    ...hosts.map((host): Attempt => ['get', `http://${bare(host)}:${daemonPort}/healthz`]),
    ['get', `http://localhost:${daemonPort}/healthz`, { host: `localhost:${openPort}` }],
    ['get', `http://localhost:${openPort}@127.0.0.1:${daemonPort}/healthz`],
    ['get', `http://2130706433:${daemonPort}/healthz`],
    ['get', `http://0x7f.1:${daemonPort}/healthz`],
    ['get', `http://0177.0.0.1:${daemonPort}/healthz`],
    ['get', `http://localhost.:${daemonPort}/healthz`],
    ['get', '/healthz', { host: `127.0.0.1:${daemonPort}` }],
    ['connect', `localhost:${openPort}.example.com:443`],
    ['connect', `localhost%00:${daemonPort}`],
    ['get', 'ftp://localhost/'],
    ['get', 'file:///etc/passwd'],
  ];
}

export const neighbourSockets = (dataDir: string, session: string): string[] =>
  ['model', 'tools', 'git', 'egress'].map((name) => join(dataDir, 'sandboxes', session, 'run', `${name}.sock`));

/** Run inside: makes each attempt of its argument, and prints how many they were and those that were answered. */
const program = String.raw`
const net = require('node:net'), dgram = require('node:dgram'), dns = require('node:dns'), http = require('node:http');
const { spawn } = require('node:child_process');
const within = (work, ms = 1500) => Promise.race([work, new Promise((done) => setTimeout(done, ms, false))]);
const tcp = ([host, port]) => within(new Promise((done) => {
  const s = net.connect(port, host, () => (s.destroy(), done(true))); s.on('error', () => done(false)); }));
const unix = ([path]) => within(new Promise((done) => {
  const s = net.connect(path, () => (s.destroy(), done(true))); s.on('error', () => done(false)); }));
const udp = ([host, port]) => within(new Promise((done) => {
  const s = dgram.createSocket(host.includes(':') ? 'udp6' : 'udp4'); s.on('error', () => done(false)); s.on('message', () => done(true));
  s.send(Buffer.from('000001000001000000000000076578616d706c6503636f6d0000010001', 'hex'), port, host, (e) => e && done(false)); }), 700);
const name = ([host]) => within(new Promise((done) => dns.resolve4(host, (e) => done(!e))));
const raw = ([host]) => within(new Promise((done) => {
  const p = spawn('ping', ['-c', '1', '-W', '1', host], { stdio: 'ignore' }); p.on('error', () => done(false)); p.on('exit', (code) => done(code === 0)); }), 3000);
const multicast = ([group]) => within(new Promise((done) => {
  const s = dgram.createSocket('udp4'); s.on('error', () => done(false)); s.on('message', () => done(true));
  s.bind(0, () => { try { s.addMembership(group); s.send(Buffer.from('x'), s.address().port, group, (e) => e && done(false)); } catch { done(false); } }); }), 700);
const proxy = (method, [path, headers = {}]) => within(new Promise((done) => {
  const q = http.request({ host: '127.0.0.1', port: 4404, method, path, headers });
  q.on('connect', (r, s) => (s.destroy(), done(r.statusCode === 200))).on('response', (r) => (r.resume(), done(r.statusCode < 400)));
  q.on('error', () => done(false)).end(); }));
const ways = { tcp, unix, udp, name, raw, multicast, connect: (a) => proxy('CONNECT', a), get: (a) => proxy('GET', a) };
(async () => {
  const all = JSON.parse(Buffer.from(process.argv[1], 'base64'));
  const open = [];
  for (let at = 0; at < all.length; at += 200) {
    const tried = all.slice(at, at + 200);
    const got = await Promise.all(tried.map(([way, ...args]) => ways[way](args).catch(() => false)));
    tried.forEach((one, index) => got[index] && open.push(one));
  }
  console.log('TRIED' + all.length + JSON.stringify(open) + 'DONE');
  process.exit(0);
})();`;

/** Without a quote or a blank in it, so that it may stand in a line of a shell: `node` is the program inside. */
export function attemptArgv(node: string, all: readonly Attempt[]): [file: string, ...args: string[]] {
  const base64 = (text: string): string => Buffer.from(text).toString('base64');
  return [node, '-e', `eval(Buffer.from("${base64(program)}","base64").toString())`, base64(JSON.stringify(all))];
}

/** What it printed: how many attempts were made, and which of them were answered; null where it has not come to its end. */
export function answered(said: string): { readonly count: number; readonly open: readonly Attempt[] } | null {
  const [, count, open] = /TRIED(\d+)(\[.*\])DONE/.exec(said) ?? [];
  return open === undefined ? null : { count: Number(count), open: JSON.parse(open) as Attempt[] };
}
