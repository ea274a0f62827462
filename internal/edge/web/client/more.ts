// Lists that are a part of a page: the first two hundred rows, and the others when they are asked for.

import { useEffect, useState } from 'preact/hooks';
import { call } from './api.ts';
import { html, type Markup, useRead } from './kit.ts';

interface Page<R> {
  readonly items: readonly R[];
  readonly nextCursor: string | null;
}

/** The first rows of a list, `pages` of them; what is shown stays while more are read. */
export function usePages<R>(path: string) {
  const [pages, setPages] = useState(1);
  const read = useRead(async (signal) => {
    const items: R[] = [];
    let cursor: string | null = '';
    for (let page = 0; page < pages && cursor !== null; page += 1) {
      const query = new URLSearchParams({ limit: '200', ...(cursor !== '' && { cursor }) });
      const answer: Page<R> = await call<Page<R>>('GET', `${path}?${query}`, { signal });
      items.push(...answer.items);
      cursor = answer.nextCursor;
    }
    return { items, hasMore: cursor !== null };
  }, path);
  useEffect(() => {
    if (pages > 1) read.again();
  }, [pages]);
  return { ...read, more: () => setPages((before) => before + 1) };
}

/** The way to the others, below a table; nothing where these are all. */
export function More(props: { readonly hasMore: boolean; readonly more: () => void }): Markup | null {
  if (!props.hasMore) return null;
  const more = (event: Event): void => {
    // The button goes with the last of them: the focus stays with the rows.
    const part = (event.currentTarget as HTMLElement).closest('section, div');
    part?.querySelector<HTMLElement>('.scroll')?.focus({ preventScroll: true });
    props.more();
  };
  return html`<p class="pager"><button type="button" data-testid="page-older" onClick=${more}>More</button></p>`;
}
