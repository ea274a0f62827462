// The house rules as a test: reads every source of the project and fails on the first thing out of place.
// It also fails when it finds too few files, and when a violation planted on purpose goes unseen.

import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { SourceFile } from './tidy-names.ts';
import { roomsTable, roomOf, tidy } from './tidy-rules.ts';

const root = join(import.meta.dirname, '..');
/** Well under the real number; a glob that stops matching must not look like a clean house. */
const filesMin = 20;

const sources: SourceFile[] = globSync('{cmd,internal,schemas}/**/*.ts', { cwd: root }).map((path) => ({
  path: path.replaceAll('\\', '/'),
  text: readFileSync(join(root, path), 'utf8'),
}));

test('every source keeps the rules of the house', () => {
  const found = tidy(sources).map((v) => `${v.path}:${v.line}: ${v.rule}: ${v.message}`);
  assert.deepEqual(found, []);
});

test('the sources were found', () => {
  assert.ok(sources.length >= filesMin, `only ${sources.length} files`);
  for (const room of ['domain', 'core/source', 'core/compile']) {
    assert.ok(
      sources.some((file) => roomOf(file.path) === room),
      `no file of ${room}`,
    );
  }
});

test('database drivers are in the store and the job wiring alone', () => {
  const rooms = Object.keys(roomsTable).filter((room) => roomsTable[room]?.npm.includes('pg'));
  assert.deepEqual(rooms, ['adapters/store', 'adapters/postgres', 'edge/jobs', 'base/testkit']);
});

const door = '// a\n// b\n// c\n';
const long = (count: number): string => '  step();\n'.repeat(count);

/** Each plants one thing: path, text, the rule that must see it. */
const planted: readonly (readonly [string, string, string])[] = [
  ['internal/core/plan/plan.ts', `${door}import { readFileSync } from 'node:fs';\n`, 'imports'],
  ['internal/core/plan/plan.ts', `${door}import { join } from 'node:path';\n`, 'imports'],
  ['internal/core/plan/plan.ts', `${door}import { compile } from '../compile/compile.ts';\n`, 'imports'],
  ['internal/core/plan/plan.ts', `${door}import type { X } from '../../adapters/store/store.ts';\n`, 'imports'],
  ['internal/core/plan/plan.ts', `${door}import { parse } from 'yaml';\n`, 'imports'],
  ['internal/core/plan/plan.ts', `${door}const x = await import('../../flows/sync/sync.ts');\n`, 'imports'],
  ['internal/core/plan/plan.ts', `${door}import {\n  a,\n  b,\n} from '../route/route.ts';\n`, 'imports'],
  ['internal/core/compile/compile.ts', `${door}import { parse } from '../source/yaml.ts';\n`, 'imports'],
  ['internal/adapters/crypto/crypto.ts', `${door}import { pool } from '../store/store.ts';\n`, 'imports'],
  ['internal/adapters/crypto/crypto.ts', `${door}import pg from 'pg';\n`, 'imports'],
  ['internal/adapters/providers/chat/chat.ts', `${door}import { x } from '../tracker/tracker.ts';\n`, 'imports'],
  ['internal/flows/sync/sync.ts', `${door}import { x } from '../routing/routing.ts';\n`, 'imports'],
  ['internal/flows/sync/sync.ts', `${door}import { x } from '../../edge/http/http.ts';\n`, 'imports'],
  ['internal/edge/http/http.ts', `${door}import { x } from '../jobs/jobs.ts';\n`, 'imports'],
  ['internal/base/log/log.ts', `${door}import { x } from '../../core/plan/plan.ts';\n`, 'imports'],
  ['internal/base/log/log.ts', `${door}import { x } from '../../../cmd/svcd/main.ts';\n`, 'imports'],
  ['internal/flows/sync/sync.ts', `${door}import { x } from '../../bench/rows.ts';\n`, 'imports'],
  ['internal/domain/json.ts', "import { x } from '../core/plan/plan.ts';\n", 'imports'],
  ['internal/domain/json.ts', "import * as v from 'valibot';\n", 'imports'],
  ['schemas/agent.ts', "export { x } from '../internal/core/plan/plan.ts';\n", 'imports'],
  ['internal/core/plan/plan.ts', `${door}const t = Date.now();\n`, 'clock'],
  ['internal/flows/sync/sync.ts', `${door}const t = new Date();\n`, 'clock'],
  ['internal/flows/sync/sync.ts', `${door}const t = Math.${'random'}();\n`, 'randomness'],
  ['internal/edge/http/http.ts', `${door}const t = process.env['HOME'];\n`, 'environment'],
  ['internal/edge/http/http.ts', `${door}process.on('SIGTERM', stop);\n`, 'environment'],
  ['internal/edge/http/http.ts', `${door}const t = readFileSync('/proc/self/stat');\n`, 'linux'],
  ['cmd/svc/main.ts', `// ${'TO'}${'DO'} later\n`, 'debt'],
  ['cmd/svc/main.ts', '// as it was decided (contract' + ', section 3)\n', 'citation'],
  ['cmd/svc/main.ts', '// as told (docs/reference/tools.md#chat' + ', Answers)\n', 'citation'],
  ['cmd/svc/svc.test.ts', `test.${'skip'}('x', () => {});\n`, 'silenced'],
  ['cmd/svc/main.ts', `// @ts-${'ignore'}\n`, 'silenced'],
  ['cmd/svc/main.ts', 'class A {\n  private readonly x = 1;\n}\n', 'private'],
  ['cmd/svc/main.ts', 'const MAX_BYTES = 5 * 1024;\n', 'constant'],
  ['cmd/svc/main.ts', 'const PROVIDERS: readonly string[] = [];\n', 'constant'],
  ['cmd/svc/main.ts', 'export default 1;\n', 'default-export'],
  ['cmd/svc/main.ts', "export * from './other.ts';\n", 'default-export'],
  ['internal/core/plan/plan.ts', `${door}const text = 'Agent requires harness';\n`, 'message'],
  ['internal/core/plan/plan.ts', `${door}const text = "Secret not found: x";\n`, 'message'],
  ['internal/core/plan/other.test.ts', '', 'test-name'],
  ['cmd/svc/main.ts', 'export class SteadyPool {}\n', 'retired'],
  ['cmd/svc/index.ts', '', 'barrel'],
  ['cmd/svc/mainFile.ts', '', 'file-name'],
  ['internal/core/helpers/helpers.ts', door, 'room'],
  ['internal/core/plan/stored.ts', '', 'door'],
  ['internal/core/plan/plan.ts', '// one line\n', 'door'],
  ['internal/core/plan/plan.ts', '// x\n'.repeat(13), 'door'],
  ['cmd/svc/main.ts', '//\n'.repeat(401), 'file-length'],
  ['cmd/svc/main.ts', `export function f(): void {\n${long(69)}}\n`, 'function-length'],
  ['cmd/svc/main.ts', `const f = (a: string): void => {\n${long(69)}};\n`, 'function-length'],
  ['cmd/svc/main.ts', `class A {\n  async run(): Promise<void> {\n${long(69)}  }\n}\n`, 'function-length'],
  ['cmd/svc/main.ts', `function f(\n  a: string,\n): void {\n${long(67)}}\n`, 'function-length'],
];

for (const [path, text, rule] of planted) {
  test(`sees ${rule} in ${path}: ${JSON.stringify(text.slice(0, 80))}`, () => {
    assert.deepEqual([...new Set(tidy([{ path, text }]).map((v) => v.rule))], [rule]);
  });
}

test('sees files that import each other, for their types alone too', () => {
  const files: SourceFile[] = [
    { path: 'cmd/svc/main.ts', text: "import type { A } from './other.ts';\n" },
    { path: 'cmd/svc/other.ts', text: "import {\n  b,\n} from './third.ts';\n" },
    { path: 'cmd/svc/third.ts', text: "export type { C } from './main.ts';\n" },
    { path: 'cmd/svc/fourth.ts', text: "import { main } from './main.ts';\n" },
  ];
  assert.deepEqual(
    tidy(files).map(({ rule, message }) => [rule, message]),
    [['cycle', 'import each other: cmd/svc/main.ts, cmd/svc/other.ts, cmd/svc/third.ts']],
  );
  // Loaded when it is asked for.
  const lazy = files.map((one) => (one.path === 'cmd/svc/third.ts' ? { ...one, text: "import('./main.ts');\n" } : one));
  assert.deepEqual(tidy(lazy), []);
});

test('accepts what the table allows', () => {
  const files: SourceFile[] = [
    {
      path: 'internal/core/compile/compile.ts',
      text: `${door}import { join } from 'node:path/posix';\nimport { read } from '../source/source.ts';\nimport type { Node } from '../source/anything.ts';\nimport { x } from '../../../schemas/agent.ts';\n`,
    },
    { path: 'internal/flows/sync/sync.ts', text: `${door}import { x } from '../secrets/secrets.ts';\n` },
    { path: 'internal/core/match/match.ts', text: `${door}// Date.now() is not for here\n` },
    {
      path: 'internal/core/match/match.test.ts',
      text: "import fc from 'fast-check';\nimport { readFileSync } from 'node:fs';\n",
    },
    { path: 'cmd/svcd/main.ts', text: `function f(): void {\n${long(68)}}\nconst home = process.env['HOME'];\n` },
  ];
  assert.deepEqual(tidy(files), []);
});
