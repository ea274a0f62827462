// Every statement that this process sends, and what the server looks at for each of them: for the test that nothing costs
// more because much has happened before. Only tests import this.

import { randomUUID } from 'node:crypto';
import pg from 'pg';

export interface Sent {
  readonly text: string;
  readonly values: readonly unknown[];
  /** What the statement is called, where it is prepared. */
  readonly name: string | undefined;
}
export interface Recorder {
  /** By text: what it was sent with, the last few times. */
  readonly sent: ReadonlyMap<string, readonly Sent[]>;
  /** Whether one of that name, or with such a text, was sent. */
  has(which: string | RegExp): boolean;
  stop(): void;
}
/** A page of a list has another plan with each filter; all else has one whatever it is sent with. */
const keptPerText = (text: string): number =>
  /\b(insert|update|delete)\b/.test(text) || !/\blimit \$/.test(text) ? 3 : 64;

/** Every statement that any connection of this process sends from now on, the job runner's too. */
export function recordStatements(): Recorder {
  const sent = new Map<string, Sent[]>();
  const original = pg.Client.prototype.query as (...args: unknown[]) => unknown;
  const recording = function (this: unknown, ...args: unknown[]): unknown {
    const [first, second] = args;
    // Several may go in one message.
    const { statements } = (first ?? {}) as { statements?: readonly unknown[] };
    for (const one of statements ?? [first]) {
      const given = typeof one === 'string' ? { text: one } : (one as Partial<pg.QueryConfig> | null);
      if (typeof given?.text !== 'string') continue;
      const { text, name } = given;
      const values = given.values ?? (Array.isArray(second) ? second : []);
      const known = sent.get(text) ?? [];
      const isNew = !known.some((other) => JSON.stringify(other.values) === JSON.stringify(values));
      if (isNew) sent.set(text, [...known.slice(1 - keptPerText(text)), { text, values, name }]);
    }
    return original.apply(this, args);
  };
  pg.Client.prototype.query = recording as never;
  return {
    sent,
    has: (which) =>
      [...sent.values()].some(([one]) =>
        typeof which === 'string' ? one?.name === which : which.test(one?.text ?? ''),
      ),
    stop() {
      pg.Client.prototype.query = original as never;
    },
  };
}

export interface Explained {
  /** Pages that it and what it sets off looked at. */
  readonly buffers: number;
  readonly plan: string;
}

/** Explains all that was recorded, one after the other. */
export async function explainAll(url: string, recorder: Recorder): Promise<Map<Sent, Explained>> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const found = new Map<Sent, Explained>();
  try {
    for (const sent of [...recorder.sent.values()].flat()) {
      const one = await explained(client, sent).catch((error: unknown) => {
        throw new Error(`${sent.text}: ${(error as Error).message}`, { cause: error });
      });
      if (one !== undefined) found.set(sent, one);
    }
  } finally {
    await client.end();
  }
  return found;
}

/** Runs a statement under `explain (analyze, buffers)` and takes it back; undefined for what has no plan. */
async function explained(client: pg.Client, sent: Sent): Promise<Explained | undefined> {
  const { text } = sent;
  if (!/^\s*(select|with|insert|update|delete|merge)\b/i.test(text)) return undefined;
  for (let { values } = sent, tries = 0; ; tries += 1) {
    try {
      return await explainedAs(client, text, values);
    } catch (error) {
      const { code, detail = '' } = error as { code?: string; detail?: string };
      const [, taken] = /^Key \(id\)=\(([0-9a-f-]{36})\)/.exec(detail) ?? [];
      if (code !== '23505' || taken === undefined || tries > 3) throw error;
      // The row that it made is there: it makes another one.
      const fresh = randomUUID();
      values = values.map((value) => (typeof value === 'string' ? value.replaceAll(taken, fresh) : value));
    }
  }
}

async function explainedAs(client: pg.Client, text: string, values: readonly unknown[]): Promise<Explained> {
  // As the transaction that lets entries of the audit go.
  await client.query(`begin; select set_config('svc.audit_prune_before', now()::text, true)`);
  const setsOff = /\b(insert|update|delete|merge)\b|\bsvc\.\w+\(/i.test(text);
  try {
    const before = setsOff ? await touched(client) : 0;
    const { rows } = await client.query<{ 'QUERY PLAN': [{ Plan: object }] }>({
      text: `explain (analyze, buffers, format json) ${text}`,
      values: [...values],
    });
    const plan = rows[0]?.['QUERY PLAN'][0].Plan as { 'Shared Hit Blocks': number; 'Shared Read Blocks': number };
    const own = plan['Shared Hit Blocks'] + plan['Shared Read Blocks'];
    const all = setsOff ? (await touched(client)) - before : own;
    return { buffers: Math.max(own, all), plan: JSON.stringify(plan, null, 1) };
  } finally {
    await client.query('rollback');
  }
}

/** Pages of our tables, and of their indexes, that the transaction has looked at so far: triggers and functions as well. */
async function touched(client: pg.Client): Promise<number> {
  const { rows } = await client.query<{ blocks: string }>(
    `select coalesce(sum(pg_stat_get_xact_blocks_fetched(c.oid)), 0) as blocks from pg_class c
       join pg_namespace s on s.oid = c.relnamespace where s.nspname in ('svc', 'pg_toast', 'graphile_worker')`,
  );
  return Number(rows[0]?.blocks);
}
