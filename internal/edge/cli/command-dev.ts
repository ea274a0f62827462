// `svc dev AGENT`: one agent of the working tree in a sandbox here, on a daemon of its own that is thrown away. It is told
// messages, events by hand or a stored event once more; its transcript goes to the terminal. Only --keep leaves something.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import * as apply from '../../../schemas/api/apply.ts';
import * as events from '../../../schemas/api/events.ts';
import * as secrets from '../../../schemas/api/secrets.ts';
import * as sessions from '../../../schemas/api/sessions.ts';
import { readPayload } from '../../core/match/match.ts';
import type { Json } from '../../domain/json.ts';
import { timeLimit } from '../../base/waits.ts';
import { type Client, connect, createClient } from './client.ts';
import { devAgent, type DevAgent, type DevEvent, promptFor } from './dev-tree.ts';
import { printDiagnostics } from './diagnostics.ts';
import { UsageError, refusal } from './failure.ts';
import { harnessCommands } from './command-harness.ts';
import { readJson, readText } from './input.ts';
import { wholeId } from './ids.ts';
import { messageText, type SessionChange, stateText } from './print-session.ts';
import { readClientFile } from './settings.ts';
import { pause } from './sse.ts';
import { clean, nearest, parseDurationSeconds } from './text.ts';
import { compileOutput } from './tree.ts';
import type { Call, Handler } from './types.ts';
import { makeDirectory } from '../../base/files.ts';

/** Of the installation's settings: what the daemon here has of its own. */
const ownList = [
  'SVC_DATA_DIR',
  'SVC_DATABASE_URL',
  'SVC_DATABASE_DIRECT_URL',
  'SVC_LISTEN',
  'SVC_BASE_URL',
  'SVC_ROLES',
];
const notIts = [...ownList, 'SVC_MASTER_KEY_FILE', 'SVC_URL', 'SVC_TOKEN', 'SVC_ORG', 'SVC_PROJECT', 'SVC_CONTEXT'];
/** How often, and after how many milliseconds each time, its last words are looked for. */
const lastWords = 10;
const lastWordsMs = 200;
const madeUp = 'made-up-by-svc-dev';
/** A timer waits no longer. */
const timerMaxMs = 2 ** 31 - 1;

export const devCommand: Handler = async (call) => {
  const timeout = parseDurationSeconds(call.text('timeout') ?? '10m');
  if (timeout === undefined) throw new UsageError('--timeout takes a duration such as 60s or 5m');
  const agent = await agentOf(call);
  const messages = await messagesOf(call, agent);
  const values = await secretsOf(call);
  const keep = call.text('keep');
  const dataDir = keep === undefined ? await mkdtemp(join(tmpdir(), 'svc-dev-')) : resolve(call.io.cwd, keep);
  await makeDirectory(dataDir).catch((error: NodeJS.ErrnoException) => {
    throw refusal('cannot-write', `${dataDir} cannot be made (${error.code})`);
  });
  const stop = timeLimit(Math.min(timeout * 1000, timerMaxMs), call.io.signal);
  let daemon: ChildProcess | undefined;
  try {
    for (const note of agent.notes) say(call, note);
    call.screen.progress('starting a daemon for it …');
    daemon = await startDaemon(call, dataDir, stop);
    const file = await readClientFile(join(dataDir, 'client.json'));
    if (file === undefined) throw refusal('dev-daemon', 'the daemon of its own wrote no client.json');
    const client = createClient({ ...file, from: 'client.json' }, stop);
    call.screen.progress('');
    await prepare(call, client, agent, values);
    return await converse(call, client, agent, messages, stop);
  } finally {
    call.screen.progress('');
    if (daemon !== undefined) await end(daemon);
    if (keep === undefined) await rm(dataDir, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });
    else say(call, `kept in ${dataDir}: svcd --data-dir ${dataDir}`);
  }
};

const say = (call: Call, text: string): void => {
  if (!call.json) call.screen.note(call.screen.errPaint('grey', clean(text, true)));
};

async function agentOf(call: Call): Promise<DevAgent> {
  const output = await compileOutput(call);
  if (!call.json && output.diagnostics.length > 0)
    call.screen.note(printDiagnostics(output.diagnostics, call.screen.errPaint));
  if (!output.ok) throw refusal('invalid-tree', 'the tree does not compile');
  const names = output.resources.filter(({ kind }) => kind === 'Agent').map(({ name }) => name);
  const wanted = call.arg('AGENT');
  const agent = devAgent(output.resources, wanted);
  if (agent !== undefined) return agent;
  const near = nearest(wanted, names);
  const hint = near === undefined ? `there are ${names.join(', ') || 'none'}` : `did you mean ${near}?`;
  throw refusal('agent-not-found', `the tree has no agent ${wanted}`, hint);
}

/** What it is told, in order: messages, then events. */
async function messagesOf(call: Call, agent: DevAgent): Promise<string[]> {
  const given = call.list('message');
  const told: string[] = [...given];
  const key = call.text('key');
  for (const file of call.list('event')) {
    const value = await readJson(call, file, '--event', readPayload);
    told.push(textFor(call, agent, eventOf(value, key, file)));
  }
  for (const id of call.list('replay')) {
    const client = await connect(call);
    const whole = await wholeId(client, { operation: events.listEvents }, id);
    const event = await client.call(events.getEvent, { params: { id: whole } });
    told.push(textFor(call, agent, { key: event.key, payload: event.payload as Json }));
  }
  if (told.length > 0) return told;
  const { initialPrompt } = agent.spec;
  if (initialPrompt !== undefined) return [initialPrompt];
  throw new UsageError('there is nothing to tell it', 'give --message TEXT, --event FILE or --replay ID');
}

/** `{ "key": …, "payload": … }`, as the API shows an event; or a payload alone, with --key. */
function eventOf(value: unknown, key: string | undefined, file: string): DevEvent {
  const { key: own, event, payload } = Object(value) as { readonly [member: string]: unknown };
  const named = key ?? (typeof own === 'string' ? own : typeof event === 'string' ? event : undefined);
  if (named === undefined)
    throw new UsageError(`--event: ${file} names no key`, 'give --key KEY, such as webhook.received');
  const isWhole = payload !== undefined && (typeof own === 'string' || typeof event === 'string');
  return { key: named, payload: (isWhole ? payload : value) as Json };
}

function textFor(call: Call, agent: DevAgent, event: DevEvent): string {
  const told = promptFor(agent, event);
  if ('why' in told) throw refusal('unmatched', clean(told.why, true));
  say(call, `${event.key} wakes trigger ${told.ordinal}`);
  return told.text;
}

/** `NAME=value` lines of --secrets; a value never is an argument. */
async function secretsOf(call: Call): Promise<ReadonlyMap<string, string>> {
  const file = call.text('secrets');
  if (file === undefined) return new Map();
  const lines = (await readText(call, file, '--secrets')).split(/\r?\n/);
  return new Map(
    lines.flatMap((line): [string, string][] => {
      const match = /^\s*(?:export\s+)?([A-Za-z0-9_.-]+)\s*=\s*(.*?)\s*$/.exec(line);
      return match === null ? [] : [[match[1] ?? '', (match[2] ?? '').replace(/^(['"])(.*)\1$/, '$2')]];
    }),
  );
}

async function startDaemon(call: Call, dataDir: string, stop: AbortSignal): Promise<ChildProcess> {
  const main = fileURLToPath(new URL('../../../cmd/svcd/main.mjs', import.meta.url));
  const env: { [name: string]: string | undefined } = {
    ...call.io.env,
    ...(await harnessCommands(call)),
    HOME: call.io.home,
    // What the file says of the installation whose it is (its database, key and address) is not for this one.
    SVC_THROWN_AWAY: '1',
  };
  for (const name of notIts) delete env[name];
  const args = [main, '--data-dir', dataDir, '--listen', '127.0.0.1:0', '--log-level', 'warn'];
  const config = call.text('config');
  if (config !== undefined) args.push('--config', resolve(call.io.cwd, config));
  const child = spawn(process.execPath, args, { env, stdio: ['ignore', 'pipe', 'pipe'] });
  let log = '';
  child.stderr.on('data', (chunk: Buffer) => {
    log = `${log}${chunk.toString()}`.slice(-4_000);
  });
  const ready = new Promise<void>((done, fail) => {
    let out = '';
    child.stdout.on('data', (chunk: Buffer) => {
      out += chunk.toString();
      if (out.includes('"event":"ready"')) done();
    });
    child.once('error', fail);
    child.once('exit', (code) => fail(refusal('dev-daemon', `the daemon ended with ${code}: ${clean(log.trim())}`)));
    stop.addEventListener('abort', () => fail(refusal('interrupted', 'stopped')), { once: true });
  });
  try {
    await ready;
  } catch (error) {
    await end(child);
    throw error;
  }
  return child;
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  child.kill('SIGTERM');
  await exited;
}

async function prepare(
  call: Call,
  client: Client,
  agent: DevAgent,
  values: ReadonlyMap<string, string>,
): Promise<void> {
  for (const name of agent.secrets) {
    const value = values.get(name);
    if (value === undefined)
      say(call, `the secret ${name} is not known here: a made-up value stands for it (--secrets FILE)`);
    await client.call(secrets.projectSecrets.write, { params: { name }, body: { value: value ?? madeUp } });
  }
  const files = [{ path: `.svc/agents/${agent.name}.json`, content: agent.document }];
  await client.call(apply.applyFiles, { body: { files }, timeoutMs: 60_000 });
}

/** Tells it one message after the other, each when it rests, and prints what it says. */
async function converse(
  call: Call,
  client: Client,
  agent: DevAgent,
  messages: readonly string[],
  stop: AbortSignal,
): Promise<number> {
  const { screen } = call;
  const [first = '', ...later] = messages;
  const { id } = await client.call(sessions.startSession, { params: { name: agent.name }, body: { message: first } });
  let state = '';
  // It rests before it is told anything, too.
  let hasRun = false;
  let seen = 0;
  let isAnswered = false;
  const print = (message: sessions.Message): void => {
    if (message.seq <= seen) return;
    seen = message.seq;
    isAnswered = message.role !== 'user';
    screen.stream(message, () => `${messageText(message, screen.paint)}\n\n`);
  };
  const readOn = async (): Promise<void> => {
    for (const one of (await client.list(sessions.listMessages, { params: { id } })).items) print(one);
  };
  /** Whether it has answered and rests; a turn may be over before anybody hears that it runs. */
  const isDone = async (): Promise<boolean> => {
    if (!hasRun) {
      await readOn();
      return isAnswered && (await client.call(sessions.getSession, { params: { id } })).state === 'idle';
    }
    // That it rests may be told before what it said last.
    for (let turn = 0; turn < lastWords && !isAnswered && !stop.aborted; turn++) {
      await pause(lastWordsMs, stop);
      await readOn();
    }
    return true;
  };
  let isResting = false;
  for await (const event of client.events(sessions.streamSession, { params: { id } })) {
    if (event.event === 'message') print(JSON.parse(event.data) as sessions.Message);
    const change = event.event === 'state' ? (JSON.parse(event.data) as SessionChange) : undefined;
    if (change !== undefined) {
      const told = stateText(change, screen.paint);
      if (told !== state) screen.stream(change, () => `${told}\n\n`);
      state = told;
      hasRun ||= change.state === 'running';
      isResting = change.state === 'idle';
    }
    if (isResting && (change !== undefined || isAnswered) && (await isDone())) {
      const next = later.shift();
      if (next === undefined) return 0;
      hasRun = false;
      isAnswered = false;
      await client.call(sessions.sendMessage, { params: { id }, body: { text: next } });
    }
    if (change === undefined || isResting) continue;
    await requireGoing(client, id, change);
  }
  throw refusal(stop.aborted ? 'interrupted' : 'dev-daemon', 'stopped before it had answered');
}

/** Throws where a session will not go on by itself. */
async function requireGoing(client: Client, id: string, change: SessionChange): Promise<void> {
  if (change.state === 'waiting_permission')
    throw refusal(
      'permission',
      'it asks for a permission, which nobody gives here',
      'set approvals of the environment, or run it on a server',
    );
  if (change.live === false || change.state === 'blocked' || waits(change)) {
    const whole = await client.call(sessions.getSession, { params: { id } });
    throw refusal(
      'session-ended',
      `the session is ${change.state}: ${clean(whole.reasonText ?? change.reason ?? 'no reason is told', true)}`,
    );
  }
}

/** Queued for what will not come by itself: a harness to install, a key. A place and a sandbox come. */
const waits = ({ state, reason }: SessionChange): boolean =>
  state === 'queued' && reason !== null && reason !== undefined && reason !== '' && reason !== 'capacity';
