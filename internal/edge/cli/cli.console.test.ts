// Each command that the console's pages show is one that the command line takes.

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { parseArgv } from './parse.ts';
import { globalOptions } from './table-global.ts';
import { commands } from './table.ts';

const client = new URL('../web/client/', import.meta.url);

test('each command that a page shows is understood', () => {
  let count = 0;
  const wrong: string[] = [];
  for (const name of readdirSync(client).filter((file) => file.endsWith('.ts'))) {
    const text = readFileSync(new URL(name, client), 'utf8').replaceAll(/^\s*(\/\/|\*|\/\*).*$/gm, '');
    for (const [, shown = ''] of text.matchAll(
      /(?<=[`'"]|: )svc ([a-z]+ [^`"\n]*?)(?:[`"]|'[,;]|\$\{text ===|\.$)/gm,
    )) {
      // Of several by what stands in a variable.
      if (/^(session \$\{command|secret \$\{what)/.test(shown)) continue;
      // What is put in is one word; what may be left out is.
      const line = shown
        .replaceAll(/\$\{flagOf[^}]*\}/g, '')
        .replaceAll(/\$\{[^}]*\}/g, 'open')
        .replaceAll("'", '')
        .replace('PROVIDER', 'chat');
      try {
        parseArgv(line.trim().split(/\s+/), commands, globalOptions);
      } catch (error) {
        wrong.push(`${name}: svc ${line}: ${String(error)}`);
      }
      count += 1;
    }
  }
  assert.deepEqual(wrong, []);
  assert.ok(count > 50, String(count));
});

test('each filter of a list is an option of the command that the list shows', () => {
  let count = 0;
  for (const name of readdirSync(client).filter((file) => file.startsWith('page-'))) {
    const text = readFileSync(new URL(name, client), 'utf8');
    const [, command] = /^  command: ['`]svc ([a-z ]+)/m.exec(text) ?? [];
    if (command === undefined) continue;
    const spec = commands.find(({ words }) => words.join(' ') === command.trim());
    for (const [, field = '', more = ''] of text.matchAll(/field: '(\w+)',([^}]*)/g)) {
      if (more.includes('option: null')) continue;
      const option = /option: '(\w+)'/.exec(more)?.[1] ?? field;
      assert.ok(
        spec?.options.some((one) => one.name === option),
        `svc ${command} --${option}`,
      );
      count += 1;
    }
  }
  assert.ok(count > 10, String(count));
});
