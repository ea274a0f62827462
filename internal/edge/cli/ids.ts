// An id as people give it: whole, or a piece from its beginning or its end that only one thing has. Ids begin with the
// time they were made at, so that those of one minute begin alike and end apart.

import type { Answers, Operation, Schema } from '../../../schemas/api/operation.ts';
import type { Client, Input } from './client.ts';
import { refusal } from './failure.ts';

const piecePattern = /^[0-9a-f][0-9a-f-]{2,34}$/i;
/** A shorter piece is never taken, also where one thing alone has it now: it may be a slip of the keyboard. */
const shortest = 4;
/** Things that are looked through for a piece, newest first. */
const lookedAt = 400;

/** The whole id where `given` is a piece of one in the list; `given` itself where it is no piece or nothing has it. */
export async function wholeId<P extends string, Q extends Schema | undefined, A extends Answers>(
  client: Client,
  list: { readonly operation: Operation<P, Q, undefined, A>; readonly input?: Input<P, Q, undefined> },
  given: string,
): Promise<string> {
  if (!piecePattern.test(given)) return given;
  const piece = given.toLowerCase();
  const { items } = await client.list(list.operation, list.input, lookedAt);
  const ids = items.map((item) => String((item as { readonly id: unknown }).id));
  const found = ids.filter((id) => id.startsWith(piece) || id.endsWith(piece));
  if (found.length === 0 || (found.length === 1 && piece.length >= shortest)) return found[0] ?? given;
  const some = found.slice(0, 5).join(', ');
  if (found.length === 1) throw refusal('ambiguous-id', `${given} is too short a piece of an id: ${some}`);
  throw refusal('ambiguous-id', `${given} is a piece of ${found.length} ids: ${some}${found.length > 5 ? ', …' : ''}`);
}
