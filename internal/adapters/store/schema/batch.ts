// Several statements in one message to the server, and their answers: what a connection costs is its messages, not its
// statements. Where one fails the server leaves out those behind it, and all of them have failed.

import pg from 'pg';

/** What `pg` has of a connection, as far as it is needed here. */
interface Connection {
  readonly stream: { cork(): void; uncork(): void };
  readonly parsedStatements: { [name: string]: string };
  readonly submittedNamedStatements: { [name: string]: string };
  parse(statement: { readonly name?: string }): void;
  close(what: { readonly type: 'S'; readonly name: string }): void;
  sync(): void;
}

/** A query of `pg`, as far as it is needed here: it writes its own messages and reads its own answer. */
interface Query {
  callback: (error: Error | null, result?: pg.QueryResult) => void;
  readonly name?: string;
  readonly text: string;
  readonly _result: { _types: unknown };
  prepare(connection: Connection): void;
  handleRowDescription(message: unknown): void;
  handleDataRow(message: unknown): void;
  handleCommandComplete(message: unknown, connection: Connection): void;
  handleReadyForQuery(connection: Connection): void;
}

/** In the form that `pg` takes beside its own queries. */
export class Batch {
  readonly done: Promise<pg.QueryResult[]>;
  readonly statements: readonly pg.QueryConfig[];
  /** Called by `pg`, which may put one of its own in its place, with how it ended. */
  callback: (error: Error | null) => void;
  readonly #queries: readonly Query[];
  readonly #results: pg.QueryResult[] = [];
  #answered = 0;
  #failure: Error | null = null;

  constructor(statements: readonly pg.QueryConfig[], types: unknown) {
    this.statements = statements;
    this.#queries = statements.map((statement) => {
      const query = new pg.Query({ ...statement }) as unknown as Query;
      query._result._types = types;
      query.callback = (error, result) => {
        if (error !== null) this.#failure ??= error;
        else if (result !== undefined) this.#results.push(result);
      };
      return query;
    });
    const { promise, resolve, reject } = Promise.withResolvers<pg.QueryResult[]>();
    this.done = promise;
    this.callback = (error) => (error === null ? resolve(this.#results) : reject(error));
  }

  submit(connection: Connection): void {
    const { stream } = connection;
    // The queries write as they would alone, but for what ends a message.
    const within: Connection = Object.create(connection, {
      sync: { value: () => undefined },
      parse: {
        value: (statement: { readonly name?: string }) => {
          // An earlier message may have left the name before it failed.
          if (statement.name !== undefined && statement.name !== '') {
            connection.close({ type: 'S', name: statement.name });
          }
          connection.parse(statement);
        },
      },
    });
    stream.cork();
    try {
      for (const query of this.#queries) query.prepare(within);
    } finally {
      connection.sync();
      stream.uncork();
    }
  }

  handleRowDescription(message: unknown): void {
    this.#queries[this.#answered]?.handleRowDescription(message);
  }

  handleDataRow(message: unknown): void {
    this.#queries[this.#answered]?.handleDataRow(message);
  }

  handleCommandComplete(message: unknown, connection: Connection): void {
    this.#queries[this.#answered]?.handleCommandComplete(message, connection);
    this.#answered += 1;
  }

  handleEmptyQuery(): void {
    this.#answered += 1;
  }

  handleError(error: Error, connection: Connection): void {
    for (const { name } of this.#queries) if (name !== undefined) delete connection.submittedNamedStatements[name];
    this.callback(error);
  }

  handleReadyForQuery(connection: Connection): void {
    for (const query of this.#queries) {
      if (query.name !== undefined) {
        connection.parsedStatements[query.name] = query.text;
        delete connection.submittedNamedStatements[query.name];
      }
      query.handleReadyForQuery(connection);
    }
    this.callback(this.#failure);
  }

  handlePortalSuspended(): void {}
}
