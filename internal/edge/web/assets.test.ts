import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';

test('what pages load is made beside the thread that answers, which never loads what strips types', (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'svc-assets-'));
  t.after(() => rmSync(dir, { recursive: true }));
  const main = join(dir, 'main.mjs');
  writeFileSync(
    main,
    `import { enableCompileCache } from 'node:module';
enableCompileCache(${JSON.stringify(join(dir, 'cache'))});
const { createAssets } = await import(${JSON.stringify(join(import.meta.dirname, 'assets.ts'))});
const assets = createAssets();
const answers = [];
const keep = setTimeout(() => {}, 60_000);
for (const name of ['app.ts', 'app.css', 'vendor/preact.mjs', 'nothing.ts']) {
  const answer = {};
  const response = {
    writeHead(status, headers) { answer.status = status; answer.type = headers['content-type']; return this; },
    end(body) { answer.isTyped = /^import type |\\binterface /m.test(String(body)); answer.length = body.length; },
  };
  await assets.send({ request: { headers: {} }, response, url: new URL(assets.url(name), 'http://a') });
  answers.push([name, answer.status, answer.type, answer.length > 1_000, answer.isTyped]);
}
clearTimeout(keep);
const strippers = process.moduleLoadList.filter((name) => name.includes('amaro')).length;
console.log(JSON.stringify({ answers, strippers }));
`,
  );
  const run = (): unknown => JSON.parse(execFileSync(process.execPath, [main], { encoding: 'utf8' }));
  run();
  const javascript = 'text/javascript; charset=utf-8';
  assert.deepEqual(run(), {
    answers: [
      ['app.ts', 200, javascript, true, false],
      ['app.css', 200, 'text/css; charset=utf-8', true, false],
      ['vendor/preact.mjs', 200, javascript, true, false],
      ['nothing.ts', 404, 'text/plain; charset=utf-8', false, false],
    ],
    strippers: 0,
  });
});
