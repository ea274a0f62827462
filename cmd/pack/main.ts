// Makes what `npm pack` puts into the package, in dist/: the modules that svc and svcd are made of, each stripped of its types
// where it stands (Node strips none below node_modules), and the files that they read. No bundle: a line and column of
// an installed module are those of its source. Beside it npm-shrinkwrap.json, the lockfile without what only developing
// takes, so that an installed svc has the versions that were tested. `postpack` takes both away again.

import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { dirname, join, normalize, relative } from 'node:path';

const root = join(import.meta.dirname, '../..');
const out = join(root, 'dist');

const entries = ['cmd/svc/main.mjs', 'cmd/svcd/main.mjs'];
/** Read at run time; browser modules are stripped of their types by whoever serves them. */
const read = [
  ...['internal/edge/web/client', 'templates', 'migrations', 'docs'],
  ...['README.md', 'ARCHITECTURE.md', 'CONTRIBUTING.md', 'CHANGELOG.md'],
];

/** Relative modules: what is imported, now or later, and what is started by its address. */
const specifierPattern =
  /(\bfrom\s*|\bimport\s*\(?\s*|\bnew URL\(\s*)(['"])(\.{1,2}\/[^'"\n]+?\.(?:ts|mjs|cjs|json))\2/g;

function packModules(): number {
  const waiting = [...entries];
  const seen = new Set(waiting);
  for (let path = waiting.pop(); path !== undefined; path = waiting.pop()) {
    const from = path;
    const source = readFileSync(join(root, from), 'utf8');
    const plain = from.endsWith('.ts') ? stripTypeScriptTypes(source) : source;
    const text = from.endsWith('.json')
      ? plain
      : plain.replace(specifierPattern, (whole: string, before: string, quote: string, specifier: string) => {
          const target = normalize(join(dirname(from), specifier));
          if (!existsSync(join(root, target))) return whole;
          if (target !== 'package.json' && !seen.has(target)) waiting.push(target);
          seen.add(target);
          return `${before}${quote}${specifier.replace(/\.ts$/, '.js')}${quote}`;
        });
    const target = join(out, from.replace(/\.ts$/, '.js'));
    mkdirSync(dirname(target), { recursive: true });
    writeFileSync(target, text);
  }
  return seen.size;
}

interface Lock {
  readonly packages: { readonly [path: string]: { readonly dev?: boolean; readonly [key: string]: unknown } };
  readonly [key: string]: unknown;
}

function shrinkwrap(): void {
  const lock = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')) as Lock;
  const kept = Object.entries(lock.packages).filter(([, one]) => one.dev !== true);
  const packages = Object.fromEntries(kept.map(([path, one]) => [path, { ...one }]));
  delete packages['']?.['devDependencies'];
  const text = JSON.stringify({ ...lock, packages }, null, 2);
  writeFileSync(join(root, 'npm-shrinkwrap.json'), `${text}\n`);
}

rmSync(out, { recursive: true, force: true });
const count = packModules();
for (const path of read) {
  cpSync(join(root, path), join(out, path), { recursive: true, filter: (from) => !from.endsWith('.test.ts') });
}
const { name, version, type } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as Record<string, unknown>;
writeFileSync(join(out, 'package.json'), `${JSON.stringify({ name, version, type, private: true }, null, 2)}\n`);
shrinkwrap();
process.stderr.write(`packed ${count} modules into ${relative(root, out)}\n`);
