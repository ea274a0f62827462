// What a remote tool server answers, of any size and in any pieces, passes through a daemon that grows by at most 150 MB for
// it and stalls at most 200 ms, whether or not who asked reads it. A real server behind TLS, and a daemon that is a child
// process. Only with SVC_LONG=1 (make test-fuzz).

import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import type { ServerResponse } from 'node:http';
import { createServer } from 'node:https';
import { type AddressInfo, connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { selfSigned } from '../../internal/adapters/repo/test-certificate.ts';
import { isLong } from '../../internal/base/testkit/long.ts';
import { type MeasuredDaemon, startMeasuredDaemon } from '../../internal/base/testkit/measured-daemon.ts';
import { applyAgents } from '../../internal/flows/routing/routing-testkit.ts';
import { boundsOf } from './hostile-bounds-testkit.ts';

const mib = 1_048_576;
const credential = `t${'0'.repeat(4_000)}1`;
const token = randomBytes(32).toString('base64url');

/** Writes until the bound of an answer is passed, or who reads it has left. */
async function pour(response: ServerResponse, piece: string, bytes: number): Promise<void> {
  for (let sent = 0; sent < bytes && !response.closed; sent += piece.length) {
    if (response.write(piece)) continue;
    const gone = new AbortController();
    const { signal } = gone;
    await Promise.race([once(response, 'drain', { signal }), once(response, 'close', { signal })]);
    gone.abort();
  }
  response.end();
}

const answersAs = (response: ServerResponse, type: string): ServerResponse =>
  response.writeHead(200, { 'content-type': type });

const answers: { readonly [what: string]: (response: ServerResponse) => Promise<void> } = {
  'a text of 63 MiB': async (response) => {
    answersAs(response, 'application/json').write(
      '{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"',
    );
    await pour(response, 'x'.repeat(65_536), 63 * mib);
  },
  'one that never ends': (response) => pour(answersAs(response, 'application/json'), '['.repeat(65_536), Infinity),
  'backslashes, each of which may begin the credential': (response) =>
    pour(answersAs(response, 'application/json'), '\\'.repeat(65_536), 63 * mib),
  'beginnings of the credential': (response) =>
    pour(answersAs(response, 'application/json'), credential.slice(0, -1).repeat(16), 32 * mib),
  'the credential, again and again': (response) =>
    pour(answersAs(response, 'application/json'), `"${credential}",`.repeat(16), 32 * mib),
  'a stream of a hundred thousand pieces': async (response) => {
    answersAs(response, 'text/event-stream');
    for (let at = 0; at < 100_000 && !response.closed; at += 1) {
      response.write(at % 2 === 0 ? 'data: {' : '}\n\n');
      if (at % 100 === 0) await turn();
    }
    response.end();
  },
  'a refusal of 63 MiB': (response) => {
    response.writeHead(403, { 'www-authenticate': `Bearer scope="${'s '.repeat(4_000)}"` });
    return pour(response, 'x'.repeat(65_536), 63 * mib);
  },
};

describe('what a remote tool server answers', { skip: !isLong }, () => {
  const { cert, key } = selfSigned();
  let now: (response: ServerResponse) => Promise<void>;
  const server = createServer({ cert, key }, (request, response) => {
    request.resume();
    response.on('error', () => undefined);
    void now(response);
  });
  let daemon: MeasuredDaemon;
  let dir: string;
  let path: string;
  before(async () => {
    dir = await mkdtemp(join(tmpdir(), 'svc-hostile-tools-'));
    await writeFile(join(dir, 'ca.pem'), cert);
    await once(server.listen(0, '127.0.0.1'), 'listening');
    daemon = await startMeasuredDaemon({
      // Its sessions wait, so that the test can sit in the place of one.
      SVC_HARNESS_B_COMMAND: JSON.stringify(['/nowhere/harness-b']),
      SVC_SANDBOX: 'process',
      SVC_LOG_LEVEL: 'warn',
      SVC_ALLOW_PRIVATE_NETWORK: 'true',
      NODE_EXTRA_CA_CERTS: join(dir, 'ca.pem'),
    });
    const stored = await daemon.api('PUT', 'P/secrets/far', { value: credential });
    assert.ok(stored.status < 300, JSON.stringify(stored.body));
    const url = `https://127.0.0.1:${(server.address() as AddressInfo).port}/`;
    await applyAgents(daemon.api, {
      far: {
        harness: 'harness-b',
        tools: { far: { kind: 'mcp_remote', url, auth: { kind: 'bearer', token: { $secret: 'far' } } } },
      },
    });
    const { status, body } = await daemon.api('POST', 'P/agents/far/sessions', { message: 'wait' });
    assert.equal(status, 201, JSON.stringify(body));
    const hash = createHash('sha256').update(token).digest();
    const text = 'update svc.sessions set token_hash = $2::bytea where id = $1::uuid';
    await daemon.database.db.query(text, [String(body['id']), hash]);
    path = `/api/v1/sessions/${String(body['id'])}/mcp/far`;
  });
  after(async () => {
    await daemon.stop();
    server.closeAllConnections();
    server.close();
    await rm(dir, { recursive: true, force: true });
  });

  const message = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"any","arguments":{}}}';
  const headers = {
    authorization: `Bearer ${token}`,
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
  };

  /** How much of it comes back, until its end or until it is broken off. */
  async function call(): Promise<number> {
    const response = await fetch(`${daemon.url}${path}`, { method: 'POST', body: message, headers });
    assert.ok([200, 403, 502].includes(response.status), `${response.status}`);
    let bytes = 0;
    let tail = '';
    try {
      for await (const chunk of response.body ?? []) {
        bytes += chunk.length;
        const seen: string = tail + Buffer.from(chunk).toString('latin1');
        assert.ok(!seen.includes(credential), 'the credential comes back');
        tail = seen.slice(-credential.length);
      }
    } catch (error) {
      if (error instanceof assert.AssertionError) throw error;
    }
    return bytes;
  }

  for (const [what, answer] of Object.entries(answers)) {
    it(what, () =>
      boundsOf(() => daemon).isBounded(what, async () => {
        now = answer;
        const bytes = await call();
        assert.ok(what.startsWith('a refusal') ? bytes < 4_096 : bytes > 50_000, `${bytes} bytes came back`);
      }),
    );
  }

  it('a text that nobody reads', () =>
    boundsOf(() => daemon).isBounded('unread', async () => {
      now = answers['a text of 63 MiB'] as (response: ServerResponse) => Promise<void>;
      const { hostname, port } = new URL(daemon.url);
      const socket = connect(Number(port), hostname).on('error', () => undefined);
      const lines = Object.entries({ host: 'x', ...headers, 'content-length': String(message.length) });
      const head = lines.map(([name, value]) => `${name}: ${value}\r\n`).join('');
      socket.write(`POST ${path} HTTP/1.1\r\n${head}\r\n${message}`);
      await once(socket, 'readable');
      // As much as the kernel takes has come, and what the daemon holds of it has been seen.
      await new Promise((resolve) => setTimeout(resolve, 1_000));
      socket.destroy();
    }));
});
