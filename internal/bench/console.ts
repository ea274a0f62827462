// The console in a browser: its first page held against an empty page of the same service, a change until it stands on a
// page, and a list of a long history held against that of a short one.

import type { Page } from '../base/testkit/browser.ts';
import { at, Console, empty, root } from '../edge/web/web-testkit.ts';
import { type Bench, type Bencher, median, medianMs, ms, steadyMs } from './harness.ts';

const rounds = 21;
const changes = 15;
const lists = 200;
const rows = 100_000;
/** What a change may take until it is seen, in milliseconds. */
const seenWithin = 1_000;

/** Notes when what a selector finds is painted: the frame after the one in which it came. */
const notePaint = (selector: string): string => `(() => {
  const look = () => {
    if (document.querySelector(${JSON.stringify(selector)}) === null) requestAnimationFrame(look);
    else requestAnimationFrame(() => setTimeout(() => { window.paintedAt = performance.now(); }));
  };
  look();
})()`;

/** Milliseconds from asking for an address, nothing of it cached, until what it shows is painted. */
async function painted(page: Page, url: string): Promise<number> {
  await page.goto('about:blank');
  await page.goto(url);
  const noted = `new Promise((then) => { const look = () => window.paintedAt === undefined ? setTimeout(look, 10) : then(window.paintedAt); look(); })`;
  return Number(await page.evaluate(noted));
}

async function firstPage(bencher: Bencher, shown: Console): Promise<void> {
  const { page, context } = await shown.signedIn();
  const session = await context.newCDPSession(page);
  await session.send('Network.setCacheDisabled', { cacheDisabled: true });
  await page.addInitScript(notePaint('.overview, main.alone, body > p'));
  const { url } = shown.daemon;
  const took = { bare: [] as number[], overview: [] as number[], nothing: [] as number[] };
  for (let round = -2; round < rounds; round += 1) {
    const bare = await painted(page, `${url}/signin/error`);
    const overview = await painted(page, `${url}${root}`);
    const nothing = await painted(page, `${url}${empty}`);
    if (round < 0) continue;
    took.bare.push(bare);
    took.overview.push(overview);
    took.nothing.push(nothing);
  }
  bencher.ratio('overview painted / a page without script', medianMs(took.overview), medianMs(took.bare), 3);
  bencher.ratio('overview with 100,000 rows / with nothing', medianMs(took.overview), medianMs(took.nothing), 1.5);
  await context.close();
}

/** From the answer to whoever brought an event until its row waits on the page of events. */
async function changeSeen(bencher: Bencher, shown: Console): Promise<void> {
  const { page, context } = await shown.signedIn();
  await shown.go(page, `${root}/events`, 'page-events');
  await page.locator('[data-testid="live-state"][data-state="live"]').waitFor();
  const took: number[] = [];
  for (let count = 1; count <= changes; count += 1) {
    await shown.post();
    const begun = performance.now();
    await at(page, 'new-rows')
      .filter({ hasText: new RegExp(`^${count} new$`) })
      .waitFor();
    took.push(performance.now() - begun);
  }
  bencher.ratio('an event until its row waits / the second it may take', medianMs(took), ms(seenWithin), 1);
  await context.close();
}

async function longList(bencher: Bencher, shown: Console): Promise<void> {
  const { api } = shown.daemon;
  const { db } = shown.database;
  await db.query(
    `insert into svc.events (id, project_id, key, router_status, received_at)
     select gen_random_uuid(), id, 'webhook.received', 'unmatched', now()
       from svc.projects, generate_series(1, 100) where slug = 'empty'`,
  );
  const took = { few: [] as number[], many: [] as number[] };
  for (let round = 0; round < lists; round += 1) {
    for (const [project, samples] of [
      ['empty', took.few],
      ['default', took.many],
    ] as const) {
      const begun = performance.now();
      await api('GET', `/api/v1/orgs/default/projects/${project}/events?view=row&limit=50`);
      samples.push(performance.now() - begun);
    }
  }
  const p95 = (samples: readonly number[]): number =>
    samples.toSorted((a, b) => a - b)[Math.floor(samples.length * 0.95)] ?? median(samples);
  bencher.ratio('50 rows of 100,000, p95 / of 100', steadyMs(took.many, p95), steadyMs(took.few, p95), 2);
}

export const bench: Bench = {
  name: 'console',
  title: 'pages in a browser',
  run: async (bencher) => {
    const shown = await Console.start(rows);
    bencher.atEnd(() => shown.stop());
    await firstPage(bencher, shown);
    await changeSeen(bencher, shown);
    await longList(bencher, shown);
  },
};
