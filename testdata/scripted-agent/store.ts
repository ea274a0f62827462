// Sessions of the scripted agent on disk, under its HOME: one file each, a line per message, written before anything is
// done about it, so that a killed agent's successor knows what was said.

import { appendFileSync, existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';

export interface Message {
  readonly role: 'user' | 'agent';
  readonly text: string;
}

const directory = join(process.env['HOME'] ?? homedir(), '.scripted-agent');
const fileOf = (sessionId: string): string => join(directory, `${sessionId}.jsonl`);

export function append(sessionId: string, message: Message): void {
  mkdirSync(directory, { recursive: true });
  appendFileSync(fileOf(sessionId), `${JSON.stringify(message)}\n`);
}

/** Creates the empty session. */
export function create(sessionId: string): void {
  mkdirSync(directory, { recursive: true });
  appendFileSync(fileOf(sessionId), '');
}

/** Undefined where there is no such session, or its file cannot be understood. */
export function history(sessionId: string): Message[] | undefined {
  if (!/^[\w-]+$/.test(sessionId) || !existsSync(fileOf(sessionId))) return undefined;
  try {
    const lines = readFileSync(fileOf(sessionId), 'utf8').split('\n');
    return lines.filter((line) => line !== '').map((line) => JSON.parse(line) as Message);
  } catch {
    return undefined;
  }
}

/** Processes left behind on purpose, so that a test can find and end them: `$HOME/.scripted-agent/orphans`. */
export function noteOrphan(pid: number): void {
  mkdirSync(directory, { recursive: true });
  appendFileSync(join(directory, 'orphans'), `${pid}\n`);
}

export const sessionIds = (): string[] =>
  existsSync(directory)
    ? readdirSync(directory).flatMap((name) => (name.endsWith('.jsonl') ? [name.slice(0, -'.jsonl'.length)] : []))
    : [];
