// What a command reads besides its arguments: files, stdin, and secrets typed without an echo.

import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import type { Interface } from 'node:readline/promises';
import { UsageError, refusal } from './failure.ts';
import type { Call } from './types.ts';

const bytesMax = 16 * 1024 * 1024;

/** Text of a file, or of stdin for `-`. */
export async function readText(call: Call, path: string, option: string): Promise<string> {
  if (path === '-') return readStdin(call);
  let bytes: Buffer;
  try {
    bytes = await readFile(resolve(call.io.cwd, path));
  } catch (error) {
    throw new UsageError(`${option}: ${path} cannot be read (${(error as NodeJS.ErrnoException).code})`);
  }
  return textOf(bytes, `${option}: ${path}`);
}

/** Throws UsageError where the bytes are no text: with others in their place they would be another value. */
function textOf(bytes: Uint8Array, what: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new UsageError(`${what} is not text in UTF-8`, 'write bytes that are no text in base64');
  }
}

async function readStdin({ io: { stdin, signal } }: Call): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  // At a terminal it ends when somebody says so: Ctrl-C says so too.
  const stop = (): void => void stdin.destroy(refusal('interrupted', 'interrupted'));
  signal.addEventListener('abort', stop, { once: true });
  if (signal.aborted) stop();
  try {
    for await (const chunk of stdin) {
      const bytes = Buffer.from(chunk as Buffer);
      size += bytes.length;
      if (size > bytesMax) throw refusal('too-large', 'stdin holds more than 16 MiB');
      chunks.push(bytes);
    }
  } finally {
    signal.removeEventListener('abort', stop);
  }
  return textOf(Buffer.concat(chunks), 'stdin');
}

/** JSON of a file or stdin. The parser's message is not passed on, since it quotes the text. */
export async function readJson(
  call: Call,
  path: string,
  option: string,
  parse: (text: string) => unknown = JSON.parse,
): Promise<unknown> {
  const text = await readText(call, path, option);
  try {
    return parse(text.replace(/^\ufeff/, ''));
  } catch {
    throw new UsageError(`${option}: ${path === '-' ? 'stdin' : path} is not JSON`);
  }
}

/**
 * A secret value: from `--from-file` (a file, or `-` for stdin), else typed at a terminal without an echo. One newline
 * at the end is dropped from a prompt and from a pipe, never from a file. An argument never holds one.
 */
export async function readSecret(call: Call, prompt: string, option = 'from-file'): Promise<string> {
  const path = call.text(option);
  const { stdin } = call.io;
  let value: string;
  if (path !== undefined && path !== '-') value = await readText(call, path, `--${option}`);
  else if (path === undefined && stdin.isTTY === true) value = await typed(call, prompt);
  else value = await pipedSecret(call, path, option);
  if (value === '') throw new UsageError('the value is empty');
  return value;
}

async function pipedSecret(call: Call, path: string | undefined, option: string): Promise<string> {
  if (path === undefined) {
    throw new UsageError(
      'there is no terminal to ask for the value',
      `give --${option} FILE, or --${option} - for stdin`,
    );
  }
  return (await readStdin(call)).replace(/\r?\n$/, '');
}

function typed(call: Call, prompt: string): Promise<string> {
  const { stdin, stderr, signal } = call.io;
  // Before the prompt, so that not even a fast typist's first key is echoed.
  stdin.setRawMode(true);
  stdin.setEncoding('utf8');
  stdin.resume();
  stderr.write(`${prompt}: `);
  return new Promise((resolvePromise, reject) => {
    let value = '';
    const finish = (error?: Error): void => {
      stdin.setRawMode(false);
      stdin.pause();
      stdin.off('data', onData);
      signal.removeEventListener('abort', onAbort);
      stderr.write('\n');
      if (error === undefined) resolvePromise(value);
      else reject(error);
    };
    const onAbort = (): void => finish(refusal('interrupted', 'interrupted'));
    const onData = (text: string): void => {
      for (const character of text) {
        if (character === '\r' || character === '\n' || character === '\u0004') return finish();
        if (character === '\u0003') return finish(refusal('interrupted', 'interrupted'));
        if (character === '\u007f' || character === '\b') value = [...value].slice(0, -1).join('');
        else if (character === '\u0015') value = '';
        else value += character;
      }
    };
    signal.addEventListener('abort', onAbort, { once: true });
    stdin.on('data', onData);
  });
}

/** A line that is typed; undefined where Ctrl-C, Ctrl-D or a signal ended the question. */
export async function typedLine({ io }: Call, terminal: Interface, question: string): Promise<string | undefined> {
  try {
    return await terminal.question(question, { signal: io.signal });
  } catch (error) {
    if ((error as Error).name !== 'AbortError') throw error;
    // What is said next begins a line of its own.
    io.stderr.write('\n');
    return undefined;
  }
}

/** Asks for a whole number of an option. */
export function wholeNumber(call: Call, option: string, min: number, max: number): number | undefined {
  const text = call.text(option);
  if (text === undefined) return undefined;
  const value = Number(text);
  if (!/^\d+$/.test(text) || value < min || value > max) {
    throw new UsageError(`--${option} takes a whole number from ${min} to ${max}`);
  }
  return value;
}
