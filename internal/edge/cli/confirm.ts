// Before something is destroyed: what goes with it, with counts, and a question, where a person sits at a terminal. A
// script is not asked; neither is who says --yes.

import { createInterface } from 'node:readline/promises';
import type { DryRun } from '../../../schemas/api/common.ts';
import { refusal } from './failure.ts';
import { typedLine } from './input.ts';
import { clean } from './text.ts';
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
    const answer = (await typedLine(call, terminal, 'go on? [y/N] ')) ?? '';
    if (!/^\s*y(es)?\s*$/i.test(answer)) throw refusal('not-confirmed', 'nothing was done');
  } finally {
    terminal.close();
  }
}

const linesOf = ({ consequences }: DryRun): string[] =>
  consequences.map(({ text, names }) => (names.length === 0 ? text : `${text}: ${names.join(', ')}`));

/**
 * What would follow, from the server's dry run: printed with --dry-run, then false; else asked about where a person sits
 * at the terminal, then true. Throws Refusal `not-confirmed` for any other answer than yes.
 */
export async function isMeant(call: Call, what: string, dryRun: () => Promise<DryRun>): Promise<boolean> {
  if (!call.flag('dry-run')) {
    await confirmed(call, what, async () => linesOf(await dryRun()).map((line) => clean(line, true)));
    return true;
  }
  const found = await dryRun();
  call.screen.emit(found, () =>
    linesOf(found)
      .map((line) => clean(line, true))
      .join('\n'),
  );
  return false;
}

/** Why, for the audit. */
export function reasonOf(call: Call): { readonly reason?: string } {
  const reason = call.text('reason');
  return reason === undefined ? {} : { reason };
}
/** The same as the body of a call that needs none otherwise. */
export const reasonBody = (call: Call): { readonly body?: { readonly reason: string } } => {
  const reason = call.text('reason');
  return reason === undefined ? {} : { body: { reason } };
};
export const dryRun = { dryRun: 'true' } as const;
