// Text of others in what the service says outside: in code, so that nothing in it addresses anybody or steers a terminal,
// and without what looks like a credential.

import { maskCredentials } from '../domain/credential.ts';

/** One line, without characters that steer a terminal or turn text around. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: those are what is taken out.
const steering = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]+/g;
export const plain = (text: string): string => maskCredentials(text.toWellFormed().replace(steering, ' '));

/** At most so many code points. */
export const cut = (text: string, most: number): string => {
  const all = [...text];
  return all.length > most ? `${all.slice(0, most - 1).join('')}…` : text;
};

const longestTicks = (text: string): number => Math.max(0, ...[...text.matchAll(/`+/g)].map(([run]) => run.length));

/** Text as inline code, whatever stands in it. */
export function code(text: string): string {
  const shown = plain(text);
  const ticks = '`'.repeat(longestTicks(shown) + 1);
  const pad = /^[` ]|[` ]$/.test(shown) ? ' ' : '';
  return `${ticks}${pad}${shown}${pad}${ticks}`;
}

/** A fenced block of Markdown that no run of backticks in its lines ends. */
export function fenced(lines: readonly string[], language = ''): string {
  const ticks = '`'.repeat(Math.max(3, longestTicks(lines.join('\n')) + 1));
  return [`${ticks}${language}`, ...lines, ticks].join('\n');
}
