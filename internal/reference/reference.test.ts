// The pages of docs/reference that tables make are those that lie in the repository; `make reference` writes them anew.
// Every citation in the sources leads to a heading of a page.

import assert from 'node:assert/strict';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { binding } from '../../schemas/api/bindings.ts';
import { call } from '../../schemas/api/calls.ts';
import { triggerStatus } from '../../schemas/api/common.ts';
import { connection } from '../../schemas/api/connections.ts';
import { endpoint } from '../../schemas/api/endpoints.ts';
import { eventStatus } from '../../schemas/api/events.ts';
import { runStatus } from '../../schemas/api/reconciles.ts';
import { sessionCheck, sessionState } from '../../schemas/api/sessions.ts';
import { auditActions } from '../domain/audit-actions.ts';
import { referencePages } from './reference.ts';

const root = join(import.meta.dirname, '../..');
const pages = referencePages();

for (const [file, text] of Object.entries(pages)) {
  test(`docs/reference/${file} is what its table says`, (t) => {
    t.assert.fileSnapshot(text.trimEnd(), join(root, 'docs/reference', file), {
      serializers: [(value: unknown) => String(value)],
    });
  });
}

/** A heading's anchor, as the usual renderers of Markdown make it. */
const anchorOf = (heading: string): string =>
  heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
    .trim()
    .replaceAll(/\s/g, '-');

/** A page, with the anchors that are named of it behind commas or `and`. */
const citation =
  /\b(?:docs\/(?:reference|adr)\/[a-z0-9-]+|ARCHITECTURE)\.md(?:#[a-z0-9_-]+(?:(?:,| and|, and) #[a-z0-9_-]+)*)?/g;

test('every citation leads somewhere', () => {
  const files = globSync('{cmd,internal,schemas,migrations,docs,templates}/**/*.{ts,sql,md}', { cwd: root });
  const anchors = new Map<string, Set<string>>();
  const found: string[] = [];
  let followed = 0;
  for (const file of [...files, 'README.md', 'ARCHITECTURE.md']) {
    const lines = readFileSync(join(root, file), 'utf8').split('\n');
    lines.forEach((line, index) => {
      for (const match of line.matchAll(citation)) {
        const [path = '', ...named] = match[0].split(/(?:(?:,| and|, and) )?#/);
        if (!anchors.has(path)) anchors.set(path, headingsOf(path));
        followed += 1;
        const known = anchors.get(path);
        if (known === undefined || known.size === 0) found.push(`${file}:${index + 1}: ${path} is not there`);
        for (const anchor of named)
          if (known?.has(anchor) === false) found.push(`${file}:${index + 1}: ${path}#${anchor}`);
      }
    });
  }
  assert.deepEqual(found, []);
  assert.ok(followed > 100, `only ${followed} citations were found`);
});

test('every decision is in the list of decisions', () => {
  const list = readFileSync(join(root, 'docs/adr/README.md'), 'utf8');
  const pages = globSync('docs/adr/*.md', { cwd: root }).map((path) => path.split('/').at(-1) ?? '');
  const unlisted = pages.filter((page) => /^(?!0000)\d/.test(page) && !list.includes(`](${page})`));
  assert.deepEqual(unlisted, []);
  assert.ok(pages.length > 10, `only ${pages.length} pages were found`);
});

test('every path that the way in names is there', () => {
  const missing: string[] = [];
  let followed = 0;
  for (const page of ['ARCHITECTURE.md', 'CONTRIBUTING.md']) {
    const text = readFileSync(join(root, page), 'utf8');
    // A path of the sources is named from the root or from internal/; what holds <name>, * or {…} stands for many.
    const named = [...text.matchAll(/`([\w./-]+)`/g)]
      .map((match) => match[1] ?? '')
      .filter(
        (path) =>
          path.includes('/') &&
          /^(?:[a-z.]|[A-Z]+\.md)/.test(path) &&
          !/^\.?svc[./]/.test(path) &&
          !path.startsWith('/'),
      );
    const folders = [...text.matchAll(/^(?: {2})?([a-z]+)\/ /gm)].map((match) => match[1] ?? '');
    for (const path of [...named, ...folders]) {
      followed += 1;
      if (![path, `internal/${path}`].some((one) => existsSync(join(root, one)))) missing.push(`${page}: ${path}`);
    }
  }
  assert.deepEqual(missing, []);
  assert.ok(followed > 40, `only ${followed} paths were found`);
});

test('the closed lists of states.md have each word that the API answers', () => {
  const text = readFileSync(join(root, 'docs/reference/states.md'), 'utf8');
  const rows = new Map(
    [...text.matchAll(/^\| (?!Of|-)(.+?) \| (.+) \|$/gm)].map(([, of = '', words = '']) => [of, words]),
  );
  for (const [of, shape] of Object.entries({
    'reconcile run': runStatus,
    'event (`routerStatus`)': eventStatus,
    session: sessionState,
    check: sessionCheck.entries.state,
    binding: binding.entries.state,
    trigger: triggerStatus,
    'webhook endpoint': endpoint.entries.status,
    connection: connection.entries.status,
    'call to the outside': call.entries.status,
  }))
    for (const word of shape.options) assert.ok(rows.get(of)?.includes(`\`${word}\``), `${of}: ${word}`);
});

test('the actions of the audit are those that something writes, in order', () => {
  const sources = globSync('internal/{flows,adapters/store}/**/*.ts', { cwd: root, exclude: ['**/*.test.ts'] }).map(
    (file) => readFileSync(join(root, file), 'utf8'),
  );
  const known = Object.keys(auditActions);
  assert.deepEqual(known, [...new Set(known)].sort());
  // Some are put together, of a word for what they are about and one for what happened.
  const isWritten = (action: string): boolean =>
    [action, action.replace(/^.*\./, ''), action.replace(/^.*\.(?:setup_|device_)/, '')].some((word) =>
      sources.some((text) => text.includes(`'${word}'`)),
    );
  assert.deepEqual(
    known.filter((action) => !isWritten(action)),
    [],
  );
  // The compiler holds every other writer to the table; statements name theirs in a text of SQL.
  const inSql = sources
    .filter((text) => /insert into svc\.audit\b/.test(text))
    .flatMap((text) => text.match(/(?<=')secret\.[a-z]+(?=')/g) ?? []);
  assert.ok(inSql.length >= 3);
  for (const action of inSql) assert.ok(known.includes(action), action);
});

test('the glossary has each word once, in order', () => {
  const text = readFileSync(join(root, 'docs/glossary.md'), 'utf8');
  const words = [...text.matchAll(/^\| (?!Word|-)(.+?) \|/gm)].map((match) => match[1] ?? '');
  assert.ok(words.length > 30);
  assert.deepEqual(words, [...new Set(words)].sort());
});

function headingsOf(path: string): Set<string> {
  let text: string;
  try {
    text = readFileSync(join(root, path), 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return new Set();
    throw error;
  }
  const named = [...text.matchAll(/<a (?:id|name)="([^"]+)">/g)].map((match) => match[1] ?? '');
  return new Set([...[...text.matchAll(/^#{1,6} (.+)$/gm)].map((match) => anchorOf(match[1] ?? '')), ...named]);
}
