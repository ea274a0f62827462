// The shapes of the command table and of one call: shared by the table, the parser, help, completion and handlers.

import type { CliIo } from './io.ts';
import type { Screen } from './screen.ts';

/** `flag` takes no value; `bool` is true unless written `--x=false` or `--no-x`; `list` may be repeated. */
export type OptionType = 'flag' | 'bool' | 'string' | 'list';

export interface OptionSpec {
  readonly name: string;
  readonly short?: string;
  readonly type: OptionType;
  /** Placeholder of the value in help, such as `FILE`. */
  readonly value?: string;
  readonly help: string;
  readonly choices?: readonly string[];
  /** What a shell should complete the value with. */
  readonly completes?: 'file' | 'directory';
  /** What is looked up on the server for a shell to complete the value with. */
  readonly values?: ValueKind;
}

/** Names that completion asks for: of resources, of kinds, of fields, of contexts. */
export type ValueKind =
  | 'agent'
  | 'repo'
  | 'endpoint'
  | 'secret'
  | 'connection'
  | 'project'
  | 'org'
  | 'account'
  | 'event'
  | 'session'
  | 'reconcile'
  | 'binding'
  | 'token'
  | 'kind'
  | 'name-of-kind'
  | 'field'
  | 'event-key'
  | 'context';

export interface ArgSpec {
  readonly name: string;
  readonly help: string;
  readonly optional?: true;
  /** Takes all that follow; only the last argument may. */
  readonly many?: true;
  readonly choices?: readonly string[];
  readonly completes?: 'file' | 'directory';
  readonly values?: ValueKind;
}

export interface CommandSpec {
  /** `['repo', 'add']`. */
  readonly words: readonly string[];
  readonly summary: string;
  readonly args: readonly ArgSpec[];
  readonly options: readonly OptionSpec[];
  /** Lines after the options in help. */
  readonly notes?: readonly string[];
  readonly load: () => Promise<Handler>;
}

/** Does the command and gives the exit code: 0 done, 1 refused or failed. UsageError is thrown (`UsageError`). */
export type Handler = (call: Call) => Promise<number>;

export interface ParsedValues {
  readonly strings: ReadonlyMap<string, string>;
  readonly lists: ReadonlyMap<string, readonly string[]>;
  readonly flags: ReadonlyMap<string, boolean>;
  /** Options of every command; kept apart, since a command may have one of its own of the same name. */
  readonly globals: ReadonlyMap<string, string>;
}

export interface Call {
  readonly command: CommandSpec;
  readonly io: CliIo;
  readonly screen: Screen;
  readonly json: boolean;
  /** What `svc get KIND NAME` asks of a list: the one thing of this name or id. */
  readonly only: string | undefined;
  /** The server that was spoken to: where reading an answer throws because its shape is another, it is named as the cause. */
  readonly spoken: { to?: string };
  /** A required argument. */
  arg(name: string): string;
  optionalArg(name: string): string | undefined;
  /** An argument that takes all that follow. */
  manyArgs(name: string): readonly string[];
  text(option: string): string | undefined;
  /** An option of every command, such as `url`. */
  global(option: string): string | undefined;
  list(option: string): readonly string[];
  /** False where not given. */
  flag(option: string): boolean;
  /** True unless switched off. */
  bool(option: string): boolean;
  /** Runs another command with these arguments, the same options and the same screen: `run('agent list', [])`; `only` is its own. */
  run(words: string, args: readonly string[], only?: string): Promise<number>;
}
