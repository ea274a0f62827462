import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { writeFacts } from '../../adapters/store/connections/provider-facts.ts';
import { startTestDaemon, type TestDaemon } from '../../base/testkit/daemon.ts';
import { addConnection } from './ingest-testkit.ts';
import { forgetOldFacts } from './ingest.ts';

const dayMs = 86_400_000;

describe('what intake remembers', () => {
  let nowMs = Date.parse('2030-01-01T00:00:00Z');
  let daemon: TestDaemon;
  let id: string;
  before(async () => {
    daemon = await startTestDaemon({ runtime: { now: () => new Date(nowMs) } });
    id = await addConnection(daemon, { provider: 'tracker', name: 't', credentials: { webhookSecret: 's' } });
  });
  after(() => daemon.stop());

  const learn = (key: string, value: string) =>
    writeFacts(daemon.ctx.db, id, [{ kind: 'label', key, value }], new Date(nowMs));
  const known = async (): Promise<string[]> =>
    (await daemon.ctx.db.query<{ key: string }>('select key from svc.provider_facts order by key')).rows.map(
      (row) => row.key,
    );
  const forget = () => forgetOldFacts(daemon.ctx, new AbortController().signal);

  it('is forgotten half a year after it was last said, changed or not', async () => {
    await learn('said once', 'a');
    await learn('said again', 'b');
    nowMs += 100 * dayMs;
    await learn('said again', 'b');
    assert.equal(await forget(), 0);
    nowMs += 81 * dayMs;
    assert.equal(await forget(), 1);
    assert.deepEqual(await known(), ['said again']);
    nowMs += 100 * dayMs;
    assert.equal(await forget(), 1);
    assert.deepEqual(await known(), []);
  });

  it('is written again at most once a month while it stays the same', async () => {
    await learn('label', 'c');
    const written = async () =>
      (
        await daemon.ctx.db.query<{ at: Date }>(`select updated_at as at from svc.provider_facts where key = 'label'`)
      ).rows[0]?.at.getTime();
    const first = await written();
    nowMs += 29 * dayMs;
    await learn('label', 'c');
    assert.equal(await written(), first);
    nowMs += 2 * dayMs;
    await learn('label', 'c');
    assert.equal(await written(), nowMs);
  });
});
