// The edge by raw bytes: clients that do not wait, or leave, and hosts that say something else than they were asked.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer as createPlain, type IncomingMessage } from 'node:http';
import { createServer } from 'node:https';
import { type AddressInfo, connect, createServer as createSocketServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { mkdtemp, rm } from 'node:fs/promises';
import { after, before, describe, it, test } from 'node:test';
import { connect as secureConnect, getCACertificates, setDefaultCACertificates } from 'node:tls';
import type { FlowContext } from '../../flows/context.ts';
import type { EgressRoute } from '../../flows/ports.ts';
import { SessionAuthority } from './authority.ts';
import { createEgressRoutes } from './egress.ts';
import { dial } from './onward.ts';

const now = (): Date => new Date();
/** All that the edge asks for where nothing is denied. */
const ctx = { config: { allowPrivateNetwork: true }, runtime: { now } } as unknown as FlowContext;

describe('the edge, by raw bytes', () => {
  const own = getCACertificates('default');
  const routes = createEgressRoutes(() => ctx);
  const plain = createPlain((message, response) => response.end(`plain ${message.headers.host} ${message.url}`));
  const secure = createServer();
  let route: EgressRoute;
  let dir: string;
  const portOf = (server: typeof plain | typeof secure): number => (server.address() as AddressInfo).port;
  before(async () => {
    const trusted = await SessionAuthority.make('upstream', now);
    setDefaultCACertificates([...own, trusted.certificate]);
    secure.addContext('localhost', trusted.contextOf('localhost'));
    for (const server of [plain, secure]) {
      server.listen(0, '127.0.0.1');
      await once(server, 'listening');
    }
    dir = await mkdtemp(join(tmpdir(), 'egress-'));
    const value = Buffer.from('Bearer sesame');
    route = await routes.open({
      sessionId: '00000000-0000-4000-8000-000000000000',
      allow: [`127.0.0.1:${portOf(plain)}`, `localhost:${portOf(secure)}`],
      injections: [{ name: 's', hosts: ['localhost'], header: 'Authorization', value, raw: Buffer.from('sesame') }],
      socketPath: join(dir, 'edge.sock'),
    });
  });
  after(async () => {
    setDefaultCACertificates(own);
    await routes.stop();
    for (const server of [plain, secure]) {
      server.closeAllConnections();
      server.close();
    }
    await rm(dir, { recursive: true, force: true });
  });

  /** Asks for the way, and sends `more` with the question. */
  const ask = (authority: string, more = ''): Socket => {
    const socket = connect(join(dir, 'edge.sock'));
    socket.write(`CONNECT ${authority} HTTP/1.1\r\nhost: ${authority}\r\n\r\n${more}`);
    return socket;
  };

  it('passes on what a client sends without waiting for the way to be open', async () => {
    const inside = 'GET /early HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n';
    const socket = ask(`127.0.0.1:${portOf(plain)}`, inside);
    let said = '';
    socket.on('data', (part) => (said += String(part)));
    await once(socket, 'end', { signal: AbortSignal.timeout(30_000) });
    assert.match(said, /^HTTP\/1.1 200 Connection established\r\n\r\nHTTP\/1.1 200 OK[^]*plain here \/early/);
    socket.destroy();
  });

  it('goes to the host no longer for a change of protocol that nobody waits for, or that it refused', async () => {
    for (const path of ['/never', '/endless']) {
      const arrived = once(secure, 'upgrade') as Promise<[IncomingMessage, Socket]>;
      const socket = ask(`localhost:${portOf(secure)}`);
      await once(socket, 'data');
      const asked = secureConnect({ socket, servername: 'localhost', ca: route.trust?.ca ?? '' });
      asked.write(`GET ${path} HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n`);
      const [, far] = await arrived;
      far.on('error', () => undefined);
      const closed = new Promise((resolve) => far.resume().once('close', resolve));
      if (path === '/never') asked.destroy();
      else {
        far.write('HTTP/1.1 200 OK\r\ncontent-length: 9000\r\n\r\nx');
        assert.match(String(await once(asked, 'data')), /^HTTP\/1.1 200 OK\r\nx-svc-egress: upgrade/);
      }
      await Promise.race([closed, once(AbortSignal.timeout(30_000), 'abort')]);
      assert.ok(far.closed, path);
      socket.destroy();
    }
  });
});

test('goes to the host no longer for a session that ends while the way there is being opened', async () => {
  const arrived = Promise.withResolvers<Socket>();
  const host = createSocketServer((socket) => arrived.resolve(socket.resume()));
  host.listen(0, '127.0.0.1');
  await once(host, 'listening');
  const { port } = host.address() as AddressInfo;
  const dir = await mkdtemp(join(tmpdir(), 'egress-'));
  let ending: Promise<void> | undefined;
  const routes = createEgressRoutes(() => {
    // Asked for where the way is opened: the session ends in this moment.
    if (route !== undefined) ending ??= route.close();
    return ctx;
  });
  let route: EgressRoute | undefined;
  const socketPath = join(dir, 'edge.sock');
  const allow = [`127.0.0.1:${port}`];
  route = await routes.open({ sessionId: 'ending', allow, injections: [], socketPath });
  const near = connect(socketPath);
  near.on('error', () => undefined).write(`CONNECT 127.0.0.1:${port} HTTP/1.1\r\nhost: 127.0.0.1:${port}\r\n\r\n`);
  const far = await arrived.promise;
  const isOver = await Promise.race([
    once(far, 'close').then(() => true),
    once(AbortSignal.timeout(30_000), 'abort').then(() => false),
  ]);
  for (const socket of [near, far]) socket.destroy();
  await ending;
  host.close();
  await rm(dir, { recursive: true, force: true });
  assert.ok(isOver, 'the connection to the host is left open');
});

test('a connection that breaks before anybody listens to it ends nothing', async (t) => {
  const server = createSocketServer((socket) => socket.on('error', () => undefined));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  const far = await dial({ host: '127.0.0.1', port: (server.address() as AddressInfo).port }, true);
  // As the system does it to one that the host has reset.
  far.destroy(new Error('reset'));
  await new Promise<void>((resolve) => far.once('close', () => resolve()));
});
