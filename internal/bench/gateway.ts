// The model gateway against a direct call. A stub provider streams 200 chunks over about a second; through the gateway,
// with its ledger in a real database, the same answer may take 5 % longer at the median. What the gateway itself costs
// shows in a stream without pauses, where there is nothing to hide behind.

import { randomBytes, randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text as readText } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { Agent, request } from 'undici';
import { createUpstream } from '../adapters/providers/model/model.ts';
import type { Database } from '../adapters/store/store.ts';
import { migrate } from '../adapters/store/schema/migrate.ts';
import { createLog } from '../base/log/log.ts';
import { createMetrics } from '../base/metrics/metrics.ts';
import { insertProject, silent } from '../base/testkit/postgres.ts';
import { ModelGateway } from '../edge/gateway/gateway.ts';
import { messagesStream, startStubProvider, streams } from '../edge/gateway/testkit.ts';
import { moneyPorts } from '../flows/sessions/sessions.ts';
import { joinBench } from '../flows/sync/apply-testkit.ts';
import { type Bench, type Bencher, medianMs, steadyMs } from './harness.ts';
import { startServer } from './server.ts';

interface Turns {
  readonly turns: number;
  readonly warm: number;
}
const chunks = 200;
const gapMs = 5;
const paced = { turns: 9, warm: 1 } as const;
/** Of the calls that take milliseconds, and those before them that do not count. */
const eager = { turns: 80, warm: 5 } as const;
/** A request of a working agent: some tens of thousands of tokens. */
const promptBytes = 120_000;

const model = { provider: 'provider-a', id: 'm-1' } as const;
const rates = { input: '5', output: '25', cacheRead: '0.5', cacheWrite: '6.25' };
const prices = [{ provider: 'provider-a' as const, model: 'm-1', from: '2026-01-01', ...rates }];
const words = Array.from({ length: chunks - 5 }, (_, n) => `word ${n} of a streamed answer `);
const body = JSON.stringify({
  model: 'm-1',
  stream: true,
  max_tokens: 32_000,
  messages: [{ role: 'user', content: randomBytes(promptBytes / 2).toString('hex') }],
});

interface Calls {
  /** Until the first byte, and until the last, in milliseconds. */
  readonly firstMs: number[];
  readonly allMs: number[];
}

async function call(url: string, dispatcher: Agent, { firstMs, allMs }: Calls): Promise<void> {
  const start = performance.now();
  const answer = await request(`${url}/v1/messages`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body,
    dispatcher,
  });
  if (answer.statusCode !== 200) throw new Error(`the call is answered with ${answer.statusCode}`);
  let first = 0;
  for await (const _chunk of answer.body) first ||= performance.now() - start;
  firstMs.push(first);
  allMs.push(performance.now() - start);
}

/** Calls by turns, behind some that do not count. */
async function compare<U extends readonly string[]>(urls: U, dispatcher: Agent, { turns, warm }: Turns) {
  let calls = urls.map((): Calls => ({ firstMs: [], allMs: [] }));
  for (let turn = -warm; turn < turns; turn += 1) {
    if (turn === 0) calls = urls.map(() => ({ firstMs: [], allMs: [] }));
    for (const [index, url] of urls.entries()) await call(url, dispatcher, calls[index] as Calls);
  }
  return calls as unknown as { readonly [K in keyof U]: Calls };
}

/** The least that stands between a caller and a provider: reads the request, commits five times, and passes the answer on. */
async function bareProxy(bench: Bencher, db: Database, upstream: string): Promise<string> {
  await db.query('create table public.bench_commits (id bigserial primary key, text text)');
  const dispatcher = new Agent();
  bench.atEnd(() => dispatcher.destroy());
  const pass = async (asked: IncomingMessage, answer: ServerResponse): Promise<void> => {
    const text = await readText(asked);
    JSON.parse(text);
    for (let n = 0; n < 5; n += 1) await db.query(`insert into public.bench_commits (text) values ('call')`);
    const headers = { 'content-type': 'application/json' };
    const got = await request(`${upstream}${asked.url}`, { method: 'POST', headers, body: text, dispatcher });
    answer.writeHead(got.statusCode, { 'content-type': String(got.headers['content-type']) });
    await pipeline(got.body, answer);
  };
  const server = createServer((asked, answer) => void pass(asked, answer).catch((error) => answer.destroy(error)));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  bench.atEnd(() => new Promise<void>((resolve) => server.close(() => resolve())));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** A project on a server that forces every commit to disk, as a ledger's does. */
async function place(bench: Bencher): Promise<ReturnType<typeof joinBench>> {
  const url = await startServer(bench);
  await migrate(url, silent);
  const project = joinBench({ url, orgId: randomUUID(), projectId: randomUUID() });
  bench.atEnd(() => project.close());
  await insertProject(project.db, project.projectId);
  return project;
}

async function run(bench: Bencher): Promise<void> {
  const project = await place(bench);
  const stub = await startStubProvider();
  bench.atEnd(() => stub.stop());
  const dispatcher = new Agent();
  bench.atEnd(() => dispatcher.destroy());
  const runtime = { ...project.ctx.runtime, now: () => new Date(), log: createLog('silent') };
  const gateway = new ModelGateway({
    upstream: createUpstream({
      addresses: { 'provider-a': stub.url },
      key: () => Promise.resolve('key'),
      allowPrivate: true,
    }),
    money: moneyPorts({ db: project.db, runtime }, prices),
    check: () => Promise.resolve(null),
    runtime,
    metrics: createMetrics(),
  });
  await gateway.start();
  bench.atEnd(() => gateway.stop());
  const spender = { projectId: project.projectId, agentId: randomUUID(), agentName: 'a', sessionId: randomUUID() };
  // With caps: every call decides about them under the lock.
  const route = await gateway.open({ spender, model, caps: { dailyUsd: '1000000', maxPerSessionUsd: '1000000' } });

  stub.answers(streams(messagesStream(words), gapMs));
  const [alone, metered] = await compare([stub.url, route.baseUrl()] as const, dispatcher, paced);
  bench.ratio(`${chunks} chunks over a second, p50`, medianMs(metered.allMs), medianMs(alone.allMs), 1.05);

  stub.answers(streams(messagesStream(words)));
  const urls = [stub.url, route.baseUrl(), await bareProxy(bench, project.db, stub.url)] as const;
  const [direct, through, bare] = await compare(urls, dispatcher, eager);
  const more = (of: Calls, what: keyof Calls): number[] => of[what].map((took, n) => took - (direct[what][n] ?? 0));
  // What was asked for is 50 ms later at the first byte. A bare proxy is 2 ms later on a quick disk, and 12 where a commit takes two.
  bench.ratio(
    'later at the first byte, p50 / a bare proxy',
    medianMs(more(through, 'firstMs')),
    steadyMs(more(bare, 'firstMs')),
    2,
  );
  bench.ratio(
    `one call of ${chunks} chunks without pauses, more, p50 / the same`,
    medianMs(more(through, 'allMs')),
    steadyMs(more(bare, 'allMs')),
    2,
  );
  await route.settled();
}

export const bench: Bench = { name: 'gateway', title: 'the model gateway against a direct call', run };
