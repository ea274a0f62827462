// A server whose disk is full still reads, and writes what needs no new page: that it took no write is remembered, and asked
// of again until it takes one, so that whoever is told that the daemon takes work is told the truth.

import type { Sql } from './sql.ts';

/** What is asked of a database. */
interface Asked {
  readonly root: object;
  tx<T>(fn: (tx: Sql) => Promise<T>): Promise<T>;
}

/** By the root of a database: why it took no write, in the server's words, which name a file of it and nothing else. */
const lacking = new WeakMap<object, string>();

/** Notes where an error says that the server has no room on its disk; answers with the error. */
export function notedRoom(root: object, error: unknown): unknown {
  const { code, message } = (error ?? {}) as { readonly code?: unknown; readonly message?: unknown };
  // The first file stands for all: each that is named would be another reason.
  if (code === '53100' && !lacking.has(root)) lacking.set(root, String(message));
  return error;
}

/** What takes new pages of the disk that holds the rest, by the rights of who migrates, and leaves none behind. */
const taking = [
  `create unlogged table svc.room as select repeat('x', 1000) from generate_series(1, 400)`,
  'drop table svc.room',
] as const;

/** Why the database takes no writes, where it has no room; undefined where it has, or where it was never told otherwise. */
export async function lackOfRoom(db: Asked): Promise<string | undefined> {
  if (!lacking.has(db.root)) return undefined;
  const isTaken = await db
    .tx(async (tx) => {
      for (const statement of taking) await tx.query(statement);
    })
    .then(() => true)
    .catch(() => false);
  if (isTaken) lacking.delete(db.root);
  return lacking.get(db.root);
}
