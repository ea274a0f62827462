// How documents become layers and layers one, word by word, in testdata/messages/merging.txt: what stands after it, what is
// reported where, and what it cost.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Finding, Range } from '../../domain/diagnostic.ts';
import { type MapNode, toPlain } from '../source/node.ts';
import { Merging } from './budget.ts';
import { listItemsMax, textCharactersMax } from './limits.ts';
import { type Layer, mergeLayers } from './merge.ts';
import { applyRemove } from './remove.ts';
import { ownLayer } from './strings.ts';
import { mergedFrom } from './testkit.ts';

const rootOf = (text: string, file: string): MapNode => mergedFrom(text === '' ? '{}' : text, file).root;
const load = (path: string): string | null => (path === 'gone' ? null : `text of ${path}`);
const layerOf = (root: MapNode, report: (finding: Finding) => void): Layer => ownLayer(root, load, report);

function told(
  { entries, pending }: Layer,
  findings: readonly Finding[],
  texts: { readonly [file: string]: string },
): string[] {
  const at = ({ file, start, end }: Range): string => `${file} ${JSON.stringify(texts[file]?.slice(start, end))}`;
  return [
    `    ${JSON.stringify(Object.fromEntries([...entries].map(([key, { value }]) => [key, toPlain(value)])))}`,
    ...[...pending].map(([field, { value }]) => `    waits: ${field} ${JSON.stringify(value.value)}`),
    ...findings.flatMap((one) => [
      `    ${one.severity} ${one.code} at ${one.range === undefined ? '' : at(one.range)} ${one.path ?? ''}: ${one.message}`,
      ...(one.hint === undefined ? [] : [`      ${one.hint}`]),
      ...(one.related ?? []).map(({ message, range }) => `      ${message} ${at(range)}`),
    ]),
  ];
}

const push = 'event: codehost.push';
/** A base and what lies over it. */
const merges: readonly (readonly [base: string, overlay: string])[] = [
  ['', 'labels: {a: b}\nenv: {A: b}'],
  ['systemPrompt: {append: a}', 'labels: {a: b}'],
  ['labels: {a: b, c: d}', 'labels: {a: x, e: f}\nannotations: {g: h}'],
  ['env: {A: {$secret: a, optional: true}}', 'env: {A: {$secret: b}}'],
  [
    'environment: {name: e, image: {kind: preset, name: base}, env: {A: {$secret: a, optional: true}}}',
    'environment: {image: {name: node24}, env: {A: {$secret: b}}, steps: [x]}',
  ],
  ['environment: {a: {b: {c: 1}}}', 'environment: {a: {b: {d: 2}}}'],
  ['environment: e', 'environment: {name: f}'],
  ['environment: {name: f}', 'environment: e'],
  [
    'tools: {t: {kind: mcp_remote, url: a, auth: {kind: oauth, optional: true}}}',
    'tools: {t: {auth: {optional: false}}}',
  ],
  ['manages: [a]\nname: a', 'manages: [b]\nname: b'],
  ['unknown: {a: b}', 'unknown: {c: d}'],
  [
    'mounts: [{name: a, ref: x}, {mountPath: /b, ref: y}, {ref: z}]',
    'mounts: [{mountPath: /b, ref: 1}, {name: a, ref: 2}, {ref: 3}]',
  ],
  ['mounts: [{name: a, mountPath: /a}]', 'mounts: [{name: b, mountPath: /a}, {name: a, mountPath: /b}]'],
  ['mounts: [{name: a, x: 1}, {name: a, x: 2}]', 'mounts: [{name: a, y: 1}, {name: a, y: 2}, {name: a, y: 3}]'],
  ['mounts: {a: b}', 'mounts: [{name: a}]'],
  ['mounts: [{name: a}]', 'mounts: {a: b}'],
  ['env: [A=b]\ntools: x\nlabels: [a]', 'env: {C: d}\ntools: {t: {kind: x}}\nlabels: {a: b}'],
  ['env: {C: d}\ntriggers: [t]', 'env: [A=b]\ntriggers: 5'],
  ['env: [A=b]\ntriggers: {a: b}', 'env: [C=d]\ntriggers: 5'],
  ['environment: {name: a, env: [A=b]}', 'environment: {env: {C: d}}'],
  ['environment: {env: {C: d}}', 'environment: {env: [A=b]}'],
  ['environment: {env: [A=b]}', 'environment: {name: b}'],
  ['environment: {env: [A=b]}', 'environment: b'],
  ['mounts: [a, {name: 1, x: 1}, {name: [a]}]', 'mounts: [a, {name: 1, y: 1}, {name: [a]}]'],
  [
    `triggers: [{name: t, ${push}}, {${push}, where: {a: {in: [1]}}}]`,
    `triggers: [{${push}, where: {a: {exists: true}}, message: m}, {name: t, x: 1}]`,
  ],
  [
    'triggers: [{events: [a, b], x: 1}, {events: [], cron: c, x: 2}, {events: [], cron: d}]',
    'triggers: [{events: [a, b], y: 1}, {events: [], cron: d, y: 2}, {events: [b, a]}]',
  ],
  [
    'triggers: [{events: [5, [a]], x: 1}, {events: [b], x: 2}, {events: b, x: 3}]',
    'triggers: [{events: [5, [a]], y: 1}, {events: [6, b], y: 2}, {events: b, y: 3}]',
  ],
  [
    'triggers: [{cron: c, timezone: z, x: 1}, {cron: c, x: 2}, {timezone: z, x: 3}]',
    'triggers: [{cron: c, y: 2}, {cron: c, timezone: z, y: 1}, {timezone: z, y: 3}]',
  ],
  ['triggers: [t, [u]]', 'triggers: [t, [u]]'],
  ['systemPrompt: a', 'systemPrompt: {append: " b"}'],
  ['systemPrompt: {append: a}', 'systemPrompt: {append: b}'],
  ['systemPrompt: {append: a}', 'systemPrompt: b'],
  ['systemPrompt: a\ninitialPrompt: {append: c}', 'systemPrompt: b'],
  ['systemPrompt: [a]', 'systemPrompt: {append: b}'],
  ['systemPrompt: 5', 'systemPrompt: {append: b}'],
  ['', 'systemPrompt: {append: b}'],
  ['labels: {a: b}', 'systemPrompt: {append: b}'],
];

/** A document by itself. */
const documents: readonly string[] = [
  'name: a\nlabels:\nimports: [x]\nvariables: {a: b}\nremove: {env: a}\nimport: y',
  'systemPrompt: {file: a.md}\ninitialPrompt: {file: gone}\ndisplayTitle: {append: b}\nlabels: {file: c}',
  'systemPrompt: {file: 5}\ninitialPrompt: {append: [a]}\ndisplayTitle: {other: x}\nonReplace: {}',
  'systemPrompt: {file: a, append: b}\ninitialPrompt: {other: 5}\ndisplayTitle: {append: ~}\nonReplace: [a]',
];

/** What is taken out of what. */
const removals: readonly (readonly [base: string, remove: string])[] = [
  ['env: {A: a, B: b}\ntools: {t: {kind: x}}', '{env: [A, C], tools: t}'],
  ['env: {A: a}', '{env: [A, A], tools: [t, t]}'],
  ['triggers: [{name: a}, {name: b}, {cron: c}, x]', '{triggers: [b, "cron:c:", d]}'],
  ['triggers: {a: b}\ntools: [{name: t}]\nenv: x', '{triggers: a, tools: t, env: A}'],
  ['env: {A: a}', '{env: [1, ~, [A]], tools: {a: b}, triggers: ~}'],
  ['env: {A: a}', `{env: ${'k'.repeat(121)}, ${'l'.repeat(61)}: a, labels: b}`],
  ['env: {A: a}', '[env]'],
];

const short = (text: string): string =>
  text.replace(/(.{1,9}?)\1{29,}/gs, (run, unit: string) => `${unit}×${run.length / unit.length}`);

test('what layers become stands in these words', (t) => {
  const lines: string[] = [];
  const row = (
    title: string,
    texts: { readonly [file: string]: string },
    make: (report: (finding: Finding) => void, merging: Merging) => Layer,
  ): void => {
    const findings: Finding[] = [];
    const merging = new Merging();
    const layer = make((finding) => findings.push(finding), merging);
    lines.push(title, ...told(layer, findings, texts), `    work ${merging.work}`);
  };
  for (const [base, overlay] of merges)
    row(`${base}\n  and ${overlay}`, { base, overlay }, (report, merging) =>
      mergeLayers(layerOf(rootOf(base, 'base'), report), layerOf(rootOf(overlay, 'overlay'), report), merging, report),
    );
  for (const text of documents) row(text, { text }, (report) => layerOf(rootOf(text, 'text'), report));
  for (const [base, remove] of removals) {
    for (const isIncomplete of [false, true]) {
      const text = `remove: ${remove}\n`;
      const title = `${base}\n  without ${remove}${isIncomplete ? ', of what is not all there' : ''}`;
      row(title, { base, text }, (report, merging) => {
        const asked = rootOf(text, 'text').entries.get('remove')?.value;
        return applyRemove(layerOf(rootOf(base, 'base'), report), asked, isIncomplete, merging, report);
      });
    }
  }
  const file = join(import.meta.dirname, '../../../testdata/messages/merging.txt');
  t.assert.fileSnapshot(`${lines.map(short).join('\n')}\n`, file, { serializers: [String] });
});

test('a list and a text grow as far as they may, and no further', () => {
  const range = { file: 'f', start: 0, end: 1 };
  const keyRange = { file: 'f', start: 2, end: 3 };
  const scalar = (value: string) => ({ kind: 'scalar', value, range }) as const;
  const listed = (count: number): Layer => {
    const items = Array.from({ length: count }, () => scalar('a'));
    return { entries: new Map([['mounts', { keyRange, value: { kind: 'seq', items, range } }]]), pending: new Map() };
  };
  const texts = (text: string, appended: string): readonly [Layer, Layer] => [
    { entries: new Map([['systemPrompt', { keyRange, value: scalar(text) }]]), pending: new Map() },
    { entries: new Map(), pending: new Map([['systemPrompt', { keyRange, value: scalar(appended) }]]) },
  ];
  const merge = ([base, overlay]: readonly [Layer, Layer], field: string) => {
    const findings: Finding[] = [];
    const { entries } = mergeLayers(base, overlay, new Merging(), (finding) => findings.push(finding));
    const value = entries.get(field)?.value;
    return [
      value?.kind === 'seq' ? value.items.length : value?.kind === 'scalar' && String(value.value).length,
      findings,
    ];
  };
  const grown = (message: string, path: string, at: Range) => [
    { severity: 'error', code: 'invalid-value', message, range: at, path },
  ];
  assert.deepEqual(merge([listed(listItemsMax - 1), listed(1)], 'mounts'), [listItemsMax, []]);
  const long = 'mounts grows past 10000 items by merging';
  assert.deepEqual(merge([listed(listItemsMax), listed(1)], 'mounts'), [1, grown(long, 'mounts', keyRange)]);
  const most = 'x'.repeat(textCharactersMax - 1);
  assert.deepEqual(merge(texts(most, 'y'), 'systemPrompt'), [textCharactersMax, []]);
  const large = 'systemPrompt grows past 1048576 characters by appending';
  assert.deepEqual(merge(texts(most, 'yz'), 'systemPrompt'), [2, grown(large, 'systemPrompt', range)]);
});
