// The first page of a project.
import { html, type Markup } from './kit.ts';
import { plainPage } from './lists.ts';
import type { PageProps } from './pages.ts';

export function Page(props: PageProps): Markup {
  return html`<section data-testid="page-overview"><h1>${props.place.project.slug}</h1>
    <${plainPage('reconciles').Page} ...${props} />
    <${plainPage('sessions').Page} ...${props} /></section>`;
}
