// What a page that stays open may cost, and what a long history may cost the reader of a list: only with SVC_LONG. Times
// stand beside those of the same run; `make bench ONLY=console` has more of them.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Page, watchStreams } from '../../base/testkit/browser.ts';
import { isLong } from '../../base/testkit/long.ts';
import { Console, lists, pathOf, root } from './web-testkit.ts';

const rows = 100_000;
let shown: Console;
const signedIn = () => shown.signedIn();
const go = (page: Page, path: string, testId: string): Promise<void> => shown.go(page, path, testId);

describe('what pages may cost', { skip: !isLong }, () => {
  before(async () => {
    shown = await Console.start(rows);
  });
  after(() => shown.stop());

  test('twelve tabs have one stream, and each is there at once', async () => {
    const { page, context } = await signedIn();
    const streams = watchStreams(context);
    await go(page, `${root}/events`, 'page-events');
    await page.locator('[data-testid="live-state"][data-state="live"]').waitFor();
    const slow: string[] = [];
    for (const [path, testId] of lists.slice(0, 11)) {
      const begun = performance.now();
      const tab = await context.newPage();
      await go(tab, pathOf(root, path), testId);
      const took = performance.now() - begun;
      if (took > 3_000) slow.push(`${path} ${Math.round(took)} ms`);
    }
    assert.deepEqual([streams.open(), streams.overlaps()], [[page], 0]);
    assert.deepEqual(slow, []);
    await context.close();
  });

  test('an hour of ten events a second leaves no more than 10 MB behind', async () => {
    const { page, context } = await signedIn();
    const session = await context.newCDPSession(page);
    const heap = async (): Promise<number> => {
      await session.send('HeapProfiler.collectGarbage');
      const { usedSize } = await session.send('Runtime.getHeapUsage');
      return usedSize / 1e6;
    };
    await go(page, `${root}/events`, 'page-events');
    await page.locator('[data-testid="live-state"][data-state="live"]').waitFor();
    const before = await heap();
    const { rows: found } = await shown.database.db.query<{ id: string }>(
      `select id from svc.projects where slug = 'default'`,
    );
    for (let round = 0; round < 360; round += 1) {
      await shown.database.db.query(
        `insert into svc.events (id, project_id, key, router_status, received_at)
       select gen_random_uuid(), $1, 'webhook.received', 'unmatched', now() from generate_series(1, 100)`,
        [found[0]?.id],
      );
      await sleep(100);
    }
    await sleep(2_000);
    const grown = (await heap()) - before;
    console.log(`heap: ${before.toFixed(1)} MB, ${grown.toFixed(1)} MB more after 36,000 events`);
    assert.ok(grown <= 10, `${grown} MB`);
    const nodes = Number(await page.evaluate('document.querySelectorAll("*").length'));
    assert.ok(nodes <= 4_000, `${nodes} nodes`);
    await context.close();
  });

  test('lists of a long history answer as those of a short one', async () => {
    const p95 = (took: readonly number[]): number =>
      took.toSorted((a, b) => a - b)[Math.floor(took.length * 0.95)] ?? 0;
    const timed = async (read: () => Promise<unknown>): Promise<number> => {
      const begun = performance.now();
      await read();
      return performance.now() - begun;
    };
    const { rows: found } = await shown.database.db.query<{ id: string }>(
      `select id from svc.projects where slug = 'empty'`,
    );
    await shown.database.db.query(
      `insert into svc.events (id, project_id, key, router_status, received_at)
     select gen_random_uuid(), $1, 'webhook.received', 'unmatched', now() from generate_series(1, 100)`,
      [found[0]?.id],
    );
    const list = (project: string) => async () => {
      const { body } = await shown.daemon.api(
        'GET',
        `/api/v1/orgs/default/projects/${project}/events?view=row&limit=50`,
      );
      assert.ok(JSON.stringify(body).length <= 60_000, `${JSON.stringify(body).length} bytes`);
    };
    // In turns, so that what else the machine does meets both alike.
    const took = { few: [] as number[], many: [] as number[] };
    for (let round = 0; round < 200; round += 1) {
      took.few.push(await timed(list('empty')));
      took.many.push(await timed(list('default')));
    }
    const [few, many] = [p95(took.few), p95(took.many)];
    console.log(`p95 of 50 rows: of 100 ${few.toFixed(1)} ms, of ${rows} ${many.toFixed(1)} ms`);
    assert.ok(many <= 2 * few + 1, `${many} ms of many, ${few} ms of few`);
  });
});
