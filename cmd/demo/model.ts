// The demo's model provider: a simulator on loopback that answers each call of the scripted agent in a sentence and counts
// its words, so that there is something to be metered. Only where nobody has configured a model or a key; it says so.

import { mkdir, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import type { HarnessFallbacks } from './harnesses.ts';
import { call } from './register.ts';

/** The organization's secret that names its key; whatever it holds opens the simulator. */
export const modelKey = 'demo-model-key';
const answer = 'Noted: it is one page, and it is in order.';

export interface DemoModel {
  /** Settings for svcd. */
  readonly environment: { readonly [name: string]: string };
  readonly note: string;
  stop(): Promise<void>;
}

/** Tokens of a text, as roughly as they can be counted. */
const tokens = (text: string): number => Math.ceil(text.length / 4);

function answerTo(body: string): string {
  const { model = 'scripted' } = JSON.parse(body) as { model?: string };
  const usage = { input_tokens: 12_000 + tokens(body), output_tokens: 1 };
  const message = { id: 'message', type: 'message', role: 'assistant', model, content: [], usage };
  const events = [
    { type: 'message_start', message },
    { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
    { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: answer } },
    { type: 'content_block_stop', index: 0 },
    { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 900 + tokens(answer) } },
    { type: 'message_stop' },
  ];
  return events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join('');
}

/** Starts it where the scripted agent stands in; undefined where there is a model, or a configuration that may name one. */
export async function startModel(
  dataDir: string,
  { environment }: HarnessFallbacks,
  env: NodeJS.ProcessEnv,
): Promise<DemoModel | undefined> {
  const isFree = ['SVC_CONFIG', 'SVC_PROVIDER_A_KEY'].every((name) => env[name] === undefined);
  if (!isFree || environment['SVC_HARNESS_A_COMMAND'] === undefined) return undefined;
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.end(answerTo(Buffer.concat(chunks).toString()));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const file = join(dataDir, 'demo', 'config.json');
  const provider = { baseUrl: `http://127.0.0.1:${port}`, keySecretRef: modelKey };
  await mkdir(join(dataDir, 'demo'), { recursive: true });
  await writeFile(file, JSON.stringify({ providers: { model: { 'provider-a': provider } } }));
  return {
    environment: { SVC_CONFIG: file },
    note: `a simulated model provider answers them at http://127.0.0.1:${port}: what it costs is counted, and paid to nobody.`,
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/** What the fleet and the model are given, and who may look: kept where it is there already. */
export async function prepareProject(dataDir: string, hasModel: boolean): Promise<void> {
  const org = '/../..';
  const known = async (path: string): Promise<boolean> => (await call(dataDir, 'GET', path)).status === 200;
  const secrets = [
    ...(hasModel ? [[`${org}/secrets/${modelKey}`, 'Opens the simulated model provider']] : []),
    ['/secrets/greeting-signature', 'What the greeter signs with'],
  ] as const;
  for (const [path, description] of secrets)
    if (!(await known(path))) await call(dataDir, 'PUT', path, { value: 'simulated-'.repeat(3), description });
  const email = 'ada@example.org';
  await call(dataDir, 'POST', `${org}/members`, { email, name: 'Ada', role: 'member' });
  await call(dataDir, 'POST', '/members', { email, role: 'viewer' });
}
