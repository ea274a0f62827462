// The processes of a demo: svcd, and svc commands that speak to it as any user's would.

import { type ChildProcess, spawn } from 'node:child_process';
import { mkdir, open, readFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';

const main = (program: 'svc' | 'svcd'): string => join(import.meta.dirname, '..', program, 'main.mjs');

/** Something that a person can do something about; shown without a stack. */
export class DemoError extends Error {
  override readonly name = 'DemoError';
}

/** Children that end with the demo, whatever happens. */
export const children = new Set<ChildProcess>();

export interface Daemon {
  readonly url: string;
  readonly logFile: string;
  /** Resolves with a description of the end. */
  readonly exited: Promise<string>;
  logTail(): Promise<string>;
  stop(): Promise<void>;
}

/** The configured address, or a free port beside it where somebody else listens there. */
export async function freeListen(listen: {
  readonly host: string;
  readonly port: number;
}): Promise<{ readonly address: string; readonly note?: string }> {
  const host = listen.host.includes(':') ? `[${listen.host}]` : listen.host;
  const address = `${host}:${listen.port}`;
  if (listen.port === 0 || (await isFree(listen.host, listen.port))) return { address };
  return { address: `${host}:0`, note: `${address} is taken by another program; svcd gets a free port instead` };
}

function isFree(host: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen(port, host, () => server.close(() => resolve(true)));
  });
}

/** Starts svcd and waits until it is ready. Undefined when the demo was stopped before that. */
export async function startSvcd(
  dataDir: string,
  listen: string,
  environment: { readonly [name: string]: string },
  stopping: Promise<void>,
): Promise<Daemon | undefined> {
  await mkdir(dataDir, { recursive: true, mode: 0o700 });
  const logFile = join(dataDir, 'svcd.log');
  const log = await open(logFile, 'w', 0o600);
  const child = spawn(process.execPath, [main('svcd'), '--data-dir', dataDir, '--listen', listen], {
    // The demo's git server is on loopback.
    env: { ...process.env, SVC_ALLOW_PRIVATE_NETWORK: 'true', ...environment },
    stdio: ['ignore', 'pipe', log.fd],
  });
  await log.close();
  const logTail = async (): Promise<string> =>
    (await readFile(logFile, 'utf8')).trimEnd().split('\n').slice(-12).join('\n');
  const exited = new Promise<string>((resolve) => {
    child.once('error', (error) => resolve(error.message));
    child.once('exit', (code, signal) => resolve(signal ?? `exit code ${code}`));
  });
  const stop = async (): Promise<void> => {
    if (child.exitCode === null && child.signalCode === null) child.kill('SIGTERM');
    await exited;
  };
  const ready = readyUrl(child);
  const first = await Promise.race([ready, exited.then((end) => ({ end })), stopping.then(() => 'stopped' as const)]);
  if (first === 'stopped') {
    await stop();
    return undefined;
  }
  if ('end' in first) throw new DemoError(`svcd did not start (${first.end}):\n${await logTail()}`);
  return { url: first.url, logFile, exited, logTail, stop };
}

function readyUrl(child: ChildProcess): Promise<{ readonly url: string }> {
  return new Promise((resolve) => {
    let text = '';
    child.stdout?.setEncoding('utf8').on('data', (chunk: string) => {
      text += chunk;
      const line = /^\{.*"event":"ready".*\}$/m.exec(text)?.[0];
      if (line !== undefined) resolve(JSON.parse(line) as { url: string });
    });
  });
}

// The demo's own server, whatever the user's environment points at.
function clientEnvironment(dataDir: string): NodeJS.ProcessEnv {
  const { SVC_URL: _url, SVC_TOKEN: _token, SVC_ORG: _org, SVC_PROJECT: _project, ...env } = process.env;
  return { ...env, SVC_DATA_DIR: dataDir };
}

/** Shows a svc command and runs it; resolves with its exit code. */
export function svc(dataDir: string, args: readonly string[]): Promise<number> {
  process.stdout.write(`$ svc ${args.join(' ')}\n`);
  return new Promise((resolve, reject) => {
    const child = runSvc(dataDir, args);
    child.once('error', reject);
    child.once('exit', (code) => resolve(code ?? 1));
  });
}

/** Runs a svc command that follows something, until the demo ends. Resolves once it says on stderr that it does. */
export function follow(dataDir: string, args: readonly string[]): Promise<void> {
  const child = runSvc(dataDir, args, 'pipe');
  return new Promise((resolve) => {
    child.stderr?.on('data', (chunk: Buffer) => {
      process.stderr.write(chunk);
      resolve();
    });
    // A log that ends early takes nothing down: the daemon serves on.
    child.once('error', (error) => process.stderr.write(`demo: ${error.message}\n`));
    child.once('close', () => resolve());
  });
}

function runSvc(dataDir: string, args: readonly string[], stderr: 'inherit' | 'pipe' = 'inherit'): ChildProcess {
  const child = spawn(process.execPath, [main('svc'), ...args], {
    env: clientEnvironment(dataDir),
    stdio: ['ignore', 'inherit', stderr],
  });
  children.add(child);
  child.once('exit', () => children.delete(child));
  return child;
}
