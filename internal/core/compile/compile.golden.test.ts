// Every folder of testdata/compile is a case: `in/` is a tree, `expected.json` what compiling it prints, and `case.json`
// may give context variables and templates. `make golden` writes the expectations anew.

import assert from 'node:assert/strict';
import { existsSync, lstatSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { sha256 } from '../../base/hash.ts';
import { defaultCatalog } from '../../base/config/default-catalog.ts';
import type { BundleEntry, ResolvedTemplate, UnresolvedTemplate } from '../../domain/bundle.ts';
import { compile, needRoundsMax } from './compile.ts';
import type { CompileOutput } from './types.ts';

const root = fileURLToPath(new URL('../../../testdata/compile', import.meta.url));

interface Case {
  readonly context?: { readonly [name: string]: string };
  /** Specifier → the folder below `templates/` and its version, or why it cannot be resolved. */
  readonly templates?: {
    readonly [specifier: string]: { readonly folder: string; readonly version: string } | { readonly error: string };
  };
}

function readTree(folder: string, below = ''): Map<string, BundleEntry> {
  const entries = new Map<string, BundleEntry>();
  for (const name of existsSync(folder) ? readdirSync(folder) : []) {
    const path = below === '' ? name : `${below}/${name}`;
    const place = join(folder, name);
    const stat = lstatSync(place);
    if (stat.isSymbolicLink()) entries.set(path, { path, kind: 'symlink', oid: sha256(readlinkSync(place)) });
    else if (stat.isDirectory()) for (const [key, entry] of readTree(place, path)) entries.set(key, entry);
    else entries.set(path, { path, kind: 'file', oid: sha256(readFileSync(place)), bytes: readFileSync(place) });
  }
  return entries;
}

function templatesOf(folder: string, { templates = {} }: Case): Map<string, ResolvedTemplate | UnresolvedTemplate> {
  const found = new Map<string, ResolvedTemplate | UnresolvedTemplate>();
  for (const [specifier, one] of Object.entries(templates)) {
    const [, name = '', requested = ''] = /^(@.+)@(.+)$/.exec(specifier) ?? [];
    if ('error' in one) {
      found.set(specifier, { specifier, error: one.error as UnresolvedTemplate['error'], detail: '' });
    } else {
      const files = readTree(join(folder, 'templates', one.folder));
      found.set(specifier, { specifier, name, requested, version: one.version, integrity: 'dir-sha256-x', files });
    }
  }
  return found;
}

/** Compiles as a caller does: what is needed is supplied, until nothing is. */
function compileCase(folder: string): CompileOutput {
  const setup = existsSync(join(folder, 'case.json'))
    ? JSON.parse(readFileSync(join(folder, 'case.json'), 'utf8'))
    : {};
  const all = readTree(join(folder, 'in'));
  const inside = (path: string): boolean => path === '.svc' || path.startsWith('.svc/');
  const entries = new Map([...all].filter(([path]) => inside(path)));
  const hasSvc = entries.size > 0;
  const absent = new Set<string>();
  const templates = templatesOf(folder, setup);
  for (let round = 0; round < needRoundsMax; round++) {
    const bundle = { entries, absent, hasSvc };
    const output = compile({ bundle, context: setup.context ?? {}, catalog: defaultCatalog, templates, sha256 });
    assert.deepEqual(output.needs.templates, [], 'case.json names every template');
    if (output.needs.paths.length === 0) return output;
    for (const path of output.needs.paths) {
      const entry = all.get(path);
      if (entry === undefined) absent.add(path);
      else entries.set(path, entry);
    }
  }
  return assert.fail('the needs of a tree end');
}

const cases = readdirSync(root).sort();
assert.ok(cases.length > 0, 'there are golden cases');

for (const name of cases) {
  test(`golden: ${name}`, (t) => {
    const folder = join(root, name);
    const { ok, resources, diagnostics } = compileCase(folder);
    const text = `${JSON.stringify({ ok, resources, diagnostics }, null, 2)}\n`;
    t.assert.fileSnapshot(text, join(folder, 'expected.json'), { serializers: [(value: unknown) => String(value)] });
  });
}
