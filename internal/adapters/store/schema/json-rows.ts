// Rows on their way to one statement: their JSON is made a slice at a time, since a fleet of agents is tens of megabytes.

import { yieldToEventLoop } from '../../../base/yielding.ts';

/** Characters between two turns of the event loop: a few milliseconds. */
const slice = 1024 * 1024;

/** `JSON.stringify(rows)`, without holding up anybody. */
export async function jsonRows(rows: readonly object[]): Promise<string> {
  const parts: string[] = [];
  let since = 0;
  for (const row of rows) {
    const text = JSON.stringify(row);
    parts.push(text);
    since += text.length;
    if (since < slice) continue;
    since = 0;
    await yieldToEventLoop();
  }
  return `[${parts.join(',')}]`;
}
