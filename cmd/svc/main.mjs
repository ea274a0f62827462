// How `svc` is started: plain JavaScript, so that nothing has to be stripped of types before the cache of compiled modules is
// open, which makes every start twice as quick. The version is told without loading anything else.

import { readFileSync } from 'node:fs';
import { cacheModules } from '../module-cache.mjs';

const argv = process.argv.slice(2);
if (argv.length === 1 && /^(?:--version|-V|version)$/.test(argv[0] ?? '')) {
  const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));
  process.stdout.write(`svc ${version} (node ${process.versions.node})\n`);
} else {
  cacheModules();
  await import('./main.ts');
}
