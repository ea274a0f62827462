// The pages as HTML: each says where its script and style are, or what it has to say. Nothing of a request is in them but
// its id and, once, the groups of whoever has no role.

import { sendHtml, type Visit } from './visit.ts';

export const escapeHtml = (text: string): string =>
  text.replaceAll(/[&<>"']/g, (sign) => `&#${sign.codePointAt(0) ?? 32};`);

interface Parts {
  readonly title: string;
  /** Modules of client/, run in this order; none: a page without script. */
  readonly scripts?: readonly string[];
  /** What it imports, and what those do, as far as they are asked for at once: not one depth after the other. */
  readonly imports?: readonly string[];
  /** Style beside that of every page. */
  readonly style?: string;
  /** Of the head, as HTML. */
  readonly head?: string;
  readonly body: string;
}

function html({ assets }: Visit, { title, scripts = [], imports = [], style, head, body }: Parts): string {
  const preloads = imports.map((url) => `<link rel="modulepreload" href="${url}">`).join('');
  const modules = scripts.map((name) => `<script type="module" src="${assets.url(name)}"></script>`).join('');
  const run = scripts.length === 0 ? '' : `<script type="importmap">${assets.importMap}</script>${preloads}${modules}`;
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${escapeHtml(title)}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="${assets.url('app.css')}">
${style === undefined ? '' : `<link rel="stylesheet" href="${assets.url(style)}">`}${head ?? ''}${run}
</head>
<body>${body}</body>
</html>
`;
}

const noscript =
  '<noscript><p class="notice">This page needs JavaScript; <code>svc</code> on the command line does not.</p></noscript>';

/** The console's shell; `overview`: where the overview of the project is read, on its page. */
export function shellPage(visit: Visit, overview?: string): void {
  const { assets } = visit;
  const early = overview === undefined ? '' : ` data-early="${escapeHtml(overview)}"`;
  const body = `<div id="root"${early}></div>${noscript}`;
  const imports = overview === undefined ? assets.shell : [...assets.shell, assets.url('page-overview.ts')];
  // The module that reads the API runs before the others are there, and asks for what the page shows.
  const first = overview === undefined ? [] : ['api.ts'];
  sendHtml(visit, 200, html(visit, { title: 'svc', scripts: [...first, 'app.ts'], imports, body }));
}

/** Whether a page of another address leads here, another port of this machine too; browsers say so of themselves. */
const isLed = ({ request }: Visit): boolean =>
  ['cross-site', 'same-site'].includes(String(request.headers['sec-fetch-site']));

export function signinPage(visit: Visit): void {
  const led = isLed(visit) ? ' data-led' : '';
  const body = `<div id="root" data-base="${escapeHtml(visit.base.origin)}"${led}></div>${noscript}`;
  sendHtml(visit, 200, html(visit, { title: 'Sign in · svc', scripts: ['signin.ts'], body }));
}

export const devicePage = (visit: Visit): void =>
  sendHtml(
    visit,
    200,
    html(visit, {
      title: 'Let a command line in · svc',
      scripts: ['device.ts'],
      body: `<div id="root"></div>${noscript}`,
    }),
  );

/** A page of the documentation, without script; `menu`, `contents` and `body` are HTML. */
export function docsPage(
  visit: Visit,
  page: {
    readonly title: string;
    readonly menu: string;
    readonly contents: string;
    readonly body: string;
    /** Where the page lies as Markdown; a page that is made has none. */
    readonly markdown?: string;
    readonly query?: string;
  },
): void {
  const { title, menu, contents, markdown, query = '' } = page;
  const search = `<form class="search" action="/docs/search" role="search"><input type="search" name="q" aria-label="Search the documentation" maxlength="200" required value="${escapeHtml(query)}"><button>Search</button></form>`;
  const source = markdown === undefined ? '' : `<a href="${escapeHtml(markdown)}">Markdown</a>`;
  const body = `<div class="docs"><header><a class="skip" href="#content">To the content</a><div class="bar"><a class="home" href="/docs">svc docs</a><a class="menu-link" href="#pages">Pages</a><a href="/">Console</a><span class="space"></span>${source}${search}</div></header>
<main id="content" tabindex="-1" data-testid="page-docs">${contents}${page.body}</main>
<nav id="pages" aria-label="Documentation">${menu}</nav></div>`;
  const head =
    markdown === undefined ? '' : `<link rel="alternate" type="text/markdown" href="${escapeHtml(markdown)}">`;
  sendHtml(visit, 200, html(visit, { title: `${title} · svc docs`, style: 'docs.css', head, body }));
}

/** A page that says something, without script. */
export function messagePage(visit: Visit, status: number, title: string, lines: readonly string[], headers = {}): void {
  const text = lines.map((line) => `<p>${escapeHtml(line)}</p>`).join('');
  const body = `<main class="alone" data-testid="error-page"><h1>${escapeHtml(title)}</h1>${text}<p><a href="/">To the start</a></p></main>`;
  sendHtml(visit, status, html(visit, { title: `${title} · svc`, body }), headers);
}

const told: { readonly [status: number]: readonly [string, string] } = {
  404: ['There is no such page', 'It does not exist, or it is not visible to you.'],
  500: ['Something went wrong here', 'The log names this request by its id.'],
  503: ['The service cannot answer at the moment', 'Wait a moment, then load this page again.'],
};

/** The fixed pages: the same for everybody, whatever was asked. */
export function errorPage(visit: Visit, status: 200 | 404 | 500 | 503): void {
  const isSignin = visit.url.pathname.startsWith('/signin');
  const [title, line] =
    told[status] ??
    (isSignin
      ? [
          'Signing in did not work',
          'Nothing was changed. Begin again; if it stays so, an administrator finds the reason in the log.',
        ]
      : [
          'The connection was not made',
          'This callback is malformed, over, or not yours. Begin again on the Connections page of the project.',
        ]);
  const id =
    status === 500 ? `<p>Request <code data-testid="request-id">${escapeHtml(visit.requestId)}</code></p>` : '';
  const again = isSignin ? '<p><a href="/signin">Sign in</a></p>' : '<p><a href="/">To the start</a></p>';
  const body = `<main class="alone" data-testid="error-page"><h1>${title}</h1><p>${line}</p>${id}${again}</main>`;
  sendHtml(visit, status, html(visit, { title: `${title} · svc`, body }), status === 503 ? { 'retry-after': '1' } : {});
}
