// A restore that has begun and not ended: a database in which nothing is yet, or the schema without its rows, and which is to be
// filled by the restore that is begun again. Noted in the database itself, as the comment of its schema, and taken away in the
// transaction that fills it; of an embedded one also by a file in the data directory, from before there is a database.

import type { Client } from 'pg';
import { Fault } from '../../../domain/fault.ts';

/** Lies in a data directory whose embedded database a restore has begun and not ended; it says nothing of what is in that. */
export const unfinishedFile = 'restore.unfinished';

const comment = 'svc restore has begun here and not ended';

type Asked = Pick<Client, 'query'>;

/** Notes that a restore has begun, in a database that may be empty. */
export async function noteUnfinished(client: Asked): Promise<void> {
  await client.query(`create schema if not exists svc; comment on schema svc is '${comment}'`);
}

/** Takes the note away: the restore has filled the database. */
export async function noteFinished(client: Asked): Promise<void> {
  await client.query('comment on schema svc is null');
}

/** Whether it is noted in the database itself, and holds no organization. */
export async function isUnfinished(client: Asked): Promise<boolean> {
  const { noted, used } = await look(client);
  return noted && !used;
}

async function look(client: Asked): Promise<{ readonly noted: boolean; readonly used: boolean }> {
  const { rows } = await client.query<{ noted: boolean | null; made: boolean }>(
    `select obj_description(to_regnamespace('svc')::oid, 'pg_namespace') = $1::text as noted,
            to_regclass('svc.orgs') is not null as made`,
    [comment],
  );
  const [found] = rows;
  const used = found?.made === true && (await client.query('select from svc.orgs limit 1')).rowCount === 1;
  return { noted: found?.noted === true, used };
}

/** Throws Fault `restore-unfinished`, before anything is made there; `hasFile`: the data directory has that file. */
export async function refuseUnfinished(client: Asked, hasFile: boolean): Promise<void> {
  const { noted, used } = await look(client);
  // One that was killed behind its last row has left nothing to do.
  if ((!noted && !hasFile) || used) return;
  const anew = hasFile ? 'give svcd another data directory' : 'begin anew in it behind `drop schema svc cascade`';
  throw new Fault(
    'unavailable',
    'restore-unfinished',
    `A restore into this database has begun and not ended: run the same svc restore again, or ${anew}.`,
  );
}
