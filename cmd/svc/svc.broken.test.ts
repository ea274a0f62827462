// A hundred and more trees as people break them, through the command itself: what it says of each stands in
// testdata/broken/told.txt, to be read aloud. SVC_UPDATE=1 writes that file anew.

import assert from 'node:assert/strict';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, describe, it, test } from 'node:test';
import { Ajv } from 'ajv';
import { validateXML } from 'xmllint-wasm';
import { png } from '../../internal/core/compile/testkit.ts';
import { callSvc } from './testkit.ts';

const directory = join(import.meta.dirname, '../../testdata/broken');
const formats = join(import.meta.dirname, '../../testdata/formats');
const head = 'name: a\nharness: harness-a\nenvironment: { name: e, image: { kind: preset, name: base } }';

interface Case {
  readonly name: string;
  readonly files: ReadonlyMap<string, string>;
}

const sections = (text: string): [name: string, body: string][] =>
  text
    .split(/^=== /m)
    .slice(1)
    .map((part) => {
      const end = part.indexOf('\n');
      return [part.slice(0, end), part.slice(end + 1).replace(/\n+$/, '\n')];
    });

function caseOf([name, body]: [string, string]): Case {
  const files = new Map<string, string>();
  for (const part of `--- .svc/agents/a.yaml\n${body}`.split(/^--- (?=\S)/m).slice(1)) {
    const end = part.indexOf('\n');
    const text = part
      .slice(end + 1)
      .replaceAll('@HEAD', head)
      .replaceAll(/^@TRIGGER (.*)$/gm, 'triggers:\n  - event: $1\n    routing: { kind: spawn }');
    files.set(part.slice(0, end), text);
  }
  // A case may begin with a file of another name.
  if (files.size > 1 && files.get('.svc/agents/a.yaml')?.trim() === '') files.delete('.svc/agents/a.yaml');
  return { name, files };
}

const cases = sections(await readFile(join(directory, 'trees.txt'), 'utf8')).map(caseOf);
const told = new Map(sections(await readFile(join(directory, 'told.txt'), 'utf8').catch(() => '')));
let place: string;
before(async () => {
  place = await mkdtemp(join(tmpdir(), 'svc-broken-'));
});
after(async () => rm(place, { recursive: true, force: true }));

let count = 0;
async function said({ files }: Case, ...options: readonly string[]) {
  const root = join(place, String(count++));
  for (const [path, text] of files) {
    await mkdir(join(root, dirname(path)), { recursive: true });
    const [, width, height] = /^@PNG (\d+)x(\d+)$/m.exec(text) ?? [];
    await writeFile(join(root, path), width === undefined ? text : png(Number(width), Number(height)));
  }
  return callSvc(place, ['validate', '--strict', ...options], { cwd: root }).then((ran) =>
    ran.code === 2 ? callSvc(place, ['validate', root, '--strict', ...options]) : ran,
  );
}

test('there are a hundred cases, each with a name of its own', () => {
  assert.ok(cases.length >= 100);
  assert.equal(new Set(cases.map(({ name }) => name)).size, cases.length);
});

if (process.env['SVC_UPDATE'] === '1') {
  test('the words of every case are written to the golden file', async () => {
    const texts: string[] = [];
    for (const one of cases) texts.push(`=== ${one.name}\n${(await said(one)).stderr}`);
    await writeFile(join(directory, 'told.txt'), texts.join('\n'));
  });
} else {
  describe('a broken tree is refused with the words that help', () => {
    for (const one of cases) {
      it(one.name, async () => {
        const { code, stdout, stderr } = await said(one);
        assert.deepEqual(
          [code, stdout.startsWith('ok'), stderr],
          [1, !/^\d+ errors?/m.test(stderr), told.get(one.name)],
        );
      });
    }
  });
}

test('diagnostics come as annotations, SARIF and JUnit, with files as they are named from here', async () => {
  const one: Case = {
    name: 'formats',
    files: new Map([
      ['sub/.svc/agents/a.yaml', `${head}\ntrigers: []\nconcurrency: 2\nsystemPrompt: "50%, <b>\\n"\nprompt: x\n`],
    ]),
  };
  await said(one);
  const cwd = join(place, String(count - 1));
  const run = (...more: string[]) => callSvc(place, ['validate', 'sub', '--strict', ...more], { cwd });
  const annotations = await run('--format', 'github');
  assert.equal(annotations.code, 1);
  assert.equal(annotations.stderr, '');
  const [first = '', second = ''] = annotations.stdout.split('\n');
  assert.match(
    first,
    /^::warning file=sub\/\.svc\/agents\/a\.yaml,line=4,endLine=4,col=1,endColumn=8,title=svc%3A unknown-root-key::/,
  );
  assert.match(first, /Unknown root key trigers is ignored%0ADid you mean triggers\?$/);
  assert.match(second, /^::error file=sub\/\.svc\/agents\/a\.yaml,line=5,/);
  const log = JSON.parse((await run('--format=sarif')).stdout);
  assert.equal(log.version, '2.1.0');
  const [{ tool, results }] = log.runs;
  assert.deepEqual(
    results.map((result: { level: string }) => result.level),
    ['warning', 'error', 'warning'],
  );
  assert.deepEqual(results[0].locations[0].physicalLocation, {
    artifactLocation: { uri: 'sub/.svc/agents/a.yaml', uriBaseId: '%SRCROOT%' },
    region: { startLine: 4, startColumn: 1, endLine: 4, endColumn: 8 },
  });
  for (const { ruleId, ruleIndex } of results) assert.equal(tool.driver.rules[ruleIndex].id, ruleId);
  const report = (await run('--format', 'junit')).stdout;
  assert.match(report, /<testsuite name="svc validate" tests="1" failures="1" errors="0">/);
  assert.match(report, /<failure type="concurrency[^"]*" message="[^"<]*">sub\/\.svc\/agents\/a\.yaml:5:\d+: error/);
  assert.match(report, /<system-out>.*unknown-root-key.*<\/system-out>/);
  assert.equal((await run('--format', 'junit', '--json')).code, 2);
  assert.equal((await run('--format', 'xml')).code, 2);
});

/** A tree without mistakes, and one with an error and a warning, in a format. */
const reports = async (format: string): Promise<{ fileName: string; contents: string }[]> => {
  const trees = { sound: `${head}\n`, broken: `${head.replace('harness:', 'harnes:')}\npromt: "<x>"\n` };
  const made = Object.entries(trees).map(async ([fileName, text]) => {
    const one = { name: fileName, files: new Map([['.svc/agents/a.yaml', text]]) };
    return { fileName, contents: (await said(one, '--format', format)).stdout };
  });
  return Promise.all(made);
};

test('a SARIF report is one by its published schema, also of a tree without mistakes', async () => {
  const schema = JSON.parse(await readFile(join(formats, 'sarif-2.1.0-rtm.5.json'), 'utf8'));
  // Draft 4: its words that later drafts read otherwise are not used here.
  delete schema.$schema;
  delete schema.id;
  const check = new Ajv({ strict: false, validateFormats: false, unicodeRegExp: false }).compile(schema);
  for (const { fileName, contents } of await reports('sarif')) {
    const log = JSON.parse(contents);
    assert.equal(check(log), true, JSON.stringify(check.errors));
    assert.equal(log.runs[0].results.length > 0, fileName === 'broken');
  }
});

test('a JUnit report is one by the schema that Jenkins reads it by, also of a tree without mistakes', async () => {
  const schema = await readFile(join(formats, 'junit-jenkins.xsd'), 'utf8');
  const made = await reports('junit');
  assert.match(made[1]?.contents ?? '', /<failure /);
  const given = [...made, { fileName: 'not', contents: '<testsuites><x/></testsuites>' }];
  const { errors } = await validateXML({ xml: given, schema });
  assert.deepEqual([...new Set(errors.map(({ loc }) => loc?.fileName))], ['not'], JSON.stringify(errors));
});

test('PATH is here where a tree is here, and missing where none is', async () => {
  await mkdir(join(place, 'here/.svc/agents'), { recursive: true });
  await writeFile(join(place, 'here/.svc/agents/a.yaml'), `${head}\n`);
  const here = await callSvc(place, ['validate'], { cwd: join(place, 'here') });
  assert.deepEqual([here.code, here.stdout], [0, 'ok: 1 agent, 1 environment\n']);
  const elsewhere = await callSvc(place, ['validate'], { cwd: place });
  assert.equal(elsewhere.code, 2);
  assert.match(elsewhere.stderr, /PATH is missing, and there is no \.svc\/ here/);
});
