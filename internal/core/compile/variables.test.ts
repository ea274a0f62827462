import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Severity } from '../../domain/diagnostic.ts';
import { textCharactersMax } from './limits.ts';
import { mergedFrom } from './testkit.ts';
import { boundedReport, createScope, declareVariables, type LayerFinding, Substituter } from './variables.ts';

const rootOf = (yaml: string) => mergedFrom(yaml).root;
const said = (findings: readonly LayerFinding[]): string[] =>
  findings.map((one) => `${one.path}: ${one.message}${'hint' in one ? ` | ${one.hint}` : ''}`);

test('findings are kept up to a bound, and the first error past it', () => {
  for (const [severities, kept] of [
    ['warning warning warning error error warning', [0, 1, 3]],
    ['warning error error warning', [0, 1]],
    ['warning', [0]],
  ] as const) {
    const findings: LayerFinding[] = [];
    const report = boundedReport(findings, 2);
    for (const [at, severity] of severities.split(' ').entries())
      report({ severity: severity as Severity, code: 'variable-invalid', message: String(at) });
    assert.deepEqual(
      findings.map(({ message }) => Number(message)),
      kept,
      severities,
    );
  }
});

test('the key of a scope tells names, values and who declares them, in any order', () => {
  const { key } = createScope(new Map(Object.entries({ b: '2', a: '1' })), new Set(['b']));
  assert.equal(key, '{"$b":"2","a":"1"}');
  assert.equal(createScope(new Map(Object.entries({ a: '1', b: '2' })), new Set(['b'])).key, key);
});

test('variables that cannot be declared are told, with the nearest name that can', () => {
  const long = `a-${'x'.repeat(70)}`;
  for (const [yaml, ...told] of [
    ['{ok: 1, Ok_2: x, _: true}'],
    ['{my-name: 1}', 'variables.my-name: The variable name "my-name" is NOT | Did you mean my_name?'],
    ['{"a b": 1}', 'variables["a b"]: The variable name "a b" is NOT | Did you mean a_b?'],
    ['{1x: 1}', 'variables["1x"]: The variable name "1x" is NOT'],
    ['{"": 1}', 'variables[""]: The variable name "" is NOT'],
    [
      `{${long}: 1}`,
      `variables.${long}: The variable name "${long.slice(0, 60)}" is NOT | Did you mean a_${'x'.repeat(58)}?`,
    ],
    ['{a: [x]}', 'variables.a: The variable a must be a string, a number or a boolean'],
    ['[x]', 'variables: "variables" is a map of names to strings, numbers or booleans'],
  ] as const) {
    const findings: LayerFinding[] = [];
    const node = rootOf(`variables: ${yaml}\n`).entries.get('variables')?.value;
    declareVariables(node, createScope(new Map()), (finding) => findings.push(finding));
    const not = 'not a letter or _ followed by letters, digits or _';
    assert.deepEqual(said(findings), told.map((one) => one.replace('NOT', not)) as string[], yaml);
  }
});

const substitute = (values: { readonly [name: string]: string }, yaml: string) => {
  const findings: LayerFinding[] = [];
  const root = rootOf(yaml);
  const made = new Substituter(createScope(new Map(Object.entries(values)))).document(root, (one) =>
    findings.push(one),
  );
  return { root, made, told: said(findings) };
};

test('a document without a token that changes is the same one', () => {
  const { root, made, told } = substitute({ a: '1' }, 'labels: {k: v}\nsteps: [a, {b: "{{ payload }}"}, 3]\n');
  assert.deepEqual([made === root, told], [true, []]);
});

test('problems are told at the path of their own', () => {
  const long = 'k'.repeat(70);
  const unknown = (path: string, name: string): string =>
    `${path}: The variable $${name} is not in scope; in scope: a | The agent that imports this gives it, for example: variables: { ${name}: value }`;
  const { told } = substitute(
    { a: long },
    `steps: ["{{ $x }}", ["{{ $y }}"], "{{ $z }}"]\nlast: "{{ $w }}"\nm: {${long}: 1, "{{ $a }}": 2}\n`,
  );
  assert.deepEqual(told, [
    unknown('steps[0]', 'x'),
    unknown('steps[1][0]', 'y'),
    unknown('steps[2]', 'z'),
    unknown('last', 'w'),
    `m["{{ $a }}"]: Two keys are "${long.slice(0, 60)}" after substitution`,
  ]);
});

test('a text is made up to its bound, and sixteen of them for one agent', () => {
  const substituter = new Substituter(createScope(new Map([['a', 'x'.repeat(textCharactersMax)]])));
  const { range } = rootOf('a: 1\n');
  const findings: LayerFinding[] = [];
  const make = (text: string): number =>
    substituter.text(
      text,
      () => range,
      ['p'],
      (one) => findings.push(one),
    ).length;
  const kept = `{{ payload }}${'x'.repeat(textCharactersMax)}`;
  assert.equal(make(kept), kept.length);
  for (let made = 0; made < 16; made += 1) assert.equal(make('{{ $a }}'), textCharactersMax);
  assert.deepEqual(findings, []);
  assert.equal(make('{{ $a }}'), '{{ $a }}'.length);
  assert.deepEqual(said(findings), ['p: Substitution makes too much text here']);
});
