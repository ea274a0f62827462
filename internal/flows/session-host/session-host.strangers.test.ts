// Sessions of one project beside those of another, whose programs, boxes and engines take their time.

import assert from 'node:assert/strict';
import { availableParallelism } from 'node:os';
import { test } from 'node:test';
import { isWithin } from '../../base/testkit/parsing.ts';
import { eventually } from './host-crash-testkit.ts';
import { createHostBench } from './host-testkit.ts';

const org = '/api/v1/orgs/default/projects';

test('a harness that never answers holds up no session of another project, however many of it are started', async () => {
  const bench = await createHostBench({ config: { harnessBCommand: ['sleep', '600'] } });
  try {
    const { api } = bench.daemon;
    await bench.apply({ dull: { harness: 'harness-b' } });
    assert.equal((await api('POST', org, { slug: 'far', name: 'far' })).status, 201);
    const environment = { name: 'base', image: { kind: 'preset', name: 'base' } };
    const agent = { name: 'plain', harness: 'harness-a', environment };
    const files = [{ path: '.svc/agents/plain.yaml', content: JSON.stringify(agent) }];
    assert.equal((await api('POST', `${org}/far/apply`, { files })).status, 200);
    // More than are started at once.
    const dull = Array.from({ length: 2 + Math.max(4, 2 * availableParallelism()) }, () =>
      bench.start('dull', 'hello'),
    );
    for (const session of await Promise.all(dull))
      await bench.until(session, ({ state }) => state !== 'queued' && state !== 'provisioning');
    const { body } = await api('POST', `${org}/far/agents/plain/sessions`, { message: '!sleep 600000' });
    const begun = performance.now();
    const state = async () => (await api('GET', `${org}/far/sessions/${String(body['id'])}`)).body['state'];
    await eventually('it has its turn', async () => (await state()) === ('running' as never));
    const ms = performance.now() - begun;
    assert.ok(isWithin(ms, 20_000), `after ${Math.round(ms)} ms`);
  } finally {
    await bench.stop();
  }
});
