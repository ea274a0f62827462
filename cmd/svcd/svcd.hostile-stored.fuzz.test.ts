// The same bounds as in svcd.hostile.fuzz.test.ts for what one project has stored: notes on bindings, as large as
// their doors take them. Here they are read all at once.

import assert from 'node:assert/strict';
import { after, before, it } from 'node:test';
import { type MeasuredDaemon, startMeasuredDaemon } from '../../internal/base/testkit/measured-daemon.ts';
import { applyAgents, hook } from '../../internal/flows/routing/routing-testkit.ts';
import { boundsOf } from './hostile-bounds-testkit.ts';
import { filled } from './hostile-testkit.ts';

let daemon: MeasuredDaemon;
before(async () => {
  // Sessions wait, with all that they hold.
  const nowhere = JSON.stringify(['/nowhere/harness']);
  daemon = await startMeasuredDaemon({ SVC_LOG_LEVEL: 'warn', SVC_HARNESS_A_COMMAND: nowhere });
});
after(() => daemon.stop());
const { isBounded } = boundsOf(() => daemon);

it('an agent with large notes is explained, however many triggers it has', async () => {
  const triggers = Array.from({ length: 400 }, () => hook('noted', { kind: 'deliver', onUnmatched: 'drop' }));
  const bindings = { 'codehost.pull_request': { context: { notes: filled('n', 900_000) } } };
  await applyAgents(daemon.api, { noted: { concurrency: 1, bindings, triggers } });
  await isBounded('notes × triggers, explained', async () => {
    const asked = { event: 'webhook.received', endpoint: 'noted', payload: {} };
    const { status, body } = await daemon.api('POST', 'P/triggers/explain', asked);
    assert.equal(status, 200, JSON.stringify(body).slice(0, 200));
    assert.equal((body['triggers'] as unknown as object[]).length, 400);
  });
});
