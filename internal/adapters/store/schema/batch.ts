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
  name?: string | undefined;
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
  /** Read by `pg`: after so many milliseconds it takes the connection for lost. */
  readonly query_timeout: number | undefined;
  /** Called by `pg`, which may put one of its own in its place, with how it ended. */
  callback: (error: Error | null) => void;
  readonly #queries: readonly Query[];
  readonly #results: pg.QueryResult[] = [];
  #answered = 0;
  /** Those whose messages have been written: what cannot be written ends the batch there. */
  #written = 0;
  #failure: Error | null = null;

  /** `answerMs`: within which each of them is to be answered. */
  constructor(statements: readonly pg.QueryConfig[], types: unknown, answerMs: number | undefined) {
    this.statements = statements;
    this.query_timeout = answerMs === undefined ? undefined : answerMs * statements.length;
    this.#queries = statements.map(({ text, values, name }) => {
      // Of a whole configuration it would make a copy, property by property.
      const query = new pg.Query(text, values) as unknown as Query;
      query.name = name;
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

  /** An error is one of a statement that was never sent, nor any of the others. */
  submit(connection: Connection): Error | undefined {
    const { stream, parsedStatements, submittedNamedStatements } = connection;
    const texts = new Map<string, string>();
    for (const { name, text } of this.#queries) {
      if (name === undefined) continue;
      const known = parsedStatements[name] ?? submittedNamedStatements[name] ?? texts.get(name);
      if (known !== undefined && known !== text) return new Error(`two statements have the name ${name}`);
      texts.set(name, text);
    }
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
      for (const query of this.#queries) {
        query.prepare(within);
        // Its values could not be written; it has closed its statement, and those behind it are not to run.
        if (this.#failure !== null) {
          forget(query.name, connection);
          break;
        }
        this.#written += 1;
      }
    } finally {
      connection.sync();
      stream.uncork();
    }
    return undefined;
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
    for (const query of this.#queries.slice(0, this.#written)) {
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

function forget(name: string | undefined, { parsedStatements, submittedNamedStatements }: Connection): void {
  if (name === undefined) return;
  delete parsedStatements[name];
  delete submittedNamedStatements[name];
}
