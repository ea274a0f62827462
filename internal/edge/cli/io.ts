// The process of a command line, as its commands see it.

/** What the command line takes from its process, so that tests and `cmd/svc` decide it. */
export interface CliIo {
  readonly stdin: NodeJS.ReadStream;
  readonly stdout: NodeJS.WriteStream;
  readonly stderr: NodeJS.WriteStream;
  readonly env: { readonly [name: string]: string | undefined };
  readonly cwd: string;
  readonly home: string;
  readonly now: () => Date;
  /** Aborted by SIGINT and SIGTERM, so that a stream ends with what it has. */
  readonly signal: AbortSignal;
}
