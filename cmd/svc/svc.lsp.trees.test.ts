// `svc lsp` with more than one tree and more than one name of a file: which tree is told, under which name, and that the last
// word about a document is about its last text.

import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdir, mkdtemp, realpath, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import {
  createProtocolConnection,
  DidChangeTextDocumentNotification,
  DidOpenTextDocumentNotification,
  InitializedNotification,
  InitializeRequest,
  type ProtocolConnection,
  PublishDiagnosticsNotification,
  type PublishDiagnosticsParams,
  StreamMessageReader,
  StreamMessageWriter,
} from 'vscode-languageserver-protocol/node';

type Told = PublishDiagnosticsParams['diagnostics'];

const head = 'name: a\nharness: harness-a\nenvironment: { name: e, image: { kind: preset, name: base } }\n';
const wrong = `${head}concurrency: 2\n`;

let place: string;
let child: ChildProcess;
let client: ProtocolConnection;
const told = new Map<string, Told>();
let wake: () => void = () => undefined;
before(async () => {
  place = await realpath(await mkdtemp(join(tmpdir(), 'svc-lsp-')));
  child = spawn(process.execPath, [join(import.meta.dirname, 'main.mjs'), 'lsp', '--stdio'], {
    env: { PATH: process.env['PATH'] ?? '', HOME: place },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  if (child.stdout === null || child.stdin === null) throw new Error('no pipes');
  client = createProtocolConnection(new StreamMessageReader(child.stdout), new StreamMessageWriter(child.stdin));
  client.onNotification(PublishDiagnosticsNotification.type, ({ uri, diagnostics }) => {
    told.set(uri, diagnostics);
    wake();
  });
  client.listen();
  await client.sendRequest(InitializeRequest.type, { processId: process.pid, rootUri: null, capabilities: {} });
  await client.sendNotification(InitializedNotification.type, {});
});
after(async () => {
  client?.dispose();
  child?.kill('SIGKILL');
  await rm(place, { recursive: true, force: true });
});

/** A tree with one agent. */
async function treeAt(name: string, text = head): Promise<string> {
  await mkdir(join(place, name, '.svc/agents'), { recursive: true });
  await writeFile(join(place, name, '.svc/agents/a.yaml'), text);
  return `${name}/.svc/agents/a.yaml`;
}

const uriOf = (path: string): string => pathToFileURL(join(place, path)).href;
let version = 1;
const open = (path: string, text: string): Promise<void> =>
  client.sendNotification(DidOpenTextDocumentNotification.type, {
    textDocument: { uri: uriOf(path), languageId: 'yaml', version: ++version, text },
  });
const change = (path: string, text: string): Promise<void> =>
  client.sendNotification(DidChangeTextDocumentNotification.type, {
    textDocument: { uri: uriOf(path), version: ++version },
    contentChanges: [{ text }],
  });
const codesOf = (path: string): unknown[] | undefined => told.get(uriOf(path))?.map(({ code }) => code);

const news = (): Promise<void> =>
  new Promise((resolve) => {
    wake = resolve;
  });

/** Waits until these codes are told of a file. */
async function until(path: string, codes: readonly string[]): Promise<void> {
  while (JSON.stringify(codesOf(path)) !== JSON.stringify(codes)) await news();
}

test('what is told of one tree leaves alone what is told of another', async () => {
  const [one, other] = [await treeAt('one'), await treeAt('other')];
  await open(other, wrong);
  await until(other, ['concurrency-invalid']);
  await open(one, wrong);
  await until(one, ['concurrency-invalid']);
  await change(one, head);
  await until(one, []);
  assert.deepEqual(codesOf(other), ['concurrency-invalid']);
});

test('a file is told of under the name by which the editor has it', async () => {
  await treeAt('real');
  await symlink(join(place, 'real'), join(place, 'link'));
  const linked = 'link/.svc/agents/a.yaml';
  await open(linked, wrong);
  await until(linked, ['concurrency-invalid']);
  await change(linked, head);
  await until(linked, []);
});

test('an open file that is a symbolic link in the tree is refused as it is everywhere', async () => {
  const agent = await treeAt('links');
  await writeFile(join(place, 'elsewhere.yaml'), 'name: b\n');
  await symlink(join(place, 'elsewhere.yaml'), join(place, 'links/.svc/agents/b.yaml'));
  const link = 'links/.svc/agents/b.yaml';
  await open(agent, head);
  await until(link, ['symlink-refused']);
  await open(link, head.replace('name: a', 'name: b'));
  await change(agent, wrong);
  await until(agent, ['concurrency-invalid']);
  assert.deepEqual(codesOf(link), ['symlink-refused']);
});

test('a tree that cannot be read is told of as svc validate tells it, and what was told before is taken back', async () => {
  const agent = await treeAt('hostile');
  await open(agent, wrong);
  await until(agent, ['concurrency-invalid']);
  const name = join(place, 'hostile/.svc/agents/\u202eb.yaml');
  await writeFile(name, head);
  await change(agent, head);
  await until('hostile/.svc', ['hostile-path']);
  await until(agent, []);
  await rm(name);
  await change(agent, wrong);
  await until(agent, ['concurrency-invalid']);
  await until('hostile/.svc', []);
});

test('the last word about a document is about its last text, however long another text takes', async () => {
  const agent = await treeAt('slow');
  // So much takes seconds, and is compiled in a worker; so little is compiled at once.
  const slow = `${wrong}env:\n${Array.from({ length: 8_000 }, (_, index) => `  A${index}: ${index}\n`).join('')}`;
  await open(agent, slow);
  while ((codesOf(agent)?.length ?? 0) === 0) await news();
  const begun = performance.now();
  await change(agent, `${slow}# again\n`);
  const before = told.get(uriOf(agent));
  while (told.get(uriOf(agent)) === before) await news();
  const takesMs = performance.now() - begun;
  await change(agent, slow);
  // Long enough that it is being compiled, too short for its answer.
  await sleep(takesMs / 4);
  await change(agent, head);
  await until(agent, []);
  await sleep(takesMs);
  assert.deepEqual(codesOf(agent), []);
});

test('it ends at a signal, also while an editor holds it open', async () => {
  const ended = new Promise((resolve) => child.once('exit', (code) => resolve(code)));
  child.kill('SIGTERM');
  assert.equal(await Promise.race([ended, sleep(30_000, 'still there')]), 143);
});
