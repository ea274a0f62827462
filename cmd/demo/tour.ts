// What the demo shows after its first sync, and the commands that a reader can copy.

import type { DemoHost } from './codehost.ts';
import { call } from './register.ts';
import { svc } from './processes.ts';
import { postAndAwaitAnswer } from './session.ts';
import { demo, type Source } from './source.ts';

export const farewell = '\nstopping…';

const run = 'npm run -s svc --';

/** Prints the run, the agents, the webhook addresses, and what to try next. */
export async function tour(
  dataDir: string,
  { source, synced, host }: { readonly source: Source; readonly synced: boolean; readonly host: DemoHost | undefined },
  say: (text: string) => void,
): Promise<void> {
  // Its agents work while the rest is shown.
  const pushed = synced ? host?.push() : undefined;
  say('');
  await svc(dataDir, ['reconcile', 'logs', '--repo', source.name, '--limit', '5']);
  say('');
  await svc(dataDir, ['agent', 'list']);
  say('');
  const endpoints = await listEndpoints(dataDir);
  for (const endpoint of endpoints) {
    say(`webhook ${endpoint.name}: ${endpoint.ingestUrl}`);
    if (endpoint.auth?.kind === 'none') {
      say(`  curl -sS ${endpoint.ingestUrl} -H 'content-type: application/json' -d '{"name":"Ada"}'`);
    }
  }
  if (endpoints.length > 0) say('');
  const open = endpoints.find((endpoint) => endpoint.name === 'greetings' && endpoint.auth?.kind === 'none');
  if (open !== undefined && source.name === demo) {
    say(`posting {"name":"Ada"} to it:`);
    const came = await postAndAwaitAnswer(dataDir, open.ingestUrl, { name: 'Ada' });
    if (came === undefined) say('nothing came of it; `svc event list` says why');
    else await svc(dataDir, ['session', 'logs', came.sessionId]);
    say('');
  }
  const commit = await pushed;
  if (host !== undefined && commit !== undefined) await showPush(dataDir, host, commit, say);
  if (!synced) say(`the first sync did not apply: ${run} repo show ${source.name}\n`);
  for (const line of changeLines(source)) say(line);
  say('');
  say('look around, in another terminal in this directory:');
  const environment = process.env['SVC_DATA_DIR'] === undefined ? '' : `SVC_DATA_DIR='${dataDir}' `;
  for (const line of [
    `repo show ${source.name}`,
    'reconcile logs -f',
    'trigger list',
    'schedule list',
    'event list',
    'session list',
    'session logs -f ID',
    "agent start greeter --message 'Who are you?'",
    'doctor',
    '--help',
  ]) {
    say(`  ${environment}${run} ${line}`);
  }
  say('');
  await showConsole(dataDir, environment, say);
}

/** The last of the tour: the way into the console, which signs in whoever opens it first, within a minute. */
async function showConsole(dataDir: string, environment: string, say: (text: string) => void): Promise<void> {
  say('the console, signed in; this address works once, within a minute:');
  if ((await svc(dataDir, ['console', '--print'])) !== 0) say('  it could not be made; `svc doctor` looks further');
  say(`another one: ${environment}${run} console --print`);
  say('');
}

/** From the push to the comment, as the code host has it, and what the sessions called. */
async function showPush(dataDir: string, host: DemoHost, commit: string, say: (text: string) => void): Promise<void> {
  say(`a push to the code host, which is simulated at ${host.origin}:`);
  const { lines, sessions, isWhole } = await host.outcome(commit);
  for (const line of lines) say(`  ${line}`);
  if (!isWhole) say('  the rest did not come in time; `svc event list` and `svc session list` say why');
  say('');
  for (const session of sessions) await svc(dataDir, ['session', 'calls', session]);
  say('');
}

interface Endpoint {
  readonly name: string;
  readonly ingestUrl: string;
  readonly auth?: { readonly kind: string } | null;
}

async function listEndpoints(dataDir: string): Promise<readonly Endpoint[]> {
  const { status, body } = await call(dataDir, 'GET', '/endpoints');
  return status === 200 ? (body as { items: readonly Endpoint[] }).items : [];
}

/** How to change what runs. */
export function changeLines(source: Source): string[] {
  if (source.folder !== undefined) {
    return ['change something and watch it here:', `  edit a file under ${source.folder}/.svc and save it`];
  }
  if (source.cloneUrl === undefined) {
    return [
      'change something and watch it here:',
      `  push a commit to ${String(source.settings['url'] ?? source.settings['path'])}`,
    ];
  }
  return [
    'change something, push it, and watch it here:',
    `  git clone ${source.cloneUrl} svc-demo-fleet && cd svc-demo-fleet`,
    "  sed -i.bak 's/tone: warm/tone: cheerful/' .svc/agents/greeter.yaml && rm .svc/agents/greeter.yaml.bak",
    "  git -c user.name=You -c user.email=you@example.com commit -am 'Cheer the greeter up' && git push",
  ];
}
