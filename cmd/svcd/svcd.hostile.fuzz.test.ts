// No single request, push, delivery, tool call or harness output, of at most the size its door takes, makes the process grow
// by over 150 MB, stalls its event loop over 200 ms, or ends it. Each goes in through the door that it would come by; the
// daemon is a child process whose memory is seen from outside. SVC_LONG=1 (make test-fuzz) tries them all and many mixtures.

import assert from 'node:assert/strict';
import { createHash, createHmac, randomBytes, randomUUID } from 'node:crypto';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import { sha256 } from '../../internal/base/hash.ts';
import { isLong } from '../../internal/base/testkit/long.ts';
import { type MeasuredDaemon, startMeasuredDaemon } from '../../internal/base/testkit/measured-daemon.ts';
import { slowness } from '../../internal/base/testkit/parsing.ts';
import { json, type StubProvider, startStubProvider } from '../../internal/edge/gateway/testkit.ts';
import { applyAgents, hook, settled } from '../../internal/flows/routing/routing-testkit.ts';
import { boundsOf, most, some } from './hostile-bounds-testkit.ts';
import { harnessLines, modelCalls, toolCalls } from './hostile-session-testkit.ts';
import { bodies, deliveriesTable, deliveryTypes, manyPrompts, payloads, templates, trees } from './hostile-testkit.ts';

const rawAgent = [process.execPath, join(import.meta.dirname, '../../testdata/raw-agent/agent.ts')];
const secret = 'the secret of the connection';
let daemon: MeasuredDaemon;
let provider: StubProvider;
let dir: string;
before(async () => {
  provider = await startStubProvider();
  provider.answers(json(200, { usage: { input_tokens: 1, output_tokens: 1 } }));
  dir = await mkdtemp(join(tmpdir(), 'svc-hostile-'));
  const config = join(dir, 'svc.json');
  await writeFile(config, JSON.stringify({ providers: { model: { 'provider-a': { baseUrl: provider.url } } } }));
  daemon = await startMeasuredDaemon({
    SVC_HARNESS_A_COMMAND: JSON.stringify(rawAgent),
    // Sessions of this one wait, so that a test can sit in the place of one.
    SVC_HARNESS_B_COMMAND: JSON.stringify(['/nowhere/harness-b']),
    SVC_SANDBOX: 'process',
    SVC_LOG_LEVEL: 'warn',
    SVC_CONFIG: config,
    SVC_PROVIDER_A_KEY: 'a-key-of-the-provider',
    SVC_ALLOW_PRIVATE_NETWORK: 'true',
  });
  await applyAgents(daemon.api, { raw: {} });
});
after(async () => {
  await daemon.stop();
  await provider.stop();
  await rm(dir, { recursive: true, force: true });
});

const { isBounded } = boundsOf(() => daemon);

const send = async (path: string, body: string | Buffer, headers: { readonly [name: string]: string } = {}) => {
  const response = await fetch(`${daemon.url}${path}`, { method: 'POST', body, headers });
  const text = await response.text();
  assert.ok(response.status < 500 || response.status === 503, `${response.status} ${text.slice(0, 400)}`);
  return { status: response.status, text };
};

async function postAndRoute(path: string, body: string): Promise<void> {
  await send(path, body, { 'content-type': 'application/json' });
  await settled(daemon.database.db);
}

describe('a payload', () => {
  let paths: { readonly [endpoint: string]: string };
  before(async () => {
    const agents = Object.entries(templates).map(([name, more]) => [
      name,
      { triggers: [hook(name, more.routing ?? { kind: 'spawn' }, more.trigger)], ...more.agent },
    ]);
    paths = await applyAgents(daemon.api, Object.fromEntries(agents));
  });

  const pathOf = (name: string): string => paths[name] ?? assert.fail(name);
  for (const [what, payload] of some(payloads, (name) => name === 'one long text' || name === 'many keys')) {
    for (const [name] of some(templates, (template) => template === 'many')) {
      it(`${what}, routed by ${name}`, () =>
        isBounded(`${what} × ${name}`, () => postAndRoute(pathOf(name), payload())));
    }
  }

  it('two dozen at once hold up nobody for longer than one', async () => {
    const body = (payloads['many keys'] as () => string)();
    const { busyMs } = await daemon.costOf(async () => {
      const sent = await Promise.all(Array.from({ length: 24 }, () => send(pathOf('filtered'), body)));
      // On a slow machine some are told that the database does not answer in time.
      assert.ok(sent.some(({ status }) => status === 202));
      await settled(daemon.database.db);
    });
    assert.ok(busyMs <= most.busyMs || busyMs <= most.busyMs * slowness(), `${busyMs} ms`);
  });

  it('any mixture of them', { skip: !isLong }, async () => {
    const piece = fc.constantFrom(...Object.values(payloads).map((make) => make().slice(1, -1)));
    const body = fc.tuple(fc.array(piece, { minLength: 2, maxLength: 5 }), fc.nat(1_048_000)).map(([pieces, cut]) => {
      const share = Math.floor((1_048_000 - cut) / pieces.length);
      return `{${pieces.filter((one) => one.length < share).join(',')}}`;
    });
    await fc.assert(
      fc.asyncProperty(body, fc.constantFrom(...Object.keys(templates)), (text, name) =>
        isBounded(`a mixture × ${name}`, () => postAndRoute(pathOf(name), text)),
      ),
      { numRuns: 60 },
    );
  });
});

describe('a delivery', () => {
  const ids: { [provider: string]: string } = {};
  before(async () => {
    const credentials = {
      codehost: { webhookSecret: secret },
      tracker: { webhookSecret: secret },
      chat: { signingSecret: secret },
    };
    for (const [provider, of] of Object.entries(credentials)) {
      const { status, body } = await daemon.api('POST', 'P/connections', { provider, name: provider, credentials: of });
      assert.equal(status, 201, JSON.stringify(body));
      ids[provider] = String(body['id']);
    }
  });

  const headersOf = (provider: string, event: string, text: string): { readonly [name: string]: string } => {
    const mac = (of: string): string => createHmac('sha256', secret).update(of).digest('hex');
    const stamp = String(Math.floor(Date.now() / 1_000));
    if (provider === 'codehost')
      return {
        'x-github-event': event,
        'x-github-delivery': randomUUID(),
        'x-hub-signature-256': `sha256=${mac(text)}`,
      };
    if (provider === 'tracker') return { 'linear-delivery': randomUUID(), 'linear-signature': mac(text) };
    return { 'x-slack-request-timestamp': stamp, 'x-slack-signature': `v0=${mac(`v0:${stamp}:${text}`)}` };
  };
  for (const [what, make] of some(deliveriesTable, (name) =>
    /^a push (?:of 24 MiB in commits|of too many lists|from an address)/.test(name),
  )) {
    it(what, () =>
      isBounded(what, async () => {
        const { provider, event } = deliveryTypes(what);
        const text = make();
        const { status } = await send(
          `/api/v1/intake/${provider}/${ids[provider]}`,
          text,
          headersOf(provider, event, text),
        );
        assert.equal(status, what.includes('too many') ? 400 : 202);
        await settled(daemon.database.db);
      }),
    );
  }
});

describe('a tree', () => {
  const jsonHeaders = () => ({ authorization: `Bearer ${tokenOf()}`, 'content-type': 'application/json' });
  const applied = (body: string) => send('/api/v1/orgs/default/projects/default/apply', body, jsonHeaders());
  for (const [what, make] of Object.entries(bodies)) {
    it(`${what}, by the API`, { skip: !isLong && !/lists|padding/.test(what) }, () =>
      isBounded(`${what} (apply)`, async () => {
        const { status, text } = await applied(make());
        assert.ok([200, 400, 413, 422].includes(status), `${status} ${text.slice(0, 300)}`);
      }),
    );
  }

  it('large ones, one after another, take no more room than a few of them', async () => {
    const files = [{ path: '.svc/agents/large.yaml', content: 'z'.repeat(32_000_000) }];
    const { grownMb } = await daemon.costOf(async () => {
      for (let times = 0; times < 12; times += 1)
        assert.equal((await daemon.api('POST', 'P/apply', { files })).status, 422);
    });
    assert.ok(grownMb < 6 * 32, `${grownMb} MB`);
  });

  it('three thousand agents with prompts of their own, stored, and once more', async () => {
    assert.equal((await daemon.api('POST', '/api/v1/orgs/default/projects', { slug: 'prompts' })).status, 201);
    const body = JSON.stringify({ files: manyPrompts() });
    const statuses: unknown[] = [];
    const apply = async (): Promise<void> => {
      const { text } = await send('/api/v1/orgs/default/projects/prompts/apply', body, jsonHeaders());
      statuses.push((JSON.parse(text) as { status: string }).status);
    };
    // Once: a second try finds them stored, and the room taken.
    const { grownMb } = await daemon.costOf(apply);
    assert.ok(grownMb <= most.grownMb, `grew by ${grownMb} MB`);
    await isBounded('agents with prompts (once more)', apply);
    assert.deepEqual([...new Set(statuses)], ['applied', 'unchanged']);
  });

  for (const [what, make] of some(trees, (name) => name === 'aliases')) {
    it(`${what}, by the API`, () =>
      isBounded(`${what} (apply)`, async () => {
        const { status, text } = await send(
          '/api/v1/orgs/default/projects/default/apply',
          JSON.stringify({ files: make(), prune: false, dryRun: true }),
          jsonHeaders(),
        );
        assert.ok([200, 400, 413, 422].includes(status), `${status} ${text.slice(0, 300)}`);
      }));

    it(`${what}, by a sync`, async () => {
      const name = `tree-${sha256(what).slice(0, 8)}`;
      const root = join(daemon.dataDir, 'trees', name);
      for (const file of make()) {
        await mkdir(join(root, file.path, '..'), { recursive: true });
        await writeFile(join(root, file.path), file.content);
      }
      let attempts = 0;
      await isBounded(`${what} (sync)`, async () => {
        attempts += 1;
        const of = `${name}-${attempts}`;
        const { status } = await daemon.api('POST', 'P/repositories', {
          name: of,
          path: root,
          intervalSeconds: 3_600,
          adopt: true,
        });
        assert.equal(status, 201);
        for (let waited = 0; ; waited += 50) {
          const { body } = await daemon.api('GET', `P/reconciles?repository=${of}&limit=1`);
          const run = body['items']?.[0];
          if (run !== undefined && String(run['status']) !== 'running') break;
          assert.ok(waited < 120_000);
          await sleep(50);
        }
      });
      await daemon.api('DELETE', `P/repositories/${name}-${attempts}`);
    });
  }
});

const tokenOf = (): string => daemon.token;

describe('a connection', () => {
  /** Writes it all, and waits until the daemon has answered and closed, or for so long. */
  const write = async (parts: Iterable<string>, waitsMs: number): Promise<void> => {
    const { hostname, port } = new URL(daemon.url);
    const socket = connect(Number(port), hostname);
    socket.on('error', () => socket.destroy()).resume();
    // What is closed while somebody writes is closed.
    const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()));
    for (const part of parts) {
      if (socket.destroyed) break;
      if (!socket.write(part))
        await Promise.race([new Promise<void>((resolve) => socket.once('drain', () => resolve())), closed]);
    }
    await Promise.race([closed, sleep(waitsMs, undefined, { ref: false })]);
    socket.destroy();
  };
  const parts = function* (path: string, bytes: number): Generator<string> {
    // A body is read of who may send one.
    const head = `host: h\r\nauthorization: Bearer ${tokenOf()}\r\ntransfer-encoding: chunked\r\nconnection: close`;
    yield `POST ${path} HTTP/1.1\r\n${head}\r\n\r\n`;
    const some = '1\r\n \r\n'.repeat(4_096);
    for (let at = 0; at < bytes; at += 4_096) yield some;
    yield '2\r\n{}\r\n0\r\n\r\n';
  };
  const bytes = isLong ? 1_000_000 : 300_000;
  it('with a body of parts of a byte each', () =>
    isBounded('a body of parts of a byte', () =>
      write(parts('/api/v1/orgs/default/projects/default/apply', bytes), 60_000),
    ));

  it('with very many requests at once', () =>
    isBounded('very many requests', () => write(['GET /healthz HTTP/1.1\r\nhost: h\r\n\r\n'.repeat(20_000)], 2_000)));
});

describe('a delivery that is as large as its door takes', () => {
  const get = async (path: string): Promise<Buffer> => {
    const headers = { authorization: `Bearer ${tokenOf()}` };
    const response = await fetch(`${daemon.url}/api/v1/orgs/default/projects/default/${path}`, { headers });
    assert.equal(response.status, 200);
    return Buffer.from(await response.arrayBuffer());
  };
  it('is shown as it was received, and explained', async () => {
    const hub = await daemon.api('POST', 'P/connections', {
      provider: 'codehost',
      name: 'shown',
      credentials: { webhookSecret: secret },
    });
    await applyAgents(daemon.api, {
      listening: {
        triggers: [
          {
            event: 'codehost.push',
            connection: 'shown',
            routing: { kind: 'spawn' },
            where: { '$.codehost.push.commits': 'none', '$.raw.commits': 'none' },
          },
        ],
      },
    });
    const text = (deliveriesTable['a push of 24 MiB in commits'] as () => string)();
    const mac = createHmac('sha256', secret).update(text).digest('hex');
    const headers = {
      'x-github-event': 'push',
      'x-github-delivery': randomUUID(),
      'x-hub-signature-256': `sha256=${mac}`,
    };
    const sent = await send(`/api/v1/intake/codehost/${hub.body['id']}`, text, headers);
    assert.equal(sent.status, 202, sent.text);
    await settled(daemon.database.db);
    const id = String((JSON.parse(sent.text) as { eventRecordId: string }).eventRecordId);
    let shown: Buffer = Buffer.alloc(0);
    await isBounded('a large event, shown', async () => {
      shown = await get(`events/${id}`);
    });
    assert.ok(shown.includes(text));
    const event = JSON.parse(shown.toString()) as {
      id: string;
      payload: { codehost: { push: { commits: object[] } } };
    };
    assert.equal(event.id, id);
    assert.equal(event.payload.codehost.push.commits.length, 2_000);
    await isBounded('a large event, explained', async () => {
      const told = JSON.parse((await get(`events/${id}/explain`)).toString()) as { triggers: { matched: boolean }[] };
      assert.equal(told.triggers[0]?.matched, false);
    });
    await isBounded('a page of large events', async () => void (await get('events?limit=10')));
  });
});

/** Starts a session that obeys an order, and waits until it has, or has failed. */
async function obey(order: object): Promise<void> {
  const { status, body } = await daemon.api('POST', 'P/agents/raw/sessions', { message: JSON.stringify(order) });
  assert.equal(status, 201, JSON.stringify(body));
  const session = String(body['id']);
  for (let waited = 0; waited < 120_000; waited += 50) {
    const now = await daemon.api('GET', `P/sessions/${session}`);
    // A line that nobody may write ends the harness, and with it, in the end, the session.
    const isOver = ['idle', 'failed', 'suspended'].includes(String(now.body['state']));
    if (isOver && Number(now.body['inbox']?.['pending']) === 0) break;
    if ((await turnsBegun(session)) > 1) break;
    await sleep(50);
  }
  await daemon.api('POST', `P/sessions/${session}/archive`);
}

async function turnsBegun(session: string): Promise<number> {
  const text = 'select count(*)::int as n from svc.turns where session_id = $1::uuid';
  return (await daemon.database.db.query<{ n: number }>(text, [session])).rows[0]?.n ?? 0;
}

describe('what a harness writes', () => {
  for (const [what, order] of some(harnessLines, (name) => name === 'one long line of text')) {
    it(what, () => isBounded(what, () => obey(order)));
  }
});

describe('what a harness asks its model', () => {
  for (const [what, order] of some(modelCalls, (name) => name === 'texts of 32 MiB')) {
    it(what, async () => {
      const before = provider.asked.length;
      await isBounded(what, () => obey(order));
      // Passed on, or refused and never sent.
      assert.equal(
        provider.asked.length > before,
        !what.includes('too many') && !what.startsWith('short'),
        daemon.log(),
      );
      provider.asked.length = 0;
    });
  }
});

describe('a call of a tool', () => {
  let url = '';
  const token = randomBytes(32).toString('base64url');
  before(async () => {
    await applyAgents(daemon.api, {
      tooled: { harness: 'harness-b', tools: { svc: { kind: 'local', implementation: 'svc' } } },
    });
    const { body } = await daemon.api('POST', 'P/agents/tooled/sessions', { message: '{"lines": []}' });
    const session = String(body['id']);
    const hash = createHash('sha256').update(token).digest();
    await daemon.database.db.query('update svc.sessions set token_hash = $2::bytea where id = $1::uuid', [
      session,
      hash,
    ]);
    url = `/api/v1/sessions/${session}/mcp/svc`;
  });

  for (const [what, make] of some(toolCalls, (name) => name.startsWith('a long message'))) {
    it(what, () =>
      isBounded(what, async () => {
        const { status } = await send(url, make(), {
          authorization: `Bearer ${token}`,
          'content-type': 'application/json',
          accept: 'application/json, text/event-stream',
        });
        assert.notEqual(status, 401);
      }),
    );
  }
});
