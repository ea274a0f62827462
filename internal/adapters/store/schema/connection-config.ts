// What connections to the database have in common: types of values, time limits, and how they are kept alive.

import pg from 'pg';
import { parseJson } from '../../../domain/json-text.ts';

/** The server ends a statement that takes longer than the one, and a transaction in which nothing is asked for as long as the other. */
export const statementMsDefault = 30_000;
export const idleInTransactionMs = 60_000;

const types = new pg.TypeOverrides();
types.setTypeParser(pg.types.builtins.INT8, (text: string) => Number(text));
for (const type of [pg.types.builtins.JSON, pg.types.builtins.JSONB]) types.setTypeParser(type, parseJson);

/** A server that has not ended a late statement by itself after this is silent: its connection counts as lost. */
export const silenceMs = 5_000;

/**
 * Settings that connections to the database share, also those that the job runner opens. A pooler takes none that would
 * have to stay on a connection: there each transaction brings its time limits along.
 */
export function connectionConfig(options: {
  /** Credentials included. */
  readonly url: string;
  readonly statementTimeoutMs?: number | undefined;
  readonly pooled?: boolean;
  readonly applicationName?: string | undefined;
}): pg.PoolConfig {
  const statementMs = options.statementTimeoutMs ?? statementMsDefault;
  return {
    connectionString: options.url,
    types,
    connectionTimeoutMillis: 5_000,
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    application_name: options.applicationName ?? 'svcd',
    query_timeout: statementMs + silenceMs,
    ...(options.pooled !== true && {
      statement_timeout: statementMs,
      idle_in_transaction_session_timeout: idleInTransactionMs,
    }),
  };
}
