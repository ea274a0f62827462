// `svc init`: a first tree that compiles. It asks at a terminal for what was not given, writes nothing over what is there,
// and compiles what it wrote.

import { stat, writeFile } from 'node:fs/promises';
import { dirname, join, relative, resolve } from 'node:path';
import { createInterface } from 'node:readline/promises';
import { harnessNames } from '../../domain/spec.ts';
import { UsageError, refusal } from './failure.ts';
import { typedLine } from './input.ts';
import { findServer } from './settings.ts';
import type { Call, Handler } from './types.ts';
import { makeDirectory } from '../../base/files.ts';

interface Wishes {
  readonly name: string;
  readonly harness: string;
  readonly event: string;
  readonly cron: string | undefined;
  readonly timezone: string;
}

const namePattern = /^[A-Za-z0-9_.-]{1,128}$/;

async function wishesOf(call: Call): Promise<Wishes> {
  const { stdin, stderr } = call.io;
  const asks = stdin.isTTY === true && stderr.isTTY === true && !call.json && !call.flag('yes');
  const terminal = asks ? createInterface({ input: stdin, output: stderr, terminal: true }) : undefined;
  const ask = async (option: string, question: string, fallback: string): Promise<string> => {
    const given = call.text(option);
    if (given !== undefined || terminal === undefined) return given ?? fallback;
    const answer = await typedLine(call, terminal, `${question} [${fallback}] `);
    if (answer === undefined) throw refusal('interrupted', 'interrupted; nothing was written');
    return answer.trim() === '' ? fallback : answer.trim();
  };
  try {
    const name = await ask('name', 'name of the agent', 'triage');
    const harness = await ask('harness', `harness, ${harnessNames.join(' or ')}`, 'harness-a');
    const cron = call.text('cron');
    if (cron !== undefined && call.text('event') !== undefined) throw new UsageError('give one of --event and --cron');
    const event = cron === undefined ? await ask('event', 'event that wakes it', 'webhook.received') : '';
    if (!namePattern.test(name)) throw new UsageError('the name has 1 to 128 letters, digits, _, . and -');
    if (!harnessNames.some((one) => one === harness))
      throw new UsageError(`the harness is ${harnessNames.join(' or ')}`);
    return { name, harness, event, cron, timezone: call.text('timezone') ?? 'UTC' };
  } finally {
    terminal?.close();
  }
}

/** One line of YAML. */
const text = (value: string): string => `'${value.replaceAll("'", "''")}'`;
/** The same of a name, bare where YAML reads a text: 2024, 1e3, true and - are none. */
const nameText = (name: string): string =>
  /^[A-Za-z_]/.test(name) && !/^(?:true|false|null)$/i.test(name) ? name : text(name);

function triggerOf({ name, event, cron, timezone }: Wishes): string {
  if (cron !== undefined) {
    return `  - kind: heartbeat\n    cron: ${text(cron)}\n    timezone: ${text(timezone)}\n    message: Look around and say what you find.\n    routing: { kind: spawn }\n`;
  }
  if (event !== 'webhook.received') {
    return `  - event: ${event}\n    message: ${text(`${event} came in.`)}\n    routing: { kind: spawn }\n`;
  }
  return `  - event: webhook.received
    endpoint: ${/^[a-z0-9][a-z0-9-]*$/.test(name) ? nameText(name) : 'reports'}
    auth: { kind: none } # anyone who knows the address; with a secret: { kind: hmac_sha256, secretRef: NAME }
    message: 'A report arrived: {{ title }}'
    routing: { kind: spawn }
`;
}

const agentText = (wishes: Wishes, schema: string): string => `# yaml-language-server: $schema=${schema}
name: ${nameText(wishes.name)}
imports: ../fragments/base.yaml
systemPrompt: |
  You are ${wishes.name}. Read what arrives, decide what it means, and say so in three sentences.
triggers:
${triggerOf(wishes)}`;

const fragmentText = ({ harness }: Wishes, schema: string): string => `# yaml-language-server: $schema=${schema}
# What several agents share. An agent that imports it merges its own fields on top.
harness: ${harness}
environment:
  name: base
  image: { kind: preset, name: base }
`;

/** What the first line of a file names: an address, or a path from where the file lies. */
async function schemaOf(call: Call): Promise<{ readonly url?: string; readonly local: boolean }> {
  const given = call.text('schema');
  if (given !== undefined) return { url: given, local: false };
  const server = await findServer(call).catch(() => undefined);
  return server === undefined ? { local: true } : { url: `${server.url}/schemas/agent.json`, local: false };
}

async function write(path: string, content: string, force: boolean): Promise<void> {
  await makeDirectory(dirname(path), 0o777);
  await writeFile(path, content, { flag: force ? 'w' : 'wx' });
}

export const initCommand: Handler = async (call) => {
  const given = call.optionalArg('DIR') ?? '.';
  const root = resolve(call.io.cwd, given);
  const wishes = await wishesOf(call);
  const { url, local } = await schemaOf(call);
  const schema = url ?? '../../agent.schema.json';
  const files = new Map([
    // A file whose name begins with a dot is not compiled.
    [join(root, '.svc/agents', `${wishes.name.replace(/^\.+/, '') || 'agent'}.yaml`), agentText(wishes, schema)],
    [join(root, '.svc/fragments/base.yaml'), fragmentText(wishes, schema)],
  ]);
  if (local) {
    const { jsonSchemaText } = await import('../../../schemas/json-schema.ts');
    files.set(join(root, 'agent.schema.json'), jsonSchemaText('agent'));
  }
  const force = call.flag('force');
  const paths = [...files.keys()];
  const there: string[] = [];
  for (const path of paths)
    if ((await stat(path).catch(() => undefined)) !== undefined) there.push(relative(root, path));
  if (there.length > 0 && !force) {
    throw refusal(
      'exists',
      `${there.join(', ')} ${there.length === 1 ? 'is' : 'are'} there already`,
      '--force writes over, --name takes another',
    );
  }
  try {
    for (const [path, content] of files) await write(path, content, force);
  } catch (error) {
    throw refusal('cannot-write', `${given} cannot be written (${(error as NodeJS.ErrnoException).code})`);
  }
  const told = paths.map((path) => relative(root, path));
  const bare = given.startsWith('-') ? `./${given}` : given;
  const at = /^[\w./@:%+,=-]+$/.test(bare) ? bare : `'${bare.replaceAll("'", `'\\''`)}'`;
  const next = [
    [`svc validate ${at}`, 'what it means, without a server'],
    [`svc dev ${wishes.name} ${at === '.' ? '' : `${at} `}--message hello`, 'talk to it here'],
    [`svc repo add NAME --path ${at}`, 'let svcd watch it'],
  ] as const;
  const width = Math.max(...next.map(([command]) => command.length));
  call.screen.emit({ directory: root, files: told }, () =>
    [
      ...told.map((path) => `wrote ${path}`),
      '',
      ...next.map(([command, why]) => `${command.padEnd(width)}  # ${why}`),
    ].join('\n'),
  );
  return 0;
};
