// The documentation as it is served: readable by anybody, with the headers of the other pages, every link and anchor of it
// leading somewhere, searched without script, and in order in a real browser in light and dark and at 360 pixels.

import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { axeViolations, startBrowser, type TestBrowser } from '../../base/testkit/browser.ts';
import { startTestDaemon, type TestDaemon } from '../../base/testkit/daemon.ts';
import { createDocs } from './docs.ts';
import { render } from './docs-render.ts';

const root = join(import.meta.dirname, '../../..');
let daemon: TestDaemon;
before(async () => {
  daemon = await startTestDaemon({ config: { roles: ['api'] } });
});
after(() => daemon?.stop());

const get = (path: string) => fetch(`${daemon.url}${path}`, { redirect: 'manual' });
const textOf = (path: string) => get(path).then((one) => one.text());
const site = createDocs();
const addressOf = (name: string): string => (name === '' ? '/docs' : `/docs/${name}`);

describe('the documentation', () => {
  it('is read without signing in, under the policy of every page, and as Markdown', async () => {
    const page = await get('/docs/guides/secrets');
    assert.equal(page.status, 200);
    const signin = await get('/signin');
    for (const name of ['content-security-policy', 'x-content-type-options', 'referrer-policy', 'permissions-policy']) {
      assert.equal(page.headers.get(name), signin.headers.get(name), name);
    }
    const html = await page.text();
    assert.match(html, /<title>Secrets · svc docs<\/title>/);
    assert.match(html, /<link rel="alternate" type="text\/markdown" href="\/docs\/guides\/secrets\.md">/);
    assert.match(html, /<a href="\/docs\/guides\/secrets" aria-current="page">/);
    assert.ok(!/<script/.test(html.replace(/<script type="importmap">[\s\S]*?<\/script>/, '')), 'no script');
    const markdown = await get('/docs/guides/secrets.md');
    assert.equal(markdown.headers.get('content-type'), 'text/markdown; charset=utf-8');
    assert.equal(await markdown.text(), await readFile(join(root, 'docs/guides/secrets.md'), 'utf8'));
    assert.equal(await textOf('/docs/index.md'), await readFile(join(root, 'docs/README.md'), 'utf8'));
    assert.equal((await fetch(`${daemon.url}/docs`, { method: 'HEAD' })).status, 200);
    assert.deepEqual([(await get('/docs/')).status, (await get('/docs/')).headers.get('location')], [308, '/docs']);
    for (const path of [
      '/docs/nothing',
      '/docs/nothing.md',
      '/docs/../package.json',
      '/docs/%2e%2e/package.json',
      '/docsx',
    ]) {
      assert.ok([303, 404].includes((await get(path)).status), path);
    }
  });

  it('has a page for each file, and each is in the menu or on a page that is', async () => {
    const files = (await readdir(join(root, 'docs'), { recursive: true })).filter((one) => /\.md$/.test(one));
    assert.ok(site.pages.length >= files.length + 4, String(site.pages.length));
    const linked = new Set(
      site.pages.flatMap(({ made }) => [...made.body.matchAll(/href="(\/docs[^"#]*)/g)].map(([, to]) => to)),
    );
    const menu = await textOf('/docs');
    for (const { name } of site.pages) {
      const to = addressOf(name);
      assert.ok(name === '' || linked.has(to) || menu.includes(`href="${to}"`), `nothing leads to ${name}`);
    }
  });

  it('has no link and no anchor that leads nowhere, whatever it is read in', async () => {
    const ids = new Map(
      site.pages.map(({ name, made }) => [
        addressOf(name),
        new Set([...made.body.matchAll(/ id="([^"]+)"/g)].map(([, id = '']) => id)),
      ]),
    );
    const wrong: string[] = [];
    let seen = 0;
    for (const { name, file, text, made } of site.pages) {
      for (const [, to = ''] of made.body.matchAll(/href="([^"]+)"/g)) {
        if (/^https?:/.test(to)) continue;
        const [path = '', id] = to.split('#');
        const target = ids.get(path === '' ? addressOf(name) : path);
        seen += 1;
        if (target === undefined || (id !== undefined && !target.has(id))) wrong.push(`${file}: ${to}`);
      }
      // A link that became text leads nowhere.
      const written = [
        ...text
          .replaceAll(/^```[\s\S]*?^```/gm, '')
          .replaceAll(/`[^`\n]*`/g, '')
          .matchAll(/\]\((?!https?:)([^)\s]+)\)/g),
      ];
      const kept = [...made.body.matchAll(/<a href="(?!https?:)/g)].length;
      if (kept !== written.length) wrong.push(`${file}: ${written.length} links are written, ${kept} lead somewhere`);
    }
    assert.deepEqual(wrong, []);
    assert.ok(seen > 300, String(seen));
  });

  it('has every anchor that the sources cite', async () => {
    const pages = new Map(site.pages.map((page) => [page.file, page.made.body]));
    const wrong: string[] = [];
    let seen = 0;
    for (const room of ['internal', 'schemas', 'cmd']) {
      for (const path of await readdir(join(root, room), { recursive: true })) {
        if (!path.endsWith('.ts')) continue;
        const text = await readFile(join(root, room, path), 'utf8');
        for (const [, file = '', id = ''] of text.matchAll(/(docs\/[\w/-]+\.md)#([\w-]+)/g)) {
          seen += 1;
          if (pages.get(file)?.includes(` id="${id}"`) !== true) wrong.push(`${path}: ${file}#${id}`);
        }
      }
    }
    assert.deepEqual(wrong, []);
    assert.ok(seen > 20, String(seen));
  });

  it('takes anchors of HTML alone, and no address of a script', () => {
    const { body } = render(
      '<a id="x"></a>\n<script>alert(1)</script>\n\n[a](javascript:alert(1)) <b onclick="x">b</b>',
      () => undefined,
    );
    assert.ok(body.includes('<a id="x"></a>'), body);
    assert.ok(!/<script|<b |javascript:/.test(body), body);
  });

  it('is searched: headings first, every word, nothing of the query as markup', async () => {
    const found = await textOf('/docs/search?q=signature+header');
    assert.match(found, /<li><a href="\/docs\/reference\/webhook-endpoints#authentication">/);
    assert.match(found, /<mark>signature<\/mark>/i);
    const [first = ''] =
      /<li><a href="\/docs[^"]*">[^<]*<\/a>/.exec(
        (await textOf('/docs/search?q=rollback')).split('class="hits"')[1] ?? '',
      ) ?? [];
    assert.match(first, /rollback/i);
    // Of one title in a guide and in the reference it is said which is which, and each has some of its text.
    const same = (await textOf('/docs/search?q=secret')).split('class="hits"')[1] ?? '';
    for (const title of ['Operate › Secrets', 'Reference › Secrets'])
      assert.match(same, new RegExp(`>${title}</a><p>[^/]*<mark>`), title);
    const none = await textOf(`/docs/search?q=${encodeURIComponent('<img src=x> zzqq')}`);
    assert.ok(!none.includes('<img') && none.includes('Nothing has all of these words'));
    assert.equal((await get(`/docs/search?q=${'x'.repeat(4_000)}`)).status, 200);
    assert.match(await textOf('/docs/search'), /Type what you look for/);
  });
});

describe('the documentation in a browser', () => {
  let browser: TestBrowser;
  before(async () => {
    browser = await startBrowser();
  });
  after(() => browser?.close());

  it('is accessible in light and dark, fits 360 pixels, and is searched by the keyboard', async () => {
    for (const colorScheme of ['light', 'dark'] as const) {
      const context = await browser.open({ dark: colorScheme === 'dark' });
      const page = await context.newPage();
      const complaints: string[] = [];
      page.on('console', (line) => line.type() === 'error' && complaints.push(line.text()));
      const paths = ['/docs/guides/code-host', '/docs/search?q=secret'];
      for (const path of colorScheme === 'dark' ? paths : ['/docs', '/docs/reference/limits', ...paths]) {
        await page.goto(`${daemon.url}${path}`);
        assert.deepEqual(await axeViolations(page), [], `${path} ${colorScheme}`);
        await page.setViewportSize({ width: 360, height: 740 });
        const wide = await page.evaluate('document.documentElement.scrollWidth');
        assert.ok(Number(wide) <= 360, `${path} is ${wide} wide`);
        await page.setViewportSize({ width: 1280, height: 720 });
      }
      await page.goto(`${daemon.url}/docs`);
      await page.getByRole('searchbox').fill('master key');
      await page.keyboard.press('Enter');
      await page
        .getByRole('link', { name: /Rotate the master key/ })
        .first()
        .click();
      assert.match(page.url(), /\/docs\/guides\/secrets#rotate-the-master-key$/);
      assert.deepEqual(complaints, []);
      await context.close();
    }
  });
});
