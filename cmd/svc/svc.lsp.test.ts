// `svc lsp` as an editor speaks to it: the program, and a client of the protocol made by others; and Neovim, where it is.

import assert from 'node:assert/strict';
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readFile, realpath, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, type TestContext, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import {
  CompletionRequest,
  createProtocolConnection,
  DefinitionRequest,
  DidChangeTextDocumentNotification,
  DidOpenTextDocumentNotification,
  ExitNotification,
  HoverRequest,
  InitializedNotification,
  InitializeRequest,
  type ProtocolConnection,
  PublishDiagnosticsNotification,
  type PublishDiagnosticsParams,
  ShutdownRequest,
  StreamMessageReader,
  StreamMessageWriter,
} from 'vscode-languageserver-protocol/node';

const head = 'name: a\nharness: harness-a\nenvironment: { name: e, image: { kind: preset, name: base } }\n';
const fragment = 'systemPrompt: Be brief.\n';

let root: string;
let child: ChildProcess;
let client: ProtocolConnection;
const told = new Map<string, PublishDiagnosticsParams['diagnostics']>();
let wake: () => void = () => undefined;
before(async () => {
  root = await realpath(await mkdtemp(join(tmpdir(), 'svc-lsp-')));
  await mkdir(join(root, '.svc/agents'), { recursive: true });
  await mkdir(join(root, '.svc/fragments'), { recursive: true });
  await writeFile(join(root, '.svc/agents/a.yaml'), head);
  await writeFile(join(root, '.svc/fragments/base.yaml'), fragment);
  child = spawn(process.execPath, [join(import.meta.dirname, 'main.mjs'), 'lsp', '--stdio'], {
    env: { PATH: process.env['PATH'] ?? '', HOME: root },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  if (child.stdout === null || child.stdin === null) throw new Error('no pipes');
  client = createProtocolConnection(new StreamMessageReader(child.stdout), new StreamMessageWriter(child.stdin));
  client.onNotification(PublishDiagnosticsNotification.type, ({ uri, diagnostics }) => {
    told.set(uri, diagnostics);
    wake();
  });
  client.listen();
  const { capabilities, serverInfo } = await client.sendRequest(InitializeRequest.type, {
    processId: process.pid,
    rootUri: pathToFileURL(root).href,
    capabilities: {},
  });
  assert.equal(serverInfo?.name, 'svc');
  assert.equal(capabilities.hoverProvider, true);
  await client.sendNotification(InitializedNotification.type, {});
});
after(async () => {
  client?.dispose();
  child?.kill();
  await rm(root, { recursive: true, force: true });
});

const uriOf = (path: string): string => pathToFileURL(join(root, path)).href;
const agent = '.svc/agents/a.yaml';
let version = 1;
const change = (path: string, text: string): Promise<void> =>
  client.sendNotification(DidChangeTextDocumentNotification.type, {
    textDocument: { uri: uriOf(path), version: ++version },
    contentChanges: [{ text }],
  });

/** Waits until what is told of a file is as it should be. */
async function until(path: string, holds: (diagnostics: PublishDiagnosticsParams['diagnostics']) => boolean) {
  for (;;) {
    const diagnostics = told.get(uriOf(path));
    if (diagnostics !== undefined && holds(diagnostics)) return diagnostics;
    await new Promise<void>((resolve) => {
      wake = resolve;
    });
  }
}

/** The text with the cursor at `§`: its labels there. */
async function completed(text: string): Promise<string[]> {
  const at = text.indexOf('§');
  const lines = text.slice(0, at).split('\n');
  await change(agent, text.replace('§', ''));
  const position = { line: lines.length - 1, character: lines.at(-1)?.length ?? 0 };
  const items = await client.sendRequest(CompletionRequest.type, { textDocument: { uri: uriOf(agent) }, position });
  assert.ok(Array.isArray(items));
  return items.map(({ label }) => label);
}

test('what is typed is compiled with the whole tree, and told at its place', async () => {
  await client.sendNotification(DidOpenTextDocumentNotification.type, {
    textDocument: { uri: uriOf(agent), languageId: 'yaml', version, text: `${head}concurrency: 2\n` },
  });
  const [first] = await until(agent, (all) => all.length === 1);
  assert.equal(first?.code, 'concurrency-invalid');
  assert.equal(first?.severity, 1);
  assert.deepEqual(first?.range, { start: { line: 3, character: 13 }, end: { line: 3, character: 14 } });
  await change(agent, `${head}imports: ../fragments/base.yaml\n`);
  await until(agent, (all) => all.length === 0);
  // A fragment that is open counts as it stands in the editor, and its mistakes are its own.
  await client.sendNotification(DidOpenTextDocumentNotification.type, {
    textDocument: { uri: uriOf('.svc/fragments/base.yaml'), languageId: 'yaml', version, text: 'concurrency: 3\n' },
  });
  const [own] = await until('.svc/fragments/base.yaml', (all) => all.length === 1);
  assert.equal(own?.range.start.line, 0);
  await change('.svc/fragments/base.yaml', fragment);
  await until('.svc/fragments/base.yaml', (all) => all.length === 0);
});

test('keys are completed at the root, in blocks, in lists and between braces, without those that stand there', async () => {
  const rootKeys = await completed(`${head}§`);
  assert.ok(rootKeys.includes('triggers') && rootKeys.includes('systemPrompt'));
  assert.ok(!rootKeys.includes('harness'));
  const inTrigger = await completed(
    `${head}triggers:\n  - event: codehost.push\n    §\n    routing: { kind: spawn }\n`,
  );
  assert.ok(inTrigger.includes('where') && inTrigger.includes('message'));
  assert.ok(!inTrigger.includes('event') && !inTrigger.includes('routing'));
  assert.deepEqual(await completed(`${head}session:\n  §\n`), ['archiveAfterInactive', 'observeSpawnedSessions']);
  const routing = await completed(`${head}triggers:\n  - event: codehost.push\n    routing: { kind: deliver, §`);
  assert.ok(routing.includes('onUnmatched'));
  assert.ok(!routing.includes('target'));
});

test('values, event keys, files and paths of payloads are completed', async () => {
  assert.deepEqual(await completed(`name: a\nharness: §\n`), ['harness-a', 'harness-b']);
  assert.deepEqual(await completed(`${head}triggers:\n  - routing: { kind: §`), ['spawn', 'deliver', 'bind']);
  assert.deepEqual(await completed(`${head}session:\n  observeSpawnedSessions: §\n`), ['true', 'false']);
  assert.ok((await completed('environment:\n  image:\n    kind: preset\n    name: §\n')).includes('node24'));
  assert.ok((await completed(`${head}triggers:\n  - event: codehost.§\n`)).includes('codehost.pull_request.opened'));
  assert.deepEqual(await completed(`${head}imports: §\n`), ['../fragments/base.yaml']);
  assert.deepEqual(await completed(`${head}imports:\n  - §\n`), ['../fragments/base.yaml']);
  const where = await completed(`${head}triggers:\n  - event: codehost.push\n    where:\n      §\n`);
  assert.ok(where.includes('$.codehost.push.ref'));
  const token = await completed(`${head}triggers:\n  - event: codehost.push\n    message: 'see {{ codehost.pu§`);
  assert.ok(token.includes('codehost.push.ref'));
  assert.ok(!token.includes('tracker.issue.title'));
});

test('hovering a key tells the field, and an import leads to its file', async () => {
  const text = `${head}imports: ../fragments/base.yaml\ntriggers:\n  - event: codehost.push\n    routing: { kind: spawn }\n`;
  await change(agent, text);
  const textDocument = { uri: uriOf(agent) };
  const hover = async (line: number, character: number): Promise<string> => {
    const answer = await client.sendRequest(HoverRequest.type, { textDocument, position: { line, character } });
    return (answer?.contents as { value: string } | undefined)?.value ?? '';
  };
  assert.match(await hover(1, 3), /^\*\*harness\*\* · one of harness-a, harness-b/);
  assert.match(await hover(5, 8), /^\*\*triggers\[\]\.event\*\*/);
  assert.match(await hover(2, 26), /environment\.image/);
  const definition = await client.sendRequest(DefinitionRequest.type, {
    textDocument,
    position: { line: 3, character: 15 },
  });
  assert.equal((definition as { uri: string } | null)?.uri, uriOf('.svc/fragments/base.yaml'));
});

test('a document that lies on no disk is passed over, and its questions have empty answers', async () => {
  const position = { line: 0, character: 1 };
  for (const uri of [
    'untitled:Untitled-1',
    'git:/fleet/.svc/agents/a.yaml?ref',
    'file://elsewhere/a.yaml',
    'nothing',
  ]) {
    const textDocument = { uri, languageId: 'yaml', version: 1, text: head };
    await client.sendNotification(DidOpenTextDocumentNotification.type, { textDocument });
    const change = { textDocument: { uri, version: 2 }, contentChanges: [{ text: head }] };
    await client.sendNotification(DidChangeTextDocumentNotification.type, change);
    const of = { textDocument: { uri }, position };
    assert.equal(await client.sendRequest(HoverRequest.type, of), null);
    assert.equal(await client.sendRequest(DefinitionRequest.type, of), null);
    assert.deepEqual(await client.sendRequest(CompletionRequest.type, of), []);
  }
});

test('it ends when the editor says so', async () => {
  const ended = new Promise((resolve) => child.once('close', resolve));
  await client.sendRequest(ShutdownRequest.type);
  await client.sendNotification(ExitNotification.type);
  assert.equal(await ended, 0);
});

interface Seen {
  readonly error?: string;
  readonly missed: readonly string[];
  readonly first: readonly { readonly line: number; readonly column: number; readonly source: string }[];
  readonly last: readonly { readonly line: number; readonly code: string; readonly message: string }[];
  readonly offered: { readonly [name: string]: { readonly words: readonly string[]; readonly line: string } };
  readonly hover: string;
  readonly at: string;
}

/** A tree in which a person goes on typing: testdata/cli/nvim.lua says where, by line. */
const begun = `name: a
harness:
imports: ../fragments/base.yaml
triggers:
  - event: 
    where:
       
    message: Push to {{ 
    routing: { kind: spawn }

environment: { name: e, image: { kind: preset, name: base } }
`;

/** What Neovim, set up by the lines of the page for editors, shows to a person who types in it. */
async function inNeovim(place: string): Promise<Seen> {
  const [, setup = ''] =
    /^```lua\n([\s\S]*?)^```$/m.exec(
      await readFile(join(import.meta.dirname, '../../docs/checks-before-merge.md'), 'utf8'),
    ) ?? [];
  assert.match(setup, /svc', 'lsp/);
  await mkdir(join(place, '.svc/agents'), { recursive: true });
  await mkdir(join(place, '.svc/fragments'), { recursive: true });
  await mkdir(join(place, 'bin'));
  await writeFile(join(place, '.svc/agents/a.yaml'), begun);
  await writeFile(join(place, '.svc/fragments/base.yaml'), fragment);
  await writeFile(join(place, 'setup.lua'), setup);
  const main = join(import.meta.dirname, 'main.mjs');
  await writeFile(join(place, 'bin/svc'), `#!/bin/sh\nexec '${process.execPath}' '${main}' "$@"\n`, { mode: 0o755 });
  const driver = join(import.meta.dirname, '../../testdata/cli/nvim.lua');
  const args = ['--headless', '-u', 'NONE', '-i', 'NONE', '-n', '-c', 'luafile setup.lua', '-c', `luafile ${driver}`];
  const { PATH = '' } = process.env;
  const env = { PATH: `${join(place, 'bin')}:${PATH}`, HOME: place, SEEN: join(place, 'seen.json'), TERM: 'dumb' };
  // It would read what it edits from a pipe.
  const editor = spawn('nvim', args, { cwd: place, env, stdio: 'ignore' });
  assert.deepEqual(await once(editor, 'exit'), [0, null]);
  return JSON.parse(await readFile(join(place, 'seen.json'), 'utf8')) as Seen;
}

test('a person at Neovim is told mistakes, takes what is offered, looks at a key and goes to an import', async (t: TestContext) => {
  if (spawnSync('nvim', ['--version']).error !== undefined) {
    t.skip('Neovim is not installed here: svc lsp was tried with a client of the protocol alone');
    return;
  }
  const place = await realpath(await mkdtemp(join(tmpdir(), 'svc-nvim-')));
  t.after(() => rm(place, { recursive: true, force: true }));
  const seen = await inNeovim(place);
  assert.equal(seen.error, undefined);
  assert.deepEqual(seen.missed, []);
  assert.deepEqual([seen.first[1]?.line, seen.first[1]?.source], [5, 'svc']);
  const taken = (name: string): string => seen.offered[name]?.line.trim() ?? '';
  assert.equal(taken('value'), 'harness: harness-a');
  assert.deepEqual(seen.offered['value']?.words, ['harness-a', 'harness-b']);
  assert.equal(taken('event'), '- event: codehost.push');
  assert.equal(taken('path'), '$.codehost.repository.fullName:');
  assert.equal(taken('token'), 'message: Push to {{ codehost.push.ref');
  assert.equal(taken('key'), 'concurrency:');
  const mistake = seen.last.find(({ code }) => code === 'concurrency-invalid');
  assert.equal(mistake?.line, 10);
  assert.match(mistake?.message ?? '', /must be 1/);
  assert.match(seen.hover, /harness\W+one of harness-a, harness-b/);
  assert.equal(seen.at, join(place, '.svc/fragments/base.yaml'));
});
