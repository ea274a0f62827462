// An id as people give it: whole, or a piece from its beginning or its end that only one thing has. Ids begin with the
// time they were made at, so that those of one minute begin alike and end apart.

import type { Client } from './client.ts';
import { refusal } from './failure.ts';
import { rowOf } from './lists.ts';

const PIECE = /^[0-9a-f][0-9a-f-]{5,34}$/i;
/** Things that are looked through for a piece, newest first. */
const LOOKED_AT = 400;

/** The whole id where `given` is a piece of one in the list; `given` itself where it is no piece or nothing has it. */
export async function wholeId(
  client: Client,
  list: { readonly path: string; readonly query?: { readonly [name: string]: string | boolean } },
  given: string,
): Promise<string> {
  if (!PIECE.test(given)) return given;
  const piece = given.toLowerCase();
  const { items } = await client.list(client.project(list.path), list.query, LOOKED_AT);
  const ids = items.map((item) => rowOf(item).text('id'));
  const found = ids.filter((id) => id.startsWith(piece) || id.endsWith(piece));
  if (found.length < 2) return found[0] ?? given;
  const some = found.slice(0, 5).join(', ');
  throw refusal('ambiguous-id', `${given} is a piece of ${found.length} ids: ${some}${found.length > 5 ? ', …' : ''}`);
}
