// The documentation as pages: what lies under docs/ of this program, at /docs, each page also as the Markdown that it was
// written in, and a search over all of it that needs no script. Anybody may read it: nothing of an installation is in it.

import { readdirSync, readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { render, type Rendered, type Section } from './docs-render.ts';
import { docsPage, errorPage, escapeHtml } from './pages.ts';
import { seeOther, type Visit } from './visit.ts';

const root = join(import.meta.dirname, '../../..');
/** Pages that lie elsewhere, by their address below /docs. */
const elsewhere: readonly (readonly [string, string])[] = [
  ['readme', 'README.md'],
  ['architecture', 'ARCHITECTURE.md'],
  ['contributing', 'CONTRIBUTING.md'],
  ['changelog', 'CHANGELOG.md'],
  ['templates', 'templates/README.md'],
];
const queryMax = 200;
const hitsMax = 30;

interface DocsPage {
  /** Below /docs; empty for the first page. */
  readonly name: string;
  /** From the root of the program. */
  readonly file: string;
  readonly text: string;
  readonly made: Rendered;
}

export interface DocsSite {
  readonly pages: readonly DocsPage[];
  /** Answers a GET or HEAD of /docs or below. */
  send(visit: Visit): void;
}

const nameOf = (file: string): string =>
  elsewhere.find(([, path]) => path === file)?.[0] ?? file.replace(/^docs\//, '').replace(/\/?(README)?\.md$/, '');
const addressOf = (name: string): string => (name === '' ? '/docs' : `/docs/${name}`);
const markdownOf = (name: string): string => `${addressOf(name === '' ? 'index' : name)}.md`;

/** Where a link in a file leads: another page, elsewhere on the web; undefined where it is neither. */
function linkFrom(file: string, files: ReadonlySet<string>): (href: string) => string | undefined {
  return (href) => {
    if (/^https?:\/\//.test(href)) return href;
    const [path = '', hash] = href.split('#');
    const target = path === '' ? file : posix.join(posix.dirname(file), path);
    const found = [target, `${target}.md`, posix.join(target, 'README.md')].find((one) => files.has(one));
    if (found === undefined) return undefined;
    return `${path === '' ? '' : addressOf(nameOf(found))}${hash === undefined ? '' : `#${hash}`}`;
  };
}

/** Reads and renders all pages. Costs some 100 ms, once. */
export function createDocs(): DocsSite {
  const below = readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' })
    .map((one) => `docs/${one.replaceAll('\\', '/')}`)
    .filter((one) => one.endsWith('.md') && !one.includes('0000-template'));
  const found = [...below.toSorted(), ...elsewhere.map(([, path]) => path)].flatMap((file) => {
    try {
      return [{ file, text: readFileSync(join(root, file), 'utf8') }];
    } catch (error) {
      // A package may come without what is for those who work on it.
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
      throw error;
    }
  });
  const files = new Set(found.map(({ file }) => file));
  const pages = found.map(({ file, text }) => ({
    name: nameOf(file),
    file,
    text,
    made: render(text, linkFrom(file, files)),
  }));
  const byName = new Map(pages.map((page) => [page.name, page]));
  const listed = menuOf(byName.get(''), files);
  const unlisted = pages
    .filter(({ name }) => name !== '' && !name.startsWith('adr/'))
    .map(({ name, made }) => [addressOf(name), made.title] as const)
    .filter(([href]) => !listed.some(({ links }) => links.some(([one]) => one === href)));
  const groups = unlisted.length === 0 ? listed : [...listed, { title: 'More', links: unlisted }];
  return {
    pages,
    send(visit) {
      const path = visit.url.pathname.replace(/^\/docs\/?/, '');
      if (visit.url.pathname === '/docs/') return seeOther(visit, '/docs', {}, 308);
      if (path === 'search') return sendSearch(visit, pages, groups);
      const isMarkdown = path.endsWith('.md');
      const name = isMarkdown ? path.slice(0, -'.md'.length).replace(/^(index|README)$/, '') : path;
      const page = byName.get(name);
      if (page === undefined) return errorPage(visit, 404);
      if (isMarkdown) return sendMarkdown(visit, page.text);
      const address = addressOf(name);
      return docsPage(visit, {
        title: page.made.title,
        menu: menuHtml(groups, address),
        contents: contentsHtml(page.made),
        body: `${page.made.body}${aroundHtml(groups, address)}`,
        markdown: markdownOf(name),
      });
    },
  };
}

function sendMarkdown({ request, response }: Visit, text: string): void {
  const bytes = Buffer.from(text);
  response.writeHead(200, { 'content-type': 'text/markdown; charset=utf-8', 'content-length': String(bytes.length) });
  response.end(request.method === 'HEAD' ? undefined : bytes);
}

interface Group {
  readonly title: string;
  readonly links: readonly (readonly [href: string, title: string])[];
}

/** The menu is what the first page lists: its headings, and the links below each. */
function menuOf(first: DocsPage | undefined, files: ReadonlySet<string>): readonly Group[] {
  if (first === undefined) return [];
  const link = linkFrom(first.file, files);
  return first.text
    .split(/^## /m)
    .slice(1)
    .map((part) => ({
      title: part.slice(0, part.indexOf('\n')).trim(),
      links: [...part.matchAll(/^- \[([^\]]+)\]\(([^)]+)\)/gm)].flatMap(([, title = '', href = '']) => {
        const to = link(href);
        return to === undefined ? [] : [[to, title] as const];
      }),
    }));
}

const menuHtml = (groups: readonly Group[], here: string): string =>
  groups
    .map(({ title, links }) => {
      const items = links.map(([href, text]) => {
        const current = href === here ? ' aria-current="page"' : '';
        return `<li><a href="${escapeHtml(href)}"${current}>${escapeHtml(text)}</a></li>`;
      });
      return `<h2>${escapeHtml(title)}</h2><ul>${items.join('')}</ul>`;
    })
    .join('');

const contentsHtml = ({ contents }: Rendered): string =>
  contents.length < 3
    ? ''
    : `<details class="contents"><summary>On this page</summary><ul>${contents
        .map(([id, title]) => `<li><a href="#${escapeHtml(id)}">${escapeHtml(title)}</a></li>`)
        .join('')}</ul></details>`;

/** The pages before and after, in the order of the menu. */
function aroundHtml(groups: readonly Group[], here: string): string {
  const all = groups.flatMap(({ links }) => links);
  const at = all.findIndex(([href]) => href === here);
  if (at < 0) return '';
  const link = (one: readonly [string, string] | undefined, words: string): string =>
    one === undefined ? '' : `<a href="${escapeHtml(one[0])}">${words}: ${escapeHtml(one[1])}</a>`;
  return `<p class="around">${link(all[at - 1], 'Before')} ${link(all[at + 1], 'Next')}</p>`;
}

interface Hit {
  readonly page: DocsPage;
  readonly section: Section;
  readonly score: number;
}

const wordsOf = (query: string): string[] => [...new Set(query.toLowerCase().split(/\s+/).filter(Boolean))].slice(0, 8);

/** Sections in which every word stands, the page's title included; headings weigh more than text. Best first. */
export function searchDocs(pages: readonly DocsPage[], query: string): readonly Hit[] {
  const words = wordsOf(query);
  if (words.length === 0) return [];
  return pages
    .flatMap((page) =>
      page.made.sections.flatMap((section) => {
        const [title, heading, text] = [page.made.title, section.title, section.text].map((one) => one.toLowerCase());
        let score = 0;
        for (const word of words) {
          const times = (text ?? '').split(word).length - 1;
          const inHeading = heading?.includes(word) === true;
          const inTitle = title?.includes(word) === true;
          if (times === 0 && !inHeading && !inTitle) return [];
          score += Math.min(times, 5) + (inHeading ? 12 : 0) + (heading === word ? 12 : 0) + (inTitle ? 5 : 0);
        }
        return text === '' && heading === ''
          ? []
          : [{ page, section, score: page.name.startsWith('adr/') ? score / 2 : score }];
      }),
    )
    .toSorted((a, b) => b.score - a.score || (a.page.name < b.page.name ? -1 : 1))
    .slice(0, hitsMax);
}

const aroundChars = 110;

/** What stands around the first word that is found, with the words marked. */
function excerptHtml(text: string, words: readonly string[]): string {
  const flat = text.replaceAll(/\s+/g, ' ').trim();
  const lower = flat.toLowerCase();
  const first = Math.min(...words.map((word) => lower.indexOf(word)).filter((at) => at >= 0), lower.length);
  const from = first === lower.length ? 0 : Math.max(0, first - aroundChars);
  const cut = flat.slice(from, from + 2 * aroundChars);
  const pattern = new RegExp(words.map((word) => word.replaceAll(/[$()*+.?[\\\]^{|}]/g, '\\$&')).join('|'), 'gi');
  let html = '';
  let last = 0;
  for (const match of cut.matchAll(pattern)) {
    html += `${escapeHtml(cut.slice(last, match.index))}<mark>${escapeHtml(match[0])}</mark>`;
    last = match.index + match[0].length;
  }
  return `${from > 0 ? '… ' : ''}${html}${escapeHtml(cut.slice(last))}${from + 2 * aroundChars < flat.length ? ' …' : ''}`;
}

function sendSearch(visit: Visit, pages: readonly DocsPage[], groups: readonly Group[]): void {
  const query = (visit.url.searchParams.get('q') ?? '').trim().slice(0, queryMax);
  const hits = searchDocs(pages, query);
  const items = hits.map(({ page, section }) => {
    const href = `${addressOf(page.name)}${section.id === '' ? '' : `#${section.id}`}`;
    // A guide and a page of the reference may have one title.
    const group = groups.find(({ links }) => links.some(([one]) => one === addressOf(page.name)))?.title ?? '';
    const heading = section.title === page.made.title ? '' : section.title;
    const title = [group, page.made.title, heading].filter(Boolean).join(' › ');
    // Beneath a title may stand nothing but the first heading.
    const text = section.text.trim() === '' ? page.made.sections.map((one) => one.text).join('\n') : section.text;
    return `<li><a href="${escapeHtml(href)}">${escapeHtml(title)}</a><p>${excerptHtml(text, wordsOf(query))}</p></li>`;
  });
  const said =
    query === ''
      ? '<p>Type what you look for above.</p>'
      : hits.length === 0
        ? `<p role="status">Nothing has all of these words: ${escapeHtml(query)}. Fewer or shorter words find more.</p>`
        : `<p role="status">${hits.length === hitsMax ? `The best ${hitsMax}` : hits.length} for ${escapeHtml(query)}</p>`;
  docsPage(visit, {
    title: 'Search',
    menu: menuHtml(groups, '/docs/search'),
    contents: '',
    body: `<h1>Search</h1>${said}<ol class="hits">${items.join('')}</ol>`,
    query,
  });
}
