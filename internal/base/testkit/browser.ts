// A real browser for tests of pages: one for a test file, a context of its own for each test.

import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import chromiumBinary from '@sparticuz/chromium';
import { type Browser, type BrowserContext, chromium, type Page, type Request } from 'playwright-core';

export type { BrowserContext, Page, Request } from 'playwright-core';
export { errors } from 'playwright-core';

/** Unpacks the binary where it is not yet; answers with its path. */
export const unpackBrowser = (): Promise<string> => chromiumBinary.executablePath();

export interface TestBrowser {
  /** A browser without any state. Its locale is given: the machine's own may be one that no page can use. */
  open(options?: { readonly dark?: boolean }): Promise<BrowserContext>;
  close(): Promise<void>;
}

export async function startBrowser(): Promise<TestBrowser> {
  const executablePath = await unpackBrowser();
  const launch = (): Promise<Browser> =>
    chromium.launch({
      executablePath,
      // Processes of its own, as people's browsers have; tests run as root too, where its sandbox cannot be made.
      args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'],
      headless: true,
    });
  // The browser itself breaks at its start once in hundreds of times, which says nothing of the pages.
  const browser = await launch().catch(launch);
  return {
    open: ({ dark = false } = {}) =>
      browser.newContext({
        locale: 'en-US',
        colorScheme: dark ? 'dark' : 'light',
        viewport: { width: 1280, height: 720 },
      }),
    close: () => browser.close(),
  };
}

/**
 * The streams that the pages of a browser read. `begun`: whose, in order; `open`: whose are read now; `overlaps`: how often
 * one began while another page, or the same, still read. What ends by itself and begins again is no second one.
 */
export function watchStreams(context: BrowserContext) {
  const begun: Page[] = [];
  const reading = new Map<Request, Page>();
  let overlaps = 0;
  const open = (): Page[] => [...reading.values()].filter((page) => !page.isClosed());
  context.on('request', (request) => {
    if (!request.url().includes('/stream?')) return;
    if (open().length > 0) overlaps += 1;
    const page = request.frame().page();
    begun.push(page);
    reading.set(request, page);
  });
  const ended = (request: Request): void => void reading.delete(request);
  context.on('requestfinished', ended);
  context.on('requestfailed', ended);
  return { begun, open, overlaps: () => overlaps };
}

const axePath = createRequire(import.meta.url).resolve('axe-core');

/** The same document in light and then in dark: what an author's `light-dark()` makes of it needs no second load. */
export async function inBothSchemes(page: Page, look: (scheme: 'light' | 'dark') => Promise<void>): Promise<void> {
  for (const colorScheme of ['dark', 'light'] as const) {
    await page.emulateMedia({ colorScheme });
    await look(colorScheme);
  }
}

/** What is wrong with a page for whoever does not see or point: `id: place` of each violation. */
export async function axeViolations(page: Page): Promise<string[]> {
  // Once for a document: it is a large program to read anew for each scheme and width.
  if ((await page.evaluate('typeof axe')) === 'undefined') await page.evaluate(await readFile(axePath, 'utf8'));
  return page.evaluate(async () => {
    const axe = (
      globalThis as unknown as {
        axe: {
          run(of: { resultTypes: string[] }): Promise<{ violations: { id: string; nodes: { target: unknown[] }[] }[] }>;
        };
      }
    ).axe;
    // Every rule is run; of what passed one place each is enough, as nobody reads it.
    const { violations } = await axe.run({ resultTypes: ['violations'] });
    return violations.flatMap(({ id, nodes }) => nodes.map(({ target }) => `${id}: ${String(target)}`));
  });
}
