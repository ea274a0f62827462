// Opens an address in the person's browser where there is one: on a terminal, unless the command was told not to. That it
// could not be opened is no failure: the address has been printed.

import { spawn } from 'node:child_process';
import type { Call } from './types.ts';

const openers: { readonly [platform: string]: readonly string[] } = {
  darwin: ['open'],
  linux: ['xdg-open'],
};

/** Only http and https; nothing is passed through a shell. */
export function openBrowser(call: Call, address: string): void {
  const [program, ...args] = openers[process.platform] ?? [];
  const isWanted = !call.flag('no-browser') && call.io.stderr.isTTY === true;
  if (program === undefined || !isWanted || !/^https?:$/.test(new URL(address).protocol)) return;
  const child = spawn(program, [...args, address], { stdio: 'ignore', detached: true });
  child.once('error', () => undefined);
  child.unref();
}
