// Figures of the house: `node scripts/figures.ts [ROOT]`, where ROOT is a checkout with its dependencies, this one unless it
// is said. Sizes are counted from the files. A walk is measured: a daemon in this process does one thing while V8 counts calls,
// and a file is entered where one of its functions ran that an idle daemon, watched for a while before, does not run. What
// runs when a module is loaded does not count, nor do tests' helpers, nor what runs in the compiler's worker. `sideways` are the
// imports between two files entered whose rooms differ and stand in one layer: there the reader goes back up instead of
// further down. A file directly under a layer is no room: the layer's rooms stand on it, and it imports none of them; what
// leads there is counted apart, and so are the files of `adapters/repo`, which are git's wire. `--list` names the files.

import { globSync, readFileSync } from 'node:fs';
import { Session } from 'node:inspector/promises';
import { dirname, join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';

const root = resolve(process.argv.slice(2).find((one) => one !== '--list') ?? join(import.meta.dirname, '..'));
const load = (path: string): Promise<any> => import(pathToFileURL(join(root, path)).href);

const isTest = (path: string): boolean => /\.test\.ts$|testkit|\/fixture\.ts$/.test(path);
const isTool = (path: string): boolean =>
  /^(?:internal|cmd)\/(?:bench|harness-check|reference)\/|^internal\/tidy/.test(path);
const all = globSync('{cmd,internal,schemas}/**/*.ts', { cwd: root }).filter((path) => !isTest(path));
const linesOf = (paths: readonly string[]): number =>
  paths.reduce((sum, path) => sum + readFileSync(join(root, path), 'utf8').split('\n').length - 1, 0);
const tools = all.filter(isTool);
const pages = all.filter((path) => path.startsWith('internal/edge/web/'));
const rest = all.filter((path) => !isTool(path));
console.log(`outside tests: ${linesOf(rest)} lines in ${rest.length} files, ${linesOf(pages)} in ${pages.length} of them pages`);
console.log(`benches, checks and the reference beside: ${linesOf(tools)} lines in ${tools.length} files`);
const sync = all.filter((path) => path.startsWith('internal/flows/sync/'));
console.log(`flows/sync: ${linesOf(sync)} lines in ${sync.length} files`);

const session = new Session();
session.connect();
await session.post('Profiler.enable');
await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });

/** Functions that ran since the last call, as `file offset`. */
async function ran(): Promise<Set<string>> {
  const { result } = await session.post('Profiler.takePreciseCoverage');
  const found = new Set<string>();
  for (const { url, functions } of result) {
    if (!url.startsWith('file:')) continue;
    const path = fileURLToPath(url);
    const local = path.startsWith(`${root}/`) ? path.slice(root.length + 1) : '';
    if (!/^(?:cmd|internal|schemas)\//.test(local) || isTest(local)) continue;
    for (const { ranges, functionName } of functions) {
      const [range] = ranges;
      if (range !== undefined && range.count > 0 && !(functionName === '' && range.startOffset === 0))
        found.add(`${local} ${range.startOffset}`);
    }
  }
  return found;
}

const roomOf = (path: string): string => path.split('/').slice(0, path.includes('/providers/') ? 4 : 3).join('/');
const layerOf = (path: string): string => path.split('/')[1] ?? '';
/** Imports between files entered that lead to another room of the same layer, and to what the layer's rooms stand on. */
function sideways(files: ReadonlySet<string>): { readonly rooms: number; readonly ground: number } {
  const count = { rooms: 0, ground: 0 };
  for (const file of files) {
    for (const [, specifier = ''] of readFileSync(join(root, file), 'utf8').matchAll(/^(?:import|export) (?!type).*?from '(\.[^']+)';/gms)) {
      const to = join(dirname(file), specifier);
      if (!files.has(to) || roomOf(to) === roomOf(file) || layerOf(to) !== layerOf(file) || layerOf(to) === 'base') continue;
      count[roomOf(to) === to ? 'ground' : 'rooms'] += 1;
    }
  }
  return count;
}

async function walk(name: string, act: () => Promise<void>): Promise<void> {
  await act(); // Everything that is loaded at need is loaded now.
  await sleep(1_000);
  await ran();
  await sleep(12_000);
  const idle = await ran();
  await act();
  const entered = new Set([...(await ran())].filter((one) => !idle.has(one)).map((one) => one.split(' ')[0] ?? ''));
  const layers = Map.groupBy([...entered], layerOf);
  const shown = [...layers].map(([layer, files]) => `${layer} ${files.length}`).sort();
  if (process.argv.includes('--list')) console.log([...entered].sort().join('\n'));
  const { rooms, ground } = sideways(entered);
  const wire = [...entered].filter((path) => path.startsWith('internal/adapters/repo/')).length;
  console.log(`${name}: ${entered.size} files entered (${shown.join(', ')}), ${wire} of them git's wire; ${rooms} imports sideways, ${ground} to the layer's own files`);
}

const { startBench, agentFile } = await load('internal/flows/sync/sync-testkit.ts');
const bench = await startBench();
const { daemon } = bench;
const wait = async (sql: string, count: number): Promise<void> => {
  for (;;) {
    const { rows } = await daemon.ctx.db.query(sql);
    if (Number(rows[0].count) >= count) return;
    await sleep(50);
  }
};
const { wishSync } = await load('internal/adapters/store/repositories/polls.ts');
const repository = await bench.repository('r');
await repository.commit({ '.svc/agents/a.yaml': agentFile('a') });
await bench.watch('r');
const { rows } = await daemon.ctx.db.query("select id from svc.repositories where name = 'r'");
let pushes = 1;
const push = async (ask: () => Promise<unknown>): Promise<void> => {
  pushes += 1;
  await repository.commit({ '.svc/agents/a.yaml': agentFile('a', `systemPrompt: "${pushes}"`) });
  await ask();
  await wait(`select count(*) from svc.reconciles where status = 'applied'`, pushes);
};
await walk('a push becomes agents', () => push(() => wishSync(daemon.ctx.db, { repositoryId: rows[0].id, reason: 'push' })));
await walk('a person asks for a sync', () => push(() => daemon.api('POST', 'P/repositories/r/sync', {})));
const trigger = { event: 'webhook.received', endpoint: 'e', auth: { kind: 'none' }, routing: { kind: 'spawn' } };
const environment = { name: 'default', image: { kind: 'preset', name: 'base' } };
const content = JSON.stringify({ name: 'w', harness: 'harness-a', environment, triggers: [trigger] });
const answer = await daemon.api('POST', 'P/apply', { files: [{ path: '.svc/agents/w.yaml', content }], prune: false });
const url = String(answer.body.webhooks[0].ingestUrl);
let sent = 0;
await walk('a webhook becomes a session row', async () => {
  sent += 1;
  await fetch(url, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ sent }) });
  await wait('select count(*) from svc.sessions', sent);
});
await bench.stop();
session.disconnect();
