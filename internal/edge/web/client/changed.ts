// After a change that the reader made themselves, their list is read anew from its start: nothing of it waits behind a
// button, and what was taken away is gone. Focus goes to the heading, since what had it may be gone too.

import { useEffect, useState } from 'preact/hooks';
import { html, type Markup } from './kit.ts';
import { type List, ListPage } from './list.ts';
import type { PageProps } from './pages.ts';

const event = 'svc:changed';

/** Says that the reader has changed what the list on this page shows. */
export const changed = (): boolean => dispatchEvent(new Event(event));

/** A page that is a list whose rows are changed on it. */
export function changingList<R>(list: List<R>): (props: PageProps) => Markup {
  return (props) => {
    const [round, setRound] = useState(0);
    useEffect(() => {
      const onChange = (): void => setRound((before) => before + 1);
      addEventListener(event, onChange);
      return () => removeEventListener(event, onChange);
    }, []);
    useEffect(() => {
      if (round > 0) document.querySelector<HTMLElement>('main h1')?.focus();
    }, [round]);
    return html`<${ListPage} key=${round} ...${props} list=${list} />`;
  };
}
