// A client made from the API's own description: `openapi-typescript` gives it a named type a resource and an operation
// by its id, and a program that is written with them compiles.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { startTestDaemon, type TestDaemon } from '../../base/testkit/daemon.ts';

const run = promisify(execFile);
const modules = resolve(import.meta.dirname, '../../../node_modules');

/** The generator builds its text with the compiler's API, which our own version of the compiler has no more. */
const olderCompiler = pathToFileURL(join(modules, '@ts-morph/common/dist/typescript.js')).href;
const withOlderCompiler = `data:text/javascript,${encodeURIComponent(
  `import { registerHooks } from 'node:module';
   registerHooks({ resolve: (name, at, next) => next(name === 'typescript' ? '${olderCompiler}' : name, at) });`,
)}`;

/** Names of resources, as a client calls their types. */
const resources = [
  'Agent',
  'AgentRevision',
  'AgentSpec',
  'ApplyResult',
  'AuditEntry',
  'Binding',
  'Call',
  'Connection',
  'Diagnostic',
  'Endpoint',
  'Event',
  'KeyReport',
  'Me',
  'Member',
  'Message',
  'Organization',
  'Problem',
  'Project',
  'Reconcile',
  'ReconcileDetail',
  'Repository',
  'Schedule',
  'Secret',
  'ServiceAccount',
  'Session',
  'SessionDetail',
  'Token',
  'Trigger',
] as const;

const program = `import type { components, operations, paths } from './api.ts';
type Schemas = components['schemas'];
${resources.map((name) => `export type ${name} = Schemas['${name}'];`).join('\n')}

type Body<O extends { responses: { 200: { content: { 'application/json': unknown } } } }> =
  O['responses'][200]['content']['application/json'];
export const names = (page: Body<operations['listRepositories']>): string[] =>
  page.items.map((one: Repository) => one.name + String(one.lastReconcile?.status === 'applied'));
export const harness = (agent: Body<operations['getAgent']>): 'harness-a' | 'harness-b' => agent.spec.harness;
export const events = (spec: AgentSpec): string[] =>
  spec.triggers.map((trigger) => (trigger.kind === 'event' ? trigger.event : trigger.cron));
export const ordinals = (triggers: Trigger[]): number[] => triggers.map((one) => one.ordinal);
export const cost = (session: Session): string => session.usage.costUsd;
export const at = (problem: Problem): string =>
  problem.diagnostics?.map((one: Diagnostic) => one.file + ':' + one.line).join() ?? problem.detail;
export const added: operations['createRepository']['requestBody']['content']['application/json'] = {
  name: 'fleet',
  url: 'https://code.example/fleet.git',
  auth: { kind: 'token', secretRef: 'TOKEN' },
};
export const signature: operations['ingestWebhookEvent']['parameters']['header'] = { 'x-svc-signature-256': 'ab' };
export const door: keyof paths = '/api/v1/webhook-endpoints/{slug}/events';
type Has<K extends string> = K extends keyof Repository ? true : false;
export const known: [Has<'intervalSeconds'>, Has<'intervalMinutes'>] = [true, false];
`;

describe('a client made from the description of the API', () => {
  let daemon: TestDaemon;
  let directory: string;
  before(async () => {
    directory = await mkdtemp(join(tmpdir(), 'svc-client-'));
    daemon = await startTestDaemon({ config: { roles: ['api'] } });
  });
  after(async () => {
    await daemon?.stop();
    await rm(directory, { recursive: true, force: true });
  });

  it('compiles, with a type for every resource', async () => {
    const served = await fetch(`${daemon.url}/api/v1/openapi.json`);
    await writeFile(join(directory, 'openapi.json'), await served.text());
    await writeFile(join(directory, 'program.ts'), program);
    const api = join(directory, 'api.ts');
    const generator = join(modules, 'openapi-typescript/bin/cli.js');
    await run(
      process.execPath,
      ['--import', withOlderCompiler, generator, join(directory, 'openapi.json'), '-o', api],
      {
        cwd: directory,
      },
    );
    const options = ['--noEmit', '--strict', '--allowImportingTsExtensions', '--module', 'nodenext', '--types', ''];
    const compiler = join(modules, 'typescript/bin/tsc');
    const failure = await run(process.execPath, [compiler, ...options, join(directory, 'program.ts')], {
      cwd: directory,
    }).then(
      () => '',
      (error: { stdout?: string; message: string }) => error.stdout || error.message,
    );
    assert.equal(failure, '');
  });
});
