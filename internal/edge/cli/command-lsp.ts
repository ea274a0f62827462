// `svc lsp`: the Language Server Protocol over stdio, from the compiler that the daemon runs. Diagnostics of the whole tree as
// it is typed, completion, hover and the way to an import. Nothing but the protocol goes to stdout.

import { existsSync, realpathSync } from 'node:fs';
import { dirname, join, relative, resolve, sep } from 'node:path';
import { readdir } from 'node:fs/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';
import {
  type CompletionItem,
  CompletionItemKind,
  type Connection,
  createConnection,
  type Definition,
  type Diagnostic as Shown,
  DiagnosticSeverity,
  type Hover,
  type Position,
  type Range,
  TextDocumentSyncKind,
} from 'vscode-languageserver/node';
import type { Diagnostic } from '../../domain/diagnostic.ts';
import { compileDirectory, type CompiledTree, type CompileEnvironment, outputOf, surroundingsOf } from './tree.ts';
import { placeAt } from './lsp-place.ts';
import { hoverOf, type Word, wordsAt } from './lsp-words.ts';
import { ownVersion } from './command-version.ts';
import type { Handler } from './types.ts';

/** So long nobody types before the tree is compiled. */
const quietMs = 120;
const templates = join(import.meta.dirname, '../../../templates');

const kinds: { readonly [kind in Word['kind']]: CompletionItemKind } = {
  key: CompletionItemKind.Property,
  value: CompletionItemKind.EnumMember,
  event: CompletionItemKind.Event,
  path: CompletionItemKind.Field,
  file: CompletionItemKind.File,
};

/** A document as the editor has it: its own name of the file, which may lead there through a link, and the text. */
interface Open {
  readonly uri: string;
  readonly text: string;
}

/** The documents that are open, and the trees that they lie in. */
class Workspace {
  readonly #connection: Connection;
  readonly #surroundings: CompileEnvironment;
  readonly #now: () => Date;
  /** By the path at which the file lies. */
  readonly #open = new Map<string, Open>();
  /** Names of each tree's files that something was told of, to be told when it is right again. */
  readonly #told = new Map<string, ReadonlySet<string>>();
  readonly #waiting = new Map<string, NodeJS.Timeout>();
  /** Trees that are being compiled; true: and anew when that is done. */
  readonly #compiling = new Map<string, boolean>();

  constructor(connection: Connection, surroundings: CompileEnvironment, now: () => Date) {
    this.#now = now;
    this.#connection = connection;
    this.#surroundings = surroundings;
  }

  textOf(uri: string): string | undefined {
    const file = pathOf(uri);
    return file === undefined ? undefined : this.#open.get(file)?.text;
  }

  set(uri: string, text: string | undefined): void {
    const file = pathOf(uri);
    if (file === undefined) return;
    if (text === undefined) this.#open.delete(file);
    else this.#open.set(file, { uri, text });
    const root = rootOf(file);
    if (root === undefined) return;
    clearTimeout(this.#waiting.get(root));
    this.#waiting.set(
      root,
      setTimeout(() => {
        this.#waiting.delete(root);
        void this.#checkInTurn(root);
      }, quietMs),
    );
  }

  stop(): void {
    for (const timer of this.#waiting.values()) clearTimeout(timer);
    this.#waiting.clear();
  }

  /** One compile of a tree at a time: the answer to an older text may take longer, and would be the last that is told. */
  async #checkInTurn(root: string): Promise<void> {
    if (this.#compiling.has(root)) {
      this.#compiling.set(root, true);
      return;
    }
    do {
      this.#compiling.set(root, false);
      await this.#check(root).catch((error: unknown) => this.#connection.console.error(String(error)));
    } while (this.#compiling.get(root) === true);
    this.#compiling.delete(root);
  }

  async #check(root: string): Promise<void> {
    const texts = new Map([...this.#open].map(([file, { text }]) => [file, text]));
    const { diagnostics } = await outputOf(compileOpen(root, texts, this.#surroundings, this.#now));
    const byUri = Map.groupBy(diagnostics, ({ file }) => this.#uriOf(join(root, file ?? '.svc')));
    const before = this.#told.get(root) ?? [];
    this.#told.set(root, new Set(byUri.keys()));
    // Other trees' files are told of with their own.
    const open = [...this.#open].flatMap(([file, { uri }]) => (rootOf(file) === root ? [uri] : []));
    for (const uri of new Set([...before, ...byUri.keys(), ...open])) {
      const told = (byUri.get(uri) ?? []).map((one) => shown(one, (file) => this.#uriOf(join(root, file))));
      await this.#connection.sendDiagnostics({ uri, diagnostics: told });
    }
  }

  #uriOf(path: string): string {
    return this.#open.get(path)?.uri ?? uriOf(path);
  }
}

/** Undefined for what lies on no disk, such as a document without a name yet or an older version that is looked at. */
function pathOf(uri: string): string | undefined {
  let path: string;
  try {
    path = fileURLToPath(uri);
  } catch {
    return undefined;
  }
  try {
    // An editor may name a file through a link; the tree is read by where it lies.
    return join(realpathSync(dirname(path)), path.slice(dirname(path).length));
  } catch {
    return path;
  }
}
const uriOf = (path: string): string => pathToFileURL(path).href;

/** From lines and columns that count from 1. */
function rangeOf(one: { line?: number; column?: number; endLine?: number; endColumn?: number }): Range {
  const line = Math.max(0, (one.line ?? 1) - 1);
  const character = Math.max(0, (one.column ?? 1) - 1);
  return {
    start: { line, character },
    end: {
      line: one.endLine === undefined ? line : one.endLine - 1,
      character: one.endColumn === undefined ? character + 1 : one.endColumn - 1,
    },
  };
}

function shown(one: Diagnostic, uriOfFile: (file: string) => string): Shown {
  return {
    range: rangeOf(one),
    severity: one.severity === 'error' ? DiagnosticSeverity.Error : DiagnosticSeverity.Warning,
    code: one.code,
    source: 'svc',
    message: one.hint === undefined ? one.message : `${one.message}\n${one.hint}`,
    ...(one.related !== undefined && {
      relatedInformation: one.related.map(({ message, file, line, column }) => ({
        message,
        location: { uri: uriOfFile(file), range: rangeOf({ line, column }) },
      })),
    }),
  };
}

/** Fragments of the tree, as a file imports them. */
async function fragmentsFor(uri: string): Promise<string[]> {
  const file = pathOf(uri);
  const root = file === undefined ? undefined : rootOf(file);
  if (file === undefined || root === undefined) return [];
  const directory = join(root, '.svc/fragments');
  const found = await readdir(directory, { recursive: true }).catch(() => []);
  return found
    .filter((name) => /\.(?:ya?ml|json)$/.test(name))
    .map((name) => relative(dirname(file), join(directory, name)).split(sep).join('/'))
    .filter((name) => name !== '')
    .map((name) => (name.startsWith('.') ? name : `./${name}`))
    .sort();
}

function completionOf(word: Word, position: Position, typed: string): CompletionItem {
  const start = { line: position.line, character: position.character - typed.length };
  return {
    label: word.label,
    kind: kinds[word.kind],
    ...(word.detail !== undefined && { detail: word.detail }),
    ...(word.documentation !== undefined && { documentation: word.documentation }),
    // No filterText: it would be the label, and Neovim replaces what was typed only of items without one.
    textEdit: { range: { start, end: position }, newText: word.insert ?? word.label },
  };
}

function hoverAt(text: string, { line, character }: Position): Hover | null {
  const whole = text.split(/\r?\n/)[line] ?? '';
  // The key on this line that the cursor is in or behind.
  const keys = [...whole.matchAll(/([\w$.-]+)\s*:(?=\s|$)/g)].filter(({ index }) => index <= character);
  const key = keys.at(-1);
  if (key === undefined) return null;
  const at = placeAt(text, line, key.index);
  const contents = hoverOf([...at.path, key[1] ?? '']);
  if (contents === undefined) return null;
  const start = { line, character: key.index };
  return {
    contents: { kind: 'markdown', value: contents },
    range: { start, end: { line, character: key.index + (key[1] ?? '').length } },
  };
}

/** The file that an import or `file:` on this line names. */
function definitionAt(uri: string, text: string, { line, character }: Position): Definition | null {
  const at = placeAt(text, line, (text.split(/\r?\n/)[line] ?? '').length);
  const inImports = [...at.path, at.key].some((key) => key === 'imports' || key === 'import' || key === 'file');
  if (!inImports) return null;
  const whole = text.split(/\r?\n/)[line] ?? '';
  const words = [...whole.matchAll(/[^\s'",[\]{}]+/g)].filter(
    ({ 0: word, index }) => index <= character && character <= index + word.length,
  );
  const name = words.at(-1)?.[0];
  const file = pathOf(uri);
  if (file === undefined || name === undefined || name.endsWith(':')) return null;
  const template = /^@svc\/templates(?:@[^/]*)?\/(.+)$/.exec(name)?.[1];
  const target = template === undefined ? resolve(dirname(file), name) : join(templates, template);
  if (name.startsWith('@') && template === undefined) return null;
  return { uri: uriOf(target), range: { start: { line: 0, character: 0 }, end: { line: 0, character: 0 } } };
}

export const lspCommand: Handler = async (call) => {
  const surroundings = await surroundingsOf(call);
  const version = await ownVersion();
  const connection = createConnection(call.io.stdin, call.io.stdout);
  const workspace = new Workspace(connection, surroundings, call.io.now);
  connection.onInitialize(() => ({
    serverInfo: { name: 'svc', version },
    capabilities: {
      textDocumentSync: { openClose: true, change: TextDocumentSyncKind.Full, save: true },
      completionProvider: { triggerCharacters: [':', ' ', '.', '{', '$', '-'] },
      hoverProvider: true,
      definitionProvider: true,
    },
  }));
  connection.onDidOpenTextDocument(({ textDocument: { uri, text } }) => workspace.set(uri, text));
  connection.onDidChangeTextDocument(({ textDocument: { uri }, contentChanges }) => {
    const last = contentChanges.at(-1);
    if (last !== undefined) workspace.set(uri, last.text);
  });
  connection.onDidSaveTextDocument(({ textDocument: { uri } }) => workspace.set(uri, workspace.textOf(uri)));
  connection.onDidCloseTextDocument(({ textDocument: { uri } }) => workspace.set(uri, undefined));
  connection.onCompletion(async ({ textDocument: { uri }, position }) => {
    const text = workspace.textOf(uri);
    if (text === undefined) return [];
    const at = placeAt(text, position.line, position.character);
    const typed = at.token ?? at.typed;
    return wordsAt(at, text, await fragmentsFor(uri)).map((word) => completionOf(word, position, typed));
  });
  connection.onHover(({ textDocument: { uri }, position }) => {
    const text = workspace.textOf(uri);
    return text === undefined ? null : hoverAt(text, position);
  });
  connection.onDefinition(({ textDocument: { uri }, position }) => {
    const text = workspace.textOf(uri);
    return text === undefined ? null : definitionAt(uri, text, position);
  });
  const { promise: ended, resolve: end } = Promise.withResolvers<void>();
  connection.onShutdown(() => workspace.stop());
  connection.onExit(() => end());
  call.io.stdin.once('end', () => end());
  call.io.signal.addEventListener('abort', () => end(), { once: true });
  connection.listen();
  await ended;
  workspace.stop();
  connection.dispose();
  return 0;
};

// The tree of the documents that an editor has open: found from a file upward, read from disk, with what is open in the
// editor in place of what lies there, and compiled by the same compile as everywhere.

/** The directory that holds the `.svc/` in which a file lies; undefined for a file outside of one. */
export function rootOf(file: string): string | undefined {
  const parts = file.split(sep);
  const at = parts.lastIndexOf('.svc');
  if (at > 0) return parts.slice(0, at).join(sep) || sep;
  for (let directory = dirname(file); directory !== dirname(directory); directory = dirname(directory))
    if (existsSync(join(directory, '.svc'))) return directory;
  return undefined;
}

/** Compiles with the texts of open documents, by their paths on disk. */
export function compileOpen(
  root: string,
  open: ReadonlyMap<string, string>,
  surroundings: CompileEnvironment,
  now: () => Date,
): Promise<CompiledTree> {
  const overlay = new Map<string, Uint8Array>();
  for (const [file, text] of open) {
    const path = relative(root, file).split(sep).join('/');
    if (!path.startsWith('../')) overlay.set(path, Buffer.from(text));
  }
  return compileDirectory({ path: root, context: {}, surroundings, now, overlay });
}
