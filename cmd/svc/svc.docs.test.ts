// What README and docs tell people to type and to write. The five-minute tour is pasted into a shell as it stands, against a
// real daemon. Of every other page the blocks of shell are run in their order, in a directory that holds the files that the
// page shows, against a project of its own; then its tree compiles without a warning, and its configuration is one that
// the daemon takes. Pages that need more than a daemon have it (docs-testkit.ts): a code host, another database, a daemon of their own. What
// no test can paste (`sh by-hand: WHY`) names the test that does the same; it is held against the table of commands, and so is
// every line in running text.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, describe, it, test } from 'node:test';
import { promisify } from 'node:util';
import { parse, parseAllDocuments } from 'yaml';
import { scriptedAgent } from '../../internal/adapters/harness/harness-testkit.ts';
import { loadConfig } from '../../internal/base/config/config.ts';
import type { CodehostSimulator } from '../../internal/base/testkit/codehost-simulator.ts';
import { startTestDaemon, type TestDaemon } from '../../internal/base/testkit/daemon.ts';
import { createTestDatabase, type TestDatabase } from '../../internal/base/testkit/postgres.ts';
import { parseArgv } from '../../internal/edge/cli/parse.ts';
import { globalOptions } from '../../internal/edge/cli/table-global.ts';
import { commands } from '../../internal/edge/cli/table.ts';
import { ownTools } from '../../internal/flows/tools/tools.ts';
import { checkSettings } from '../svcd/daemon.ts';
import { atCodehost, endDaemons, operated, startCodehost, type World, writePrograms } from './docs-testkit.ts';
import { callSvc } from './testkit.ts';

const rootDir = join(import.meta.dirname, '../..');
const pages = new Map<string, string>();
for (const name of [
  'README.md',
  'CONTRIBUTING.md',
  'templates/README.md',
  ...(await readdir(join(rootDir, 'docs'), { recursive: true })).map((one) => `docs/${one}`),
]) {
  if (name.endsWith('.md') && !name.includes('docs/adr/')) pages.set(name, await readFile(join(rootDir, name), 'utf8'));
}
const fenced = (text: string): { readonly fence: string; readonly body: string }[] =>
  [...text.matchAll(/^```(.*)\n([\s\S]*?)^```$/gm)].map(([, fence = '', body = '']) => ({ fence, body }));
/** Blocks whose fence says this, and a reason behind it where they are for hands. */
const blocks = (text: string, language: string): string[] =>
  fenced(text)
    .filter(({ fence }) => fence.replace(/:.*$/, '') === language)
    .map(({ body }) => body);

let home: string;
let daemon: TestDaemon;
let bin: string;
let host: CodehostSimulator;
/** Of pages that go on with a database of their own. */
const spare: TestDatabase[] = [];
before(async () => {
  home = await mkdtemp(join(tmpdir(), 'svc-docs-'));
  host = await startCodehost();
  const codehost = { apiUrl: host.origin, webUrl: host.origin, writeSpacingMs: 0 };
  daemon = await startTestDaemon({
    config: {
      harnessACommand: scriptedAgent,
      sandbox: 'process',
      allowPrivateNetwork: true,
      file: { sandboxes: { snapshots: { maxMB: 0 } }, providers: { codehost } },
    },
  });
  bin = join(home, 'bin');
  await writePrograms(bin);
});
after(async () => {
  await endDaemons(bin);
  await daemon?.stop();
  for (const one of spare) await one.close();
  await host?.stop();
  await rm(home, { recursive: true, force: true });
});

test('the five-minute tour does what it says, pasted as it stands', async () => {
  const tour = (pages.get('README.md') ?? '').split('## Five minutes')[1]?.split('\n## ')[0] ?? '';
  const shell = blocks(tour, 'sh');
  assert.ok(shell.length >= 5);
  const script = shell.join('\n').replace('npm run -s svc --', `'${join(bin, 'svc')}'`);
  const { stdout, stderr } = await promisify(execFile)('bash', ['-e', '-c', script], {
    cwd: rootDir,
    env: {
      PATH: `${join(rootDir, 'node_modules/.bin')}:${process.env['PATH'] ?? ''}`,
      HOME: home,
      SVC_DATA_DIR: daemon.dataDir,
    },
    maxBuffer: 4 * 1024 * 1024,
  });
  assert.match(stdout, /^ok: 1 agent, 1 environment$/m, stderr);
  assert.match(stdout, /^agent: +triage$/m);
  assert.match(stdout, /^address: +http/m);
  assert.match(stdout, /"eventRecordId"/);
  assert.match(stdout, /webhook\.received +(?:pending|routed)/);
});

/** A command line as it is written for readers: placeholders, alternatives and comments are no part of it. */
function argvOf(line: string): string[] {
  const bare = line
    .replace(/\s#\s.*$/, '')
    .replace(/\s[>|&].*$/, '')
    .replaceAll(/\[[^\]]*\]/g, '')
    .replaceAll(/"\$\([^)]*\)[^"]*"/g, 'X')
    .replaceAll(/…/g, '');
  return [...bare.matchAll(/"[^"]*"|'[^']*'|\S+/g)].map(([word]) => word.replaceAll(/^["']|["']$/g, ''));
}

test('every command line of the pages is one that the program knows', () => {
  let seen = 0;
  const wrong: string[] = [];
  for (const [name, text] of pages) {
    const shown = [
      ...blocks(text, 'sh'),
      ...blocks(text, 'sh by-hand'),
      ...blocks(text, 'sh hook'),
      ...blocks(text, ''),
    ].flatMap((block) => block.replaceAll('\\\n', ' ').split('\n'));
    const inline = [...text.matchAll(/`(svc [a-z][^`\n]*)`/g)].map(([, line = '']) => line);
    for (const line of [...shown, ...inline]) {
      const match = /^\s*(?:exec |[A-Z_]+=\S+ )*svc ([a-z].*)$/.exec(line);
      if (match === null) continue;
      const argv = argvOf(match[1] ?? '');
      const alternatives = argv.some((word) => /^[a-z]+\|[a-z|]+$/.test(word));
      seen += 1;
      try {
        // A line that names a command in running text leaves its arguments out.
        if (!alternatives) parseArgv([...argv, '--help'], commands, globalOptions);
      } catch (error) {
        wrong.push(`${name}: svc ${argv.join(' ')}: ${(error as Error).message}`);
      }
    }
  }
  assert.ok(seen > 60, String(seen));
  assert.deepEqual(wrong, []);
});

/** The files that a page shows: the first line of a block names the file. */
const filesOf = (text: string): [path: string, content: string][] =>
  blocks(text, 'yaml').map((block) => {
    const [, path = ''] = /^# (\S+\.yaml)$/m.exec(block.slice(0, block.indexOf('\n'))) ?? [];
    return [path, block];
  });

test('an agent that a page shows has something to call under each alias of a connection', () => {
  const of = ownTools.map((one) => one.of);
  let seen = 0;
  for (const [name, text] of pages) {
    for (const [path, block] of filesOf(text)) {
      for (const document of path.startsWith('.svc/') ? parseAllDocuments(block) : []) {
        const { tools } = Object(document.toJS()) as { readonly tools?: object };
        for (const [alias, tool] of Object.entries(tools ?? {})) {
          const { kind, provider } = tool as { readonly kind?: string; readonly provider?: string };
          if (kind !== 'connection') continue;
          seen += 1;
          assert.ok(of.includes(`\`kind: connection, provider: ${provider}\``), `${name}: ${alias} has no tool`);
        }
      }
    }
  }
  assert.ok(seen >= 2, String(seen));
});

/** What pages take as given: fragments that an example imports. */
const fragment =
  'harness: harness-a\nenvironment: { name: node, image: { kind: preset, name: node24 } }\nsystemPrompt: x\n';

/** The tour of README is pasted as a block of its own. */
const shellOf = (name: string, text: string): string[] =>
  blocks(name === 'README.md' ? text.replace(/^## Five minutes[^]*?^(?=## )/m, '') : text, 'sh');

/** What a page that needs more than the daemon has. */
async function worldOf(name: string, root: string, project: string): Promise<World & { stop?(): void }> {
  if (name === 'docs/tutorial/first-pull-request.md') {
    const guide = blocks(pages.get('docs/guides/code-host.md') ?? '', 'sh').slice(0, 1);
    return atCodehost(host, daemon, { root, project, guide });
  }
  await mkdir(root);
  const other = /SVC_DATABASE_URL=/.test(pages.get(name) ?? '') ? await createTestDatabase({ empty: true }) : undefined;
  if (other !== undefined) spare.push(other);
  return operated(name, { root, daemon, databaseUrl: other?.url ?? '' });
}

describe('every page does what it says', { concurrency: 2 }, () => {
  for (const [name, text] of pages) {
    const files = filesOf(text);
    const shell = shellOf(name, text);
    if (files.length === 0 && shell.length === 0) continue;
    it(name, async (t) => {
      for (const [path, block] of files) assert.ok(path !== '', `a block of YAML does not name its file:\n${block}`);
      const slug = name
        .toLowerCase()
        .replaceAll(/[^a-z0-9]+/g, '-')
        .slice(0, 60);
      const root = join(home, slug);
      assert.equal((await daemon.api('POST', '/api/v1/orgs/default/projects', { slug })).status, 201);
      const world = await worldOf(name, root, slug);
      for (const [, one = ''] of text.matchAll(/^  - \.\.\/fragments\/(\w+)\.yaml/gm)) {
        await mkdir(join(root, '.svc/fragments'), { recursive: true });
        await writeFile(join(root, `.svc/fragments/${one}.yaml`), fragment);
      }
      for (const [path, block] of files) {
        await mkdir(dirname(join(root, path)), { recursive: true });
        await writeFile(join(root, path), block);
        if (path === 'svc.yaml') await configurationIsTaken(block);
        if (path.startsWith('.github/')) await workflowPasses(root, block);
      }
      t.after(() => world.stop?.());
      const given = { ...env(root), SVC_PROJECT: slug, ...(await endpoint(slug)), ...world.env };
      const script = world.edits.reduce((text, [from, to]) => text.replaceAll(from, to), shell.join('\n'));
      const said = await promisify(execFile)('bash', ['-e', '-o', 'pipefail', '-c', script], {
        cwd: root,
        env: given,
        maxBuffer: 4 * 1024 * 1024,
      }).catch((error: { stdout: string; stderr: string }) => assert.fail(`${error.stdout}\n${error.stderr}`));
      assert.doesNotMatch(said.stderr, /^svc: (?!warning)/m);
      if (files.some(([path]) => path.startsWith('.svc/agents/'))) {
        const { code, stderr } = await callSvc(home, ['validate', root, '--strict']);
        assert.equal(code, 0, stderr);
      }
    });
  }
});

const env = (root: string) => ({
  PATH: `${bin}:${join(rootDir, 'node_modules/.bin')}:${process.env['PATH'] ?? ''}`,
  HOME: root,
  SVC_DATA_DIR: daemon.dataDir,
  SVC_HARNESS_A_COMMAND: JSON.stringify(scriptedAgent),
  SVC_SANDBOX: 'process',
});

/** A signed endpoint, for the pages that send to one. */
async function endpoint(project: string): Promise<{ SECRET: string; INGEST_URL: string }> {
  const P = `/api/v1/orgs/default/projects/${project}`;
  await daemon.api('PUT', `${P}/secrets/hook`, { value: 'the value of the hook' });
  const content = `name: listener\n${fragment}triggers:\n- event: webhook.received\n  endpoint: hook\n  auth: { kind: hmac_sha256, secretRef: hook }\n  routing: { kind: spawn }\n`;
  const files = [{ path: '.svc/agents/listener.yaml', content }];
  assert.equal((await daemon.api('POST', `${P}/apply`, { files })).status, 200);
  const { body } = await daemon.api('GET', `${P}/endpoints/hook`);
  return { SECRET: 'the value of the hook', INGEST_URL: String(body['ingestUrl']) };
}

/** As svcd would at its start; files and variables that a configuration names are made first. */
async function configurationIsTaken(text: string): Promise<void> {
  const directory = await mkdtemp(join(home, 'config-'));
  const path = join(directory, 'svc.yaml');
  await writeFile(path, text.replaceAll('/etc/svc/', `${directory}/`).replaceAll('/srv/templates', directory));
  for (const one of ['provider-a.key', 'corp-secret', 'github-secret', 'errtrack-secret', 'hook.key']) {
    await writeFile(join(directory, one), 'a value\n', { mode: 0o600 });
  }
  await checkSettings(loadConfig({ env: { HOME: directory, SVC_CONFIG: path }, argv: [] }));
}

async function workflowPasses(root: string, text: string): Promise<void> {
  const { jobs } = parse(text) as { jobs: { [name: string]: { steps: { run?: string }[] } } };
  const lines = Object.values(jobs).flatMap(({ steps }) => steps.flatMap(({ run }) => run ?? []));
  assert.ok(lines.length > 0);
  const place = await mkdtemp(join(root, 'workflow-'));
  await mkdir(join(place, '.svc/agents'), { recursive: true });
  await writeFile(join(place, '.svc/agents/a.yaml'), `name: a\n${fragment}`);
  for (const line of lines) await promisify(execFile)('bash', ['-e', '-c', line], { cwd: place, env: env(place) });
}

test('a block of shell that is for hands says why no test runs it, and every other is run', () => {
  for (const [name, text] of pages) {
    for (const { fence } of fenced(text)) {
      if (fence.startsWith('sh by-hand')) {
        const [, test = ''] = /^sh by-hand: \S.*; (cmd\/\S+\.test\.ts) /.exec(fence) ?? [];
        assert.ok(existsSync(join(rootDir, test)) && test !== '', `${name}: ${fence}`);
      } else assert.match(fence, /^(?!bash|shell|console|zsh)(?:sh|sh hook|(?!sh).*)$/, name);
    }
  }
});

test('the tour and the configuration of README are whole', async () => {
  const text = pages.get('README.md') ?? '';
  assert.ok(filesOf(text).some(([path]) => path === 'svc.yaml'));
});
