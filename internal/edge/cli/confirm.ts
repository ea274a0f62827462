// Before something is destroyed: what goes with it, with counts, and a question, where a person sits at a terminal. A
// script is not asked; neither is who says --yes.

import { createInterface } from 'node:readline/promises';
import { refusal } from './failure.ts';
import type { Call } from './types.ts';

/** Whether a person sits there to be asked, and has not said yes already. */
export const isAsked = ({ io: { stdin, stderr }, json, flag }: Call): boolean =>
  stdin.isTTY === true && stderr.isTTY === true && !json && !flag('yes');

/**
 * Asks whether to go on. `consequences` is asked for only where somebody is to read it; each is a line. Throws Refusal
 * `not-confirmed` for any other answer than yes.
 */
export async function confirmed(
  call: Call,
  what: string,
  consequences: () => Promise<readonly string[]>,
): Promise<void> {
  const { stdin, stderr } = call.io;
  if (!isAsked(call)) return;
  call.screen.note([`${what}:`, ...(await consequences()).map((line) => `  ${line}`)].join('\n'));
  const terminal = createInterface({ input: stdin, output: stderr, terminal: true });
  try {
    const answer = await terminal.question('go on? [y/N] ', { signal: call.io.signal });
    if (!/^\s*y(es)?\s*$/i.test(answer)) throw refusal('not-confirmed', 'nothing was done');
  } finally {
    terminal.close();
  }
}

/** `3 agents`, `1 agent`, `no agents`. */
export const counted = (count: number, word: string): string =>
  `${count === 0 ? 'no' : count} ${word}${count === 1 ? '' : 's'}`;
