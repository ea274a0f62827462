// Trees that tests compile in a row each, and what is told of one, word by word.

import type { BundleEntry, ResolvedTemplate, UnresolvedTemplate } from '../../domain/bundle.ts';
import type { Diagnostic } from '../../domain/diagnostic.ts';
import { compile, createCompileCache } from './compile.ts';
import { agentHead, inputWith } from './testkit.ts';
import type { CompileInput } from './types.ts';

export type Files = { readonly [path: string]: string | Partial<BundleEntry> };
export type Row = readonly [what: string, files: Files, more?: Partial<CompileInput>];

export const agentFile = '.svc/agents/a.yaml';
export const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
export const inputOf = (files: Files): CompileInput =>
  inputWith(
    Object.fromEntries(Object.entries(files).map(([path, one]) => [path, typeof one === 'string' ? bytes(one) : one])),
  );
/** An agent that says this beside what each must. */
export const agent = (body: string): Files => ({ [agentFile]: agentHead + body });
export const importing = (text: string, more: Files = {}): Files => ({ ...agent(`imports: [${text}]\n`), ...more });
export const fragment = (body: string, own = ''): Files => ({
  ...agent(`imports: ../fragments/f.yaml\n${own}`),
  '.svc/fragments/f.yaml': body,
});
export const list = (count: number, one: (index: number) => string): string =>
  Array.from({ length: count }, (_, index) => one(index)).join('');

export const template = (version: string, requested: string): ReadonlyMap<string, ResolvedTemplate> => {
  const specifier = `@a/b@${requested}`;
  const entry: BundleEntry = { path: 'c.yaml', kind: 'file', oid: 'c', bytes: bytes('labels: {t: c}\n') };
  const files = new Map([['c.yaml', entry]]);
  return new Map([[specifier, { specifier, name: '@a/b', requested, version, integrity: 'dir-x', files }]]);
};
export const failing = (error: UnresolvedTemplate['error'], detail: string): ReadonlyMap<string, UnresolvedTemplate> =>
  new Map([['@a/b@1', { specifier: '@a/b@1', error, detail }]]);

export const findingOf = ({
  file,
  line,
  column,
  severity,
  code,
  path,
  message,
  hint,
  related = [],
}: Diagnostic): string[] => [
  `  ${[file, line, column].filter((part) => part !== undefined).join(':')} ${severity} ${code} ${path ?? ''}: ${message}`,
  ...(hint === undefined ? [] : [`    ${hint}`]),
  ...related.map((other) => `    ${other.file}:${other.line}:${other.column} ${other.message}`),
];
const short = (text: string): string =>
  text.replace(/(.{1,9}?)\1{29,}/gs, (run, unit: string) => `${unit}×${run.length / unit.length}`);

/** Compiles twice with one cache, which must make no difference, and tells the second time. */
export function toldOf([what, files, more]: Row): string[] {
  const input = { ...inputOf(files), ...more, cache: createCompileCache() };
  compile(input);
  const { ok, diagnostics, needs, resources, outside = [], templateLock } = compile(input);
  const specs = resources.flatMap(({ kind, name, spec }) =>
    kind === 'Agent' ? [`  ${name} ${JSON.stringify(spec)}`] : [],
  );
  return [
    `${what}${ok ? '' : ': refused'}`,
    ...diagnostics.flatMap(findingOf),
    ...(needs.paths.length + needs.templates.length === 0
      ? []
      : [`  needs ${[...needs.paths, ...needs.templates].join(' ')}`]),
    ...(outside.length === 0 ? [] : [`  outside ${outside.join(' ')}`]),
    ...Object.entries(templateLock).map(([name, lock]) => `  lock ${name} ${lock.version} ${lock.integrity}`),
    ...(what.includes('variables') || what.includes('removed') || what.includes('append') || what.includes('prompt')
      ? specs
      : []),
  ].map(short);
}

/** Two agents, each of which lacks what the file may have that they import. */
export const lacking = (file: string): Files => ({
  [agentFile]: `imports: ../fragments/${file}
replace: auto
bindings: {codehost.issue: {lifecycle: held}}
mounts: [{kind: git, repository: a/b, mountPath: /m}]
tools: {t: {kind: codehost, tools: [merge_pull_request]}}
triggers:
  - {routing: {kind: spawn}}
  - {event: codehost.push, routing: {kind: deliver}}
  - {event: codehost.pull_request.opened, routing: {kind: spawn}}
  - {event: codehost.pull_request.opened, routing: {kind: deliver, routeBy: {kind: attributedSessions}}}
`,
  '.svc/agents/b.yaml': `name: b\nimports: ../fragments/${file}\nonReplace: x\n`,
});
