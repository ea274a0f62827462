// A page of the documentation as HTML, and as the sections that are searched. The files are the project's own; of HTML in
// them only anchors are taken, everything else is shown as text.

import { Marked, type Token, type Tokens } from 'marked';
import { escapeHtml } from './pages.ts';

export interface Section {
  /** Of its heading; empty for what stands before the first one. */
  readonly id: string;
  readonly title: string;
  /** Without markup. */
  readonly text: string;
}

export interface Rendered {
  readonly title: string;
  readonly body: string;
  /** Headings of the second level, as `[id, title]`. */
  readonly contents: readonly (readonly [string, string])[];
  readonly sections: readonly Section[];
}

/** The id that a heading has: as code hosts make it, so that links hold there and here. */
export const slugOf = (title: string): string =>
  title
    .trim()
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\p{M}_ -]/gu, '')
    .replaceAll(' ', '-');

const plainOf = (token: Token): string => {
  if (token.type === 'html') return '';
  const { tokens } = token as Tokens.Generic;
  if (tokens !== undefined && tokens.length > 0) return tokens.map(plainOf).join('');
  if (token.type === 'list') return (token as Tokens.List).items.map(plainOf).join('\n');
  if (token.type === 'table') {
    const { header, rows } = token as Tokens.Table;
    const line = (cells: readonly Tokens.TableCell[]): string => cells.map(plainOfCell).join(' · ');
    return [header, ...rows].map(line).join('\n');
  }
  return 'text' in token ? token.text : '';
};

const plainOfCell = (cell: Tokens.TableCell): string => cell.tokens.map(plainOf).join('');

const anchor = /^<a id="([\w.-]+)">$/;

/** What stands as HTML in a page: anchors, and comments, which are for editors. `idOf` makes the attribute of an id. */
function markup(text: string, idOf: (id: string) => string): string {
  if (/^<!--[\s\S]*?-->\s*$/.test(text)) return '';
  const id = anchor.exec(text.trim())?.[1];
  if (id !== undefined) return `<a${idOf(id)}>`;
  return text.trim() === '</a>' ? '</a>' : escapeHtml(text);
}

/** Makes a page of Markdown. `linkOf` says where a link of it leads; undefined: it leads nowhere, and is text. */
export function render(text: string, linkOf: (href: string) => string | undefined): Rendered {
  const marked = new Marked();
  const used = new Map<string, number>();
  const ids = new Map<Token, string>();
  const tokens = marked.lexer(text);
  const sections: { id: string; title: string; text: string }[] = [{ id: '', title: '', text: '' }];
  const contents: [string, string][] = [];
  let title = '';
  for (const token of tokens) {
    if (token.type !== 'heading') {
      const last = sections.at(-1);
      if (last !== undefined) last.text += `${plainOf(token)}\n`;
      continue;
    }
    const name = plainOf(token);
    const slug = slugOf(name);
    const count = used.get(slug) ?? 0;
    used.set(slug, count + 1);
    const id = count === 0 ? slug : `${slug}-${count}`;
    ids.set(token, id);
    if (token['depth'] === 1 && title === '') title = name;
    if (token['depth'] === 2) contents.push([id, name]);
    sections.push({ id, title: name, text: '' });
  }
  // An id stands once in a page: an anchor that has the name of a heading leads to the heading.
  const given = new Set(ids.values());
  const idOf = (id: string): string => {
    if (given.has(id)) return '';
    given.add(id);
    return ` id="${escapeHtml(id)}"`;
  };
  marked.use({
    renderer: {
      heading(token) {
        const id = ids.get(token) ?? '';
        const inner = this.parser.parseInline(token.tokens);
        return `<h${token.depth} id="${escapeHtml(id)}"><a class="anchor" href="#${escapeHtml(id)}">${inner}</a></h${token.depth}>\n`;
      },
      link({ href, tokens: inner }) {
        const to = linkOf(href);
        const shown = this.parser.parseInline(inner);
        return to === undefined ? shown : `<a href="${escapeHtml(to)}">${shown}</a>`;
      },
      image: ({ text: alternative }) => escapeHtml(alternative),
      html: ({ text: raw }) => markup(raw, idOf),
      code({ text: code, lang }) {
        const language = /^[a-z]+/.exec(lang ?? '')?.[0];
        return `<pre${language === undefined ? '' : ` data-language="${language}"`}><code>${escapeHtml(code)}</code></pre>\n`;
      },
      table(token) {
        const cells = (row: readonly Tokens.TableCell[], tag: string): string =>
          `<tr>${row
            .map((cell) =>
              cell.tokens.length === 0 ? '<td></td>' : `<${tag}>${this.parser.parseInline(cell.tokens)}</${tag}>`,
            )
            .join('')}</tr>\n`;
        const rows = token.rows.map((row) => cells(row, 'td')).join('');
        const label = escapeHtml(`Table: ${token.header.map(plainOfCell).filter(Boolean).join(', ')}`);
        return `<div class="scroll" tabindex="0" role="group" aria-label="${label}"><table><thead>${cells(token.header, 'th')}</thead><tbody>${rows}</tbody></table></div>\n`;
      },
    },
  });
  return { title, body: marked.parser(tokens), contents, sections };
}
