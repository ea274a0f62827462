import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';

const strippers = "process.moduleLoadList.filter((name) => name.includes('amaro')).length";

test('a thread takes the cache of compiled modules, and with it needs nothing that strips types', (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'svc-thread-'));
  t.after(() => rmSync(dir, { recursive: true }));
  const program = join(dir, 'program.ts');
  writeFileSync(
    program,
    `import { parentPort } from 'node:worker_threads';\nconst count: number = ${strippers};\nparentPort?.postMessage(count);\n`,
  );
  const main = join(dir, 'main.mjs');
  writeFileSync(
    main,
    `import { enableCompileCache } from 'node:module';
if (process.argv[2] === 'cached') enableCompileCache(${JSON.stringify(join(dir, 'cache'))});
const { startThread } = await import(${JSON.stringify(join(import.meta.dirname, 'thread.ts'))});
startThread(new URL(${JSON.stringify(`file://${program}`)}), {}).on('message', (count) => console.log(count));
`,
  );
  const run = (mode: string): number =>
    Number(execFileSync(process.execPath, [main, mode], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] }));
  const plain = run('plain');
  run('cached');
  assert.deepEqual([plain, run('cached')], [1, 0]);
});

test('svc and svcd load nothing that strips types once their modules are cached', () => {
  const told = `data:text/javascript,process.on('exit',()=>console.log(${strippers}))`;
  for (const name of ['svc', 'svcd']) {
    const main = join(import.meta.dirname, `../../cmd/${name}/main.mjs`);
    const args = ['--disable-warning=ExperimentalWarning', '--import', told, main, '--help'];
    const run = (): string => execFileSync(process.execPath, args, { encoding: 'utf8' }).trim();
    run();
    assert.match(run(), /\n0$/, name);
  }
});
