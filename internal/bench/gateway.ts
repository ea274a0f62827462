// The model gateway against a direct call. A stub provider streams 200 chunks over about a second; through the gateway,
// with its ledger in a real database, the same answer may take 5 % longer at the median. What the gateway itself costs
// shows in a stream without pauses, where there is nothing to hide behind.

import { randomBytes, randomUUID } from 'node:crypto';
import { Agent, request } from 'undici';
import { createUpstream } from '../adapters/providers/model/model.ts';
import { createLog } from '../base/log/log.ts';
import { createMetrics } from '../base/metrics/metrics.ts';
import { ModelGateway } from '../edge/gateway/gateway.ts';
import { messagesStream, startStubProvider, streams } from '../edge/gateway/testkit.ts';
import { moneyPorts } from '../flows/sessions/sessions.ts';
import { createBench } from '../flows/sync/apply-testkit.ts';
import { type Bench, type Bencher, median, ms, steadyMs, timed } from './harness.ts';

const chunks = 200;
const gapMs = 5;
const turnCount = 9;
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

interface Call {
  /** Until the first byte, and until the last. */
  readonly firstMs: number;
  readonly allMs: number;
}

async function called(url: string, dispatcher: Agent): Promise<Call> {
  const start = performance.now();
  const answer = await request(`${url}/v1/messages`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body,
    dispatcher,
  });
  if (answer.statusCode !== 200) throw new Error(`the call is answered with ${answer.statusCode}`);
  let firstMs = 0;
  for await (const _chunk of answer.body) firstMs ||= performance.now() - start;
  return { firstMs, allMs: performance.now() - start };
}

/** Calls by turns; medians of each. */
async function compare(turns: number, urls: readonly string[], dispatcher: Agent): Promise<Call[]> {
  const calls: Call[][] = urls.map(() => []);
  for (let turn = -1; turn < turns; turn += 1) {
    for (const [index, url] of urls.entries()) {
      const call = await called(url, dispatcher);
      if (turn >= 0) calls[index]?.push(call);
    }
  }
  return calls.map((list) => ({
    firstMs: median(list.map((call) => call.firstMs)),
    allMs: median(list.map((call) => call.allMs)),
  }));
}

async function run(bench: Bencher): Promise<void> {
  const project = await createBench();
  bench.atEnd(() => project.close());
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
  const urls = [stub.url, route.baseUrl()];

  stub.answers(streams(messagesStream(words), gapMs));
  const [direct, through] = await compare(turnCount, urls, dispatcher);
  if (direct === undefined || through === undefined) throw new Error('nothing was measured');
  bench.ratio(`${chunks} chunks over a second, p50`, ms(through.allMs), ms(direct.allMs), 1.05);
  // What every call is entered in the ledger with, by itself.
  const commits: number[] = [];
  await project.db.query('create table public.bench_commits (id bigserial primary key, text text)');
  for (let turn = 0; turn < 200; turn += 1) {
    const row = (): Promise<unknown> => project.db.query(`insert into public.bench_commits (text) values ('call')`);
    commits.push(
      await timed(async () => {
        for (let n = 0; n < 5; n += 1) await row();
      }),
    );
  }
  // The bound was 50 ms before it became a ratio: five times five commits is that where a commit takes two, as on the disks
  // that most databases have.
  const floor = steadyMs(commits.slice(40));
  bench.ratio('later at the first byte, p50 / five commits', ms(through.firstMs - direct.firstMs), floor, 5);

  stub.answers(streams(messagesStream(words)));
  const calls = 20;
  const bare = await timed(() => compare(calls, [stub.url], dispatcher));
  const metered = await timed(() => compare(calls, [route.baseUrl()], dispatcher));
  bench.ratio(
    `one call of ${chunks} chunks without pauses, more / the same`,
    ms((metered - bare) / (calls + 1)),
    floor,
    5,
  );
  await route.settled();
}

export const bench: Bench = { name: 'gateway', title: 'the model gateway against a direct call', run };
