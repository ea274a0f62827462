// What the rest of the program may do with a connection, in a transaction or outside of one.

/** What is sent to the server; `name` as in `Sql`. */
export interface Statement {
  readonly text: string;
  readonly values?: readonly unknown[] | undefined;
  readonly name?: string | undefined;
}

export interface Sql {
  /**
   * Runs one statement. Outside a transaction, one that PostgreSQL has rolled back and that may be repeated runs again.
   * `bigint` columns arrive as numbers, `timestamptz` as Date, `bytea` as Buffer. `name` has each connection parse and plan
   * the statement once: for the few that run thousands of times a second.
   */
  query<R = Record<string, unknown>>(
    text: string,
    values?: readonly unknown[],
    name?: string,
  ): Promise<{ readonly rows: R[]; readonly rowCount: number }>;
}
