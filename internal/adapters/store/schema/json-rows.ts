// Rows on their way to the database: their JSON is made a slice at a time, since a fleet of agents is tens of megabytes.

import { yieldToEventLoop } from '../../../base/yielding.ts';

/** Characters between two turns of the event loop: a few milliseconds. */
const slice = 1024 * 1024;
/**
 * Characters of a statement's rows. What makes a message of them, here and in the driver, does so in one go: eight times as
 * much holds up everybody for as long as a person notices, and is in memory several times over.
 */
const statement = 4 * slice;

/** `JSON.stringify(rows)`, without holding up anybody, for what has to be one value. */
export async function jsonRows(rows: readonly object[]): Promise<string> {
  let whole = '[]';
  for await (const part of jsonParts(rows, Infinity)) whole = part;
  return whole;
}

/** The rows of as many statements as it takes: JSON arrays, each of some megabytes or of one row. */
export const jsonSlices = (rows: readonly object[]): AsyncGenerator<string> => jsonParts(rows, statement);

async function* jsonParts(rows: readonly object[], most: number): AsyncGenerator<string> {
  let parts: string[] = [];
  let since = 0;
  let length = 0;
  for (const row of rows) {
    const text = JSON.stringify(row);
    if (parts.length > 0 && length + text.length > most) {
      yield `[${parts.join(',')}]`;
      parts = [];
      length = 0;
    }
    parts.push(text);
    length += text.length;
    since += text.length;
    if (since < slice) continue;
    since = 0;
    await yieldToEventLoop();
  }
  if (parts.length > 0) yield `[${parts.join(',')}]`;
}
