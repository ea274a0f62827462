import assert from 'node:assert/strict';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

const root = join(import.meta.dirname, '../..');

test('a source file that a page names is there', () => {
  const files = globSync('{cmd,internal,schemas}/**/*.{ts,mjs}', { cwd: root });
  /** A bare name is that of some file; a path begins at the root, or in internal/. */
  const isThere = (path: string): boolean =>
    path.includes('/')
      ? ['', 'internal'].some((from) => existsSync(join(root, from, path)))
      : files.some((one) => one.endsWith(`/${path}`));
  const pages = ['README.md', 'ARCHITECTURE.md', 'CONTRIBUTING.md', ...globSync('docs/**/*.md', { cwd: root })];
  const named = pages.flatMap((page) => {
    const text = readFileSync(join(root, page), 'utf8');
    // What holds a placeholder names no file.
    return [...text.matchAll(/`([a-z0-9][\w.-]*(?:\/[\w.-]+)*\.(?:ts|mjs))`/g)].map(([, path = '']) => ({
      page,
      path,
    }));
  });
  assert.ok(named.length > 20, String(named.length));
  const missing = named.filter(({ path }) => !isThere(path)).map(({ page, path }) => `${page}: ${path}`);
  assert.deepEqual(missing, []);
});
