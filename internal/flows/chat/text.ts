// What is said in a chat: its bounds, and words that would call everybody, made harmless.

import { outsideFault } from '../../domain/outside.ts';

export type Format = 'markdown' | 'mrkdwn';
const most = { markdown: 12_000, mrkdwn: 40_000 } as const;
const mark = '\u200b';

/** Puts a character without width behind the first one of every word that calls more than a person. */
export function withoutBroadcasts(text: string, format: Format): string {
  const tokens = text.replace(/<(?=!(?:channel|here|everyone|subteam\^))/gi, `<${mark}`);
  if (format === 'mrkdwn') return tokens;
  return tokens.replace(/(?<![\p{L}\p{N}_])@(?=(?:channel|here|everyone)(?![\p{L}\p{N}_])|subteam\^)/giu, `@${mark}`);
}

/** The arguments that say it. Throws Fault `too-large`: nothing is sent in parts. */
export function saying(text: string, format: Format): { readonly [argument: string]: string } {
  const said = withoutBroadcasts(text, format);
  if ([...said].length > most[format]) {
    throw outsideFault('too-large', `text: has more than ${most[format]} characters; nothing was sent`);
  }
  return format === 'markdown' ? { markdown_text: said } : { text: said };
}
