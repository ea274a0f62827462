import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';

const hook = `
  import { registerHooks } from 'node:module';
  const loaded = [];
  registerHooks({ load(url, context, next) { loaded.push(url); return next(url, context); } });
  process.on('exit', () => process.stderr.write(JSON.stringify(loaded)));`;
const tree =
  'name: a\nharness: harness-a\nenvironment: {name: e, image: {kind: preset, name: base}}\n' +
  "triggers: [{kind: heartbeat, cron: '0 3 * * *', timezone: Europe/Berlin, routing: {kind: spawn}}]\n";

test('validating a small tree loads no command but its own, no worker and no client', async (t) => {
  const directory = await mkdtemp(join(tmpdir(), 'svc-loading-'));
  t.after(() => rm(directory, { recursive: true, force: true }));
  await mkdir(join(directory, '.svc/agents'), { recursive: true });
  await writeFile(join(directory, '.svc/agents/a.yaml'), tree);
  const main = join(import.meta.dirname, '../../../cmd/svc/main.ts');
  const { stdout, stderr } = await promisify(execFile)(process.execPath, [
    '--import',
    `data:text/javascript,${encodeURIComponent(hook)}`,
    main,
    'validate',
    directory,
  ]);
  assert.equal(stdout, 'ok: 1 agent, 1 environment\n');
  const loaded = JSON.parse(stderr) as string[];
  const own = loaded.filter((url) => url.startsWith('file:'));
  const packages = new Set(own.flatMap((url) => /\/node_modules\/(\w+)\//.exec(url)?.[1] ?? []));
  assert.deepEqual([...packages].sort(), ['croner', 'yaml']);
  const tables = own.flatMap((url) => /\/cli\/(table[^/]*|client|command-[^/]*)\.ts$/.exec(url)?.[1] ?? []);
  assert.deepEqual(tables.sort(), ['command-compile', 'table-global', 'table-offline']);
  assert.deepEqual(
    own.filter((url) => url.includes('/adapters/compiler/')),
    [],
  );
});

test('a strict validation fails on a warning, a plain one does not', async (t) => {
  const directory = await mkdtemp(join(tmpdir(), 'svc-strict-'));
  t.after(() => rm(directory, { recursive: true, force: true }));
  await mkdir(join(directory, '.svc/agents'), { recursive: true });
  await writeFile(join(directory, '.svc/agents/a.yaml'), `${tree}trigers: []\n`);
  const main = join(import.meta.dirname, '../../../cmd/svc/main.ts');
  const run = (...more: string[]) => promisify(execFile)(process.execPath, [main, 'validate', directory, ...more]);
  assert.match((await run()).stderr, /Did you mean triggers\?/);
  await assert.rejects(run('--strict'), { code: 1 });
});
