import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { createBench, type Bench } from '../../flows/sync/apply-testkit.ts';
import { moneyPorts, usageSummary } from '../../flows/sessions/sessions.ts';
import { messagesStream, startStubProvider, streams, type StubProvider } from './testkit.ts';

// A gateway that is killed outright at each point of a call: the next host of the session enters the call once, as it
// was told or as an estimate, and nothing stays in flight.

const rates = { input: '1', output: '1', cacheRead: '1', cacheWrite: '1' };
const prices = [{ provider: 'provider-a', model: 'm', from: '2026-01-01', ...rates }] as const;
const here = (file: string): string => JSON.stringify(pathToFileURL(join(import.meta.dirname, file)).href);

describe('a gateway that is killed', () => {
  let bench: Bench;
  let stub: StubProvider;
  before(async () => {
    bench = await createBench();
    stub = await startStubProvider();
    stub.answers(streams(messagesStream(['x'], { start: { input_tokens: 7 }, end: { output_tokens: 5 } })));
  });
  after(async () => {
    await bench.close();
    await stub.stop();
  });

  /** One call in a process of its own that kills itself at the point; gives the signal that ended it. */
  async function calledAndKilled(point: string, spender: object): Promise<string | null> {
    const { url, orgId, projectId } = bench;
    const script = `
      import { armFailpoint } from ${here('../../base/failpoint.ts')};
      import { joinBench } from ${here('../../flows/sync/apply-testkit.ts')};
      import { startModelGateway } from ${here('gateway.ts')};
      const { place, spender, address, prices, point } = JSON.parse(process.argv[1]);
      const { ctx } = joinBench(place);
      const config = { ...ctx.config, allowPrivateNetwork: true, secretEnv: () => 'key' };
      const keys = { 'provider-a': { kind: 'env', name: 'K' } };
      const gateway = await startModelGateway({ ...ctx, config }, { addresses: { 'provider-a': address }, keys, prices });
      const route = await gateway.open({ spender, model: { provider: 'provider-a', id: 'm' }, caps: { dailyUsd: '9' } });
      armFailpoint(point);
      const body = JSON.stringify({ stream: true, messages: [{ role: 'user', content: 'x'.repeat(300) }] });
      const answer = await fetch(route.baseUrl() + '/v1/messages', { method: 'POST', body });
      await answer.text();
      await route.settled();
      process.exit(0);
    `;
    const input = JSON.stringify({ place: { url, orgId, projectId }, spender, address: stub.url, prices, point });
    const child = spawn(process.execPath, ['--input-type=module', '-e', script, input], { stdio: 'inherit' });
    const [, signal] = (await once(child, 'exit')) as [number | null, string | null];
    return signal;
  }

  for (const { point, estimated } of [
    { point: 'model.before-call', estimated: true },
    { point: 'model.before-record', estimated: true },
    { point: 'model.after-record', estimated: false },
  ]) {
    test(`at ${point}`, async () => {
      const { projectId } = bench;
      const spender = { projectId, agentId: randomUUID(), agentName: 'a', sessionId: randomUUID() };
      assert.equal(await calledAndKilled(point, spender), 'SIGKILL');
      const money = moneyPorts(bench.ctx, prices);
      await money.takeOver(spender.sessionId);
      await money.takeOver(spender.sessionId);
      const { calls, inputTokens, outputTokens } = await usageSummary(bench.ctx, { agentId: spender.agentId });
      assert.equal(calls, 1);
      if (estimated) assert.ok(inputTokens > 100 && outputTokens === 0, `${inputTokens} and ${outputTokens}`);
      else assert.deepEqual([inputTokens, outputTokens], [7, 5]);
      const { rows } = await bench.db.query('select 1 from svc.usage_open');
      assert.equal(rows.length, 0);
    });
  }
});
