// Bodies that are too large for the statement which records their events: each goes to the server in pieces, so that no
// more of it is in memory than whoever brought it has. It is written first, since from the recording of an event to the
// commit the routing of its project waits.

import type { StoredBody } from './body-frames.ts';
import type { Sql, Tx } from '../store.ts';
import { dedupKey, findExisting, recordEvents, type RecordedEvent, type RecordOptions } from './events.ts';
import type { NewEvent } from './new-event.ts';

const columns = 'event_id, raw, payload';

/**
 * Records an event and those that follow from it, as `recordEvents` does: those only where the first was not there
 * already. Inside a transaction of the caller's.
 */
export async function recordWith(
  tx: Tx,
  first: NewEvent,
  following: readonly NewEvent[],
  options: RecordOptions,
): Promise<RecordedEvent> {
  if (first.large === undefined) {
    const [found] = (await recordEvents(tx, [first], options)) as [RecordedEvent];
    if (found.created && following.length > 0) await recordEvents(tx, following, options);
    return found;
  }
  const known = first.dedupHash && (await findExisting(tx, [first])).get(dedupKey(first.projectId, first.dedupHash));
  if (known) return { ...known, created: false };
  const all = [first, ...following];
  await tx.copyIn(`copy svc.event_bodies (${columns}) from stdin (format binary)`, copied(all));
  const [found] = (await recordEvents(tx, [first], { ...options, bare: true })) as [RecordedEvent];
  const made = [found];
  if (found.created && following.length > 0) {
    made.push(...(await recordEvents(tx, following, { ...options, bare: true })));
  }
  // Somebody recorded the same meanwhile: a body belongs to an event.
  const unused = all.filter((_event, at) => made[at]?.created !== true).map((event) => event.id);
  if (unused.length > 0) await tx.query('delete from svc.event_bodies where event_id = any($1::uuid[])', [unused]);
  return found;
}

/** Rows in the binary form of COPY. */
function* copied(events: readonly NewEvent[]): Generator<Uint8Array> {
  yield Buffer.concat([Buffer.from('PGCOPY\n\xff\r\n\0', 'latin1'), Buffer.alloc(8)]);
  for (const { id, large } of events) {
    if (large === undefined) throw new Error('an event without a large body among those with one');
    yield numbers(['int16', 3], ['int32', 16]);
    yield Buffer.from(id.replaceAll('-', ''), 'hex');
    yield numbers(['int32', large.raw.length]);
    yield large.raw;
    yield numbers(['int32', large.payload.reduce((sum, piece) => sum + piece.length, 0)]);
    yield* large.payload;
  }
  yield numbers(['int16', -1]);
}

function numbers(...given: readonly (readonly ['int16' | 'int32', number])[]): Buffer {
  return Buffer.concat(
    given.map(([kind, value]) => {
      const bytes = Buffer.alloc(kind === 'int16' ? 2 : 4);
      if (kind === 'int16') bytes.writeInt16BE(value);
      else bytes.writeInt32BE(value);
      return bytes;
    }),
  );
}

/** Bytes that are fetched at a time: on their way they take a few times as much. */
const sliceBytes = 2 * 1_048_576;

/** The stored bytes of one body, fetched in slices; nulls where it is not there. */
export async function readLargeBody(sql: Sql, eventId: string): Promise<Pick<StoredBody, 'raw' | 'payload'>> {
  const { rows } = await sql.query<{ raw: number | null; payload: number | null }>(
    'select octet_length(raw) as raw, octet_length(payload) as payload from svc.event_bodies where event_id = $1::uuid',
    [eventId],
  );
  const [sizes] = rows;
  const read = async (column: 'raw' | 'payload'): Promise<Buffer | null> => {
    const size = sizes?.[column];
    if (typeof size !== 'number') return null;
    const bytes = Buffer.allocUnsafeSlow(size);
    for (let at = 0; at < size; ) {
      const part = await sql.query<{ slice: Buffer }>(
        `select substring(${column} from $2::int for ${sliceBytes}) as slice from svc.event_bodies where event_id = $1::uuid`,
        [eventId, at + 1],
      );
      const slice = part.rows[0]?.slice;
      // Gone while it was read, by retention.
      if (slice === undefined || slice.length === 0) return null;
      at += slice.copy(bytes, at);
    }
    return bytes;
  };
  return { raw: await read('raw'), payload: await read('payload') };
}
