// The edge of fenced sessions, against real TLS servers on this machine: what it lets through, what it refuses and counts,
// and what it adds. Once by its socket, and once from inside a sandbox, with a session's own programs.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer as createPlain, type IncomingMessage, request } from 'node:http';
import { createServer, type Server } from 'node:https';
import { type AddressInfo, connect, createServer as createRaw, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { mkdtemp, rm } from 'node:fs/promises';
import { after, before, describe, it } from 'node:test';
import { connect as secureConnect, getCACertificates, setDefaultCACertificates } from 'node:tls';
import { sessionConnectionsMax } from '../../base/net/connection-limit.ts';
import { createHostBench, type HostBench } from '../../flows/session-host/host-testkit.ts';
import { type ModelStub, startModelStub } from '../../flows/session-host/model-testkit.ts';
import type { EgressRoute } from '../../flows/ports.ts';
import { SessionAuthority } from './authority.ts';
import { createEgressRoutes } from './egress.ts';

const secret = 'sesame-of-the-edge';
const hostName = '127.0.0.2';

let seen: IncomingMessage[] = [];
/** Answers with what it was sent. */
async function startSecure(authority: SessionAuthority, host: string): Promise<{ server: Server; port: number }> {
  const server = createServer(
    { SNICallback: (_name, done) => done(null, authority.contextOf(host)) },
    (message, response) => {
      seen.push(message);
      const parts: Buffer[] = [];
      message.on('data', (part: Buffer) => parts.push(part));
      message.on('end', () => response.end(`${message.method} ${message.url} ${Buffer.concat(parts).toString()}`));
    },
  );
  server.on('upgrade', (message: IncomingMessage, socket: Socket) => {
    seen.push(message);
    socket.write('HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n');
    socket.pipe(socket);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { server, port: (server.address() as AddressInfo).port };
}

interface Said {
  readonly status: number;
  readonly word: string | undefined;
  readonly body: string;
}
const saidOf = async (message: IncomingMessage): Promise<Said> => {
  let body = '';
  for await (const part of message) body += String(part);
  return { status: message.statusCode ?? 0, word: message.headers['x-svc-egress'] as string | undefined, body };
};

describe('the edge', () => {
  let bench: HostBench | undefined;
  let stub: ModelStub;
  let trusted: SessionAuthority;
  let upstream: { server: Server; port: number };
  let untrusted: { server: Server; port: number };
  let plain: ReturnType<typeof createPlain>;
  let dir: string;
  let oddly = '';
  const odd = createRaw((socket) => {
    socket.on('error', () => undefined).once('data', () => socket.end(oddly));
  });
  const own = getCACertificates('default');
  before(async () => {
    stub = await startModelStub();
    trusted = await SessionAuthority.make('upstream', () => new Date());
    const other = await SessionAuthority.make('other', () => new Date());
    setDefaultCACertificates([...own, trusted.certificate]);
    upstream = await startSecure(trusted, 'localhost');
    untrusted = await startSecure(other, 'localhost');
    plain = createPlain((message, response) => {
      response.write(`plain ${message.headers.host} ${message.url}`);
      message.pipe(response);
    });
    for (const server of [plain, odd]) {
      server.listen(0, hostName);
      await once(server, 'listening');
    }
    dir = await mkdtemp(join(tmpdir(), 'egress-'));
    bench = await createHostBench({
      config: {
        sandbox: 'auto',
        allowPrivateNetwork: true,
        file: {
          sandboxes: { network: { allow: ['localhost:1', `${hostName}:${plainPort()}`, 'api.invalid'] } },
          providers: { model: { 'provider-a': { baseUrl: stub.url } } },
        },
        secretEnv: () => 'key',
      },
    });
  });
  after(async () => {
    setDefaultCACertificates(own);
    await bench?.stop();
    await stub.stop();
    for (const { server } of [upstream, untrusted]) server.closeAllConnections();
    plain.closeAllConnections();
    for (const server of [upstream.server, untrusted.server, plain, odd]) server.close();
    await rm(dir, { recursive: true, force: true });
  });
  const plainPort = (): number => (plain.address() as AddressInfo).port;

  describe('by its socket', () => {
    let route: EgressRoute;
    let routes: ReturnType<typeof createEgressRoutes>;
    const socketPath = (): string => join(dir, 'edge.sock');
    let allowPrivate = true;
    before(async () => {
      const { ctx } = (bench as HostBench).daemon;
      const seenBy = {
        ...ctx,
        get config() {
          return { ...ctx.config, allowPrivateNetwork: allowPrivate };
        },
      };
      routes = createEgressRoutes(() => seenBy);
      const value = Buffer.from(`Bearer ${secret}`);
      route = await routes.open({
        sessionId: '00000000-0000-4000-8000-000000000000',
        allow: [
          `localhost:${upstream.port}`,
          `localhost:${untrusted.port}`,
          `${hostName}:${plainPort()}`,
          `${hostName}:${(odd.address() as AddressInfo).port}`,
          'closed.invalid',
        ],
        injections: [
          { name: 's', hosts: ['localhost', hostName], header: 'Authorization', value, raw: Buffer.from(secret) },
          // What every object has is no header that a request carries.
          { name: 'o', hosts: ['localhost'], header: 'Constructor', value, raw: Buffer.from(secret) },
        ],
        socketPath: socketPath(),
      });
    });
    after(() => routes.stop());

    /** Through CONNECT; the answer to it where that is a refusal. */
    const tunnel = async (authority: string): Promise<Socket | Said> => {
      const asked = request({ socketPath: socketPath(), method: 'CONNECT', path: authority });
      asked.end();
      const [message, socket, head] = (await once(asked, 'connect')) as [IncomingMessage, Socket, Buffer];
      return message.statusCode === 200 ? socket : saidOfRaw(message, socket, head);
    };
    const saidOfRaw = async (message: IncomingMessage, socket: Socket, head: Buffer): Promise<Said> => {
      let body = head.toString();
      socket.on('data', (part: Buffer) => (body += part.toString()));
      await once(socket, 'end');
      return { status: message.statusCode ?? 0, word: message.headers['x-svc-egress'] as string, body };
    };
    const secure = async (
      port: number,
      options: { path?: string; headers?: Record<string, string>; method?: string; body?: string } = {},
    ): Promise<Said> => {
      const socket = await tunnel(`localhost:${port}`);
      assert.ok('write' in socket, JSON.stringify(socket));
      const { body, ...rest } = options;
      const asked = request({
        ...rest,
        host: 'localhost',
        port,
        createConnection: () => secureConnect({ socket, servername: 'localhost', ca: route.trust?.ca ?? '' }),
      });
      asked.end(body);
      const [message] = (await once(asked, 'response')) as [IncomingMessage];
      return saidOf(message);
    };

    it('adds the header on HTTPS to the host of an injection, and takes bodies both ways', async () => {
      seen = [];
      const said = await secure(upstream.port, { method: 'POST', path: '/a?b=c', body: 'x'.repeat(100_000) });
      assert.deepEqual([said.status, said.body.length], [200, 'POST /a?b=c '.length + 100_000]);
      assert.equal(seen[0]?.headers.authorization, `Bearer ${secret}`);
      assert.equal(seen[0]?.headers['constructor'] as unknown, `Bearer ${secret}`);
      assert.equal(seen[0]?.headers.host, `localhost:${upstream.port}`);
    });

    it('refuses a request that carries the header, and one for another host', async () => {
      seen = [];
      for (const name of ['Authorization', 'AUTHORIZATION']) {
        assert.equal((await secure(upstream.port, { headers: { [name]: 'svc-injected-secret:s' } })).status, 403);
      }
      assert.deepEqual((await secure(upstream.port, { headers: { host: 'elsewhere' } })).status, 403);
      assert.equal(seen.length, 0);
    });

    it('trusts what the daemon trusts, and says when it does not', async () => {
      seen = [];
      const said = await secure(untrusted.port);
      assert.deepEqual([said.status, said.word], [502, 'tls']);
      assert.equal(seen.length, 0);
    });

    it('changes the protocol where the host does', async () => {
      const socket = await tunnel(`localhost:${upstream.port}`);
      assert.ok('write' in socket);
      const asked = request({
        host: 'localhost',
        port: upstream.port,
        headers: { connection: 'upgrade', upgrade: 'echo' },
        createConnection: () => secureConnect({ socket, servername: 'localhost', ca: route.trust?.ca ?? '' }),
      });
      seen = [];
      asked.end();
      const [, far] = (await once(asked, 'upgrade')) as [IncomingMessage, Socket];
      far.write('hello');
      const [echo] = (await once(far, 'data')) as [Buffer];
      assert.equal(echo.toString(), 'hello');
      assert.equal(seen[0]?.headers.authorization, `Bearer ${secret}`);
      far.destroy();
    });

    const plainly = async (url: string, method = 'GET', headers = {}, body?: string): Promise<Said> => {
      const asked = request({ socketPath: socketPath(), method, path: url, headers: { host: 'ignored', ...headers } });
      asked.end(body);
      const [message] = (await once(asked, 'response')) as [IncomingMessage];
      return saidOf(message);
    };

    it('passes plain HTTP on, and nothing is added to it', async () => {
      const said = await plainly(`http://${hostName}:${plainPort()}/x?y`);
      assert.deepEqual([said.status, said.body], [200, `plain ${hostName}:${plainPort()} /x?y`]);
    });

    it('passes on as a body what came as one, with any method: a host reads no second request in it', async () => {
      const inside = 'GET /other HTTP/1.1\r\nhost: elsewhere\r\n\r\n';
      const headers = { 'transfer-encoding': 'chunked' };
      for (const method of ['DELETE', 'GET', 'OPTIONS', 'POST']) {
        seen = [];
        const said = await secure(upstream.port, { method, path: '/x', headers, body: inside });
        assert.deepEqual([said.status, said.body, seen.length], [200, `${method} /x ${inside}`, 1]);
        const open = await plainly(`http://${hostName}:${plainPort()}/x`, method, headers, inside);
        assert.deepEqual([open.status, open.body], [200, `plain ${hostName}:${plainPort()} /x${inside}`]);
      }
    });

    it('says of an answer that is none that the host cannot be reached, and goes on', async () => {
      for (const line of ['000 X', '099 X', '101 Y\r\nupgrade: x\r\nconnection: upgrade', '101 Y', '2000 Z']) {
        oddly = `HTTP/1.1 ${line}\r\ncontent-length: 0\r\n\r\n`;
        const said = await plainly(`http://${hostName}:${(odd.address() as AddressInfo).port}/`);
        assert.deepEqual([said.status, said.word], [502, 'unreachable'], line);
      }
    });

    it('leaves alone what is no TLS on a connection to the host of an injection', async () => {
      const socket = await tunnel(`${hostName}:${plainPort()}`);
      assert.ok('write' in socket);
      const asked = request({ path: '/z', headers: { host: 'h' }, createConnection: () => socket });
      asked.end();
      const [message] = (await once(asked, 'response')) as [IncomingMessage];
      assert.equal((await saidOf(message)).body, 'plain h /z');
    });

    it('refuses what the list does not hold, in every spelling', async () => {
      const elsewhere = [
        'evil.example:443',
        `localhost:${upstream.port + 1}`,
        '127.0.0.1:22',
        '[::1]:443',
        '0x7f000001:443',
        '169.254.169.254:80',
        `LOCALHOST.evil.example:${upstream.port}`,
      ];
      for (const authority of elsewhere) {
        const said = await tunnel(authority);
        assert.ok('status' in said, authority);
        assert.deepEqual([said.status, said.word], [403, 'denied'], authority);
        assert.match(said.body, /is not among the hosts/);
      }
      for (const url of ['http://evil.example/', 'http://127.0.0.1:5432/', `http://evil.example@169.254.169.254/`]) {
        assert.deepEqual([(await plainly(url)).status], [403], url);
      }
      for (const url of ['/', '/healthz', 'https://localhost/', 'ftp://localhost/']) {
        assert.equal((await plainly(url)).status, 400, url);
      }
      for (const authority of ['localhost', 'localhost:0', 'localhost:99999', 'a b:1', 'x@localhost:1', ':1']) {
        const said = await tunnel(authority).catch(() => ({ status: 400 }));
        assert.ok('status' in said && said.status === 400, authority);
      }
    });

    it('has so many requests under way and no more, however few the connections are that they come on', async () => {
      const most = sessionConnectionsMax;
      let asked = 0;
      const swallowing = createPlain(() => (asked += 1)).listen(plainPort(), '127.0.0.3');
      await once(swallowing, 'listening');
      const flooded = await routes.open({
        sessionId: '00000000-0000-4000-8000-000000000001',
        allow: [`127.0.0.3:${plainPort()}`, `${hostName}:${plainPort()}`],
        injections: [],
        socketPath: join(dir, 'flooded.sock'),
      });
      const one = connect(join(dir, 'flooded.sock'));
      const line = `GET http://127.0.0.3:${plainPort()}/ HTTP/1.1\r\nhost: h\r\n\r\n`;
      one.write(line.repeat(most + 40));
      while (asked < most) await once(swallowing, 'request');
      const late = request({
        socketPath: join(dir, 'flooded.sock'),
        path: `http://${hostName}:${plainPort()}/`,
        headers: { host: 'h' },
      });
      late.end();
      const [message] = (await once(late, 'response')) as [IncomingMessage];
      const told = await saidOf(message);
      assert.deepEqual([told.status, told.word, message.headers['retry-after']], [503, 'busy', '1']);
      // Another session goes on meanwhile.
      assert.equal((await plainly(`http://${hostName}:${plainPort()}/x`)).status, 200);
      assert.equal(asked, most);
      one.destroy();
      swallowing.closeAllConnections();
      await flooded.close();
      swallowing.close();
    });

    it('refuses private addresses where the installation does, and says when a host is not there', async () => {
      allowPrivate = false;
      try {
        for (const said of [await secure(upstream.port), await plainly(`http://${hostName}:${plainPort()}/`)]) {
          assert.deepEqual([said.status, said.word], [403, 'denied']);
          assert.match(said.body, /private address/);
        }
      } finally {
        allowPrivate = true;
      }
      const said = await tunnel('closed.invalid:443');
      assert.ok('status' in said);
      assert.deepEqual([said.status, said.word], [502, 'unreachable']);
    });
  });

  describe('from inside', () => {
    const inBubblewrap = (body: { sandbox?: { fenced?: boolean } }): boolean => body.sandbox?.fenced === true;
    /** A program of a session's that asks as others do, through what its environment names. */
    const ask = (url: string): string =>
      `NODE_USE_ENV_PROXY=1 NODE_NO_WARNINGS=1 /run/svc/node -e 'fetch("${url}").then(async (r) => console.log("got", r.status, r.headers.get("x-svc-egress"), await r.text()), (e) => console.log("failed", String(e.cause ?? e)))'`;

    it('holds a placeholder, reaches its list alone, and tells what was refused', async () => {
      const { daemon, apply, start, until } = bench as HostBench;
      const injection = { hosts: ['api.invalid'], header: 'x-key', format: 'k={value}' };
      const put = await daemon.api('PUT', 'P/secrets/edge', { value: secret, injection });
      assert.ok(put.status < 300, JSON.stringify(put.body));
      await apply({
        inside: { model: { provider: 'provider-a', id: 'claude-opus-4-8' }, env: { TOKEN: { $secret: 'edge' } } },
      });
      const script = [
        '!exec echo $TOKEN $HTTPS_PROXY $https_proxy $NO_PROXY',
        `!exec ${ask(`http://${hostName}:${plainPort()}/in`)}`,
        `!exec /run/svc/node -e 'require("http").get({port:4404,path:"http://evil.example/"},(r)=>{console.log(r.statusCode,r.headers["x-svc-egress"]);r.pipe(process.stdout)})'`,
        `!exec ${ask('https://api.invalid/')}`,
        // Quoted: a program that is given no file waits for what somebody types.
        '!exec head -1 "$NODE_EXTRA_CA_CERTS"; grep -c BEGIN "$SSL_CERT_FILE"; ls /etc/ssl/certs/ca-certificates.crt',
        '!say .the-end.',
      ].join('\n');
      const session = await start('inside', script);
      const view = await until(session, ({ state, said }) => state === 'idle' && said.endsWith('.the-end.'));
      const { body } = view;
      if (!inBubblewrap(body as object)) {
        return assert.match(JSON.stringify(body['sandbox']), /"network".*"injection"/);
      }
      assert.match(
        view.said,
        /svc-injected-secret:edge http:\/\/127\.0\.0\.1:4404 http:\/\/127\.0\.0\.1:4404 localhost/,
      );
      assert.match(view.said, new RegExp(`got 200 null plain ${hostName}:${plainPort()} /in`));
      assert.match(view.said, /403 denied\nsvc: evil\.example:80 is not among the hosts/);
      // Under the authority of the session, or there would be no answer.
      assert.match(view.said, /got 502 unreachable svc: api\.invalid cannot be reached/);
      assert.match(view.said, /-----BEGIN CERTIFICATE-----/);
      assert.ok(!JSON.stringify(body).includes(secret));
      const noted = await until(session, (one) => one.body['egress'] !== undefined);
      assert.deepEqual(noted.body['egress'], { denied: [{ host: 'evil.example', count: 1 }] });
      const stages = (body['provisioning'] as unknown as { stage: string }[]).map(({ stage }) => stage);
      assert.deepEqual(stages, ['starting', 'mounting']);
      const { body: audit } = await daemon.api('GET', 'P/audit?action=secret.access');
      assert.match(JSON.stringify(audit), /edge-injection/);
    });

    it('is not launched where a host of an injection is not in the list', async () => {
      const { daemon, apply, start, until } = bench as HostBench;
      const injection = { hosts: ['api.example'], header: 'x-key' };
      await daemon.api('PUT', 'P/secrets/far', { value: secret, injection });
      await apply({ far: { env: { TOKEN: { $secret: 'far' } } } });
      const session = await start('far', '!say hello');
      const view = await until(session, ({ state }) => state === 'failed' || state === 'idle');
      if (view.state === 'idle') return assert.match(JSON.stringify(view.body['sandbox']), /"injection"/);
      assert.match(view.reason ?? '', /Injected secret far: its host api\.example is not among/);
    });
  });
});
