// `svc explain FIELD`: what a field of an agent document is, from the table that compile reads documents by.

import { type Explained, explain, knownPart, nearestPath } from '../../../schemas/explain.ts';
import { refusal } from './failure.ts';
import { type Paint, pad } from './text.ts';
import type { Handler } from './types.ts';

export const explainCommand: Handler = async (call) => {
  const path = call.optionalArg('FIELD') ?? '';
  const found = explain(path);
  const [first, ...others] = found;
  if (first === undefined) {
    const near = nearestPath(path);
    const part = knownPart(path);
    const list =
      part === undefined ? 'svc explain lists the fields of the root.' : `svc explain ${part} lists what is there.`;
    const hint = near === undefined ? list : `Did you mean ${near}?`;
    throw refusal('no-such-field', `There is no field ${path} in an agent document`, hint);
  }
  // A path that several variants have is told of each; the first stands for all where one answer is asked for.
  const document = others.length === 0 ? first : { ...first, variants: found };
  call.screen.emit(document, () => found.map((one) => textOf(one, call.screen.paint)).join('\n\n'));
  return 0;
};

function textOf(field: Explained, paint: Paint): string {
  const rows: [label: string, value: string][] = [
    ['type', field.type],
    ['required', field.required === 'merged' ? 'yes, once imports are merged' : field.required ? 'yes' : 'no'],
  ];
  if (field.default !== undefined) rows.push(['default', JSON.stringify(field.default)]);
  if (field.otherwise !== undefined) rows.push(['where absent', field.otherwise]);
  for (const limit of field.limits) rows.push(['limits', limit]);
  if (field.rule !== undefined) rows.push(['rule', field.rule]);
  if (field.merge !== undefined) rows.push(['merging', field.merge]);
  if (field.legacy !== undefined) rows.push(['legacy', field.legacy.join(', ')]);
  const head = paint('bold', field.path === '' ? 'agent document' : field.path);
  const lines = [field.when === undefined ? head : `${head}  ${paint('grey', `(${field.when})`)}`];
  lines.push(`  ${field.description}`, '');
  lines.push(...rows.map(([label, value]) => `  ${pad(label, 12)}  ${value}`));
  if (field.example !== undefined) lines.push('', '  example', ...exampleLines(field));
  if (field.fields !== undefined) {
    const width = Math.max(...field.fields.map(({ name }) => name.length));
    lines.push('', '  fields');
    for (const { name, required, description } of field.fields)
      lines.push(`    ${pad(required ? `${name}*` : name, width + 1)}  ${description}`);
  }
  if (field.kinds !== undefined) {
    const width = Math.max(...field.kinds.map(({ path }) => path.length));
    lines.push('', '  kinds');
    for (const { path, description } of field.kinds) lines.push(`    svc explain ${pad(path, width)}  ${description}`);
  }
  return lines.join('\n');
}

/** The example under its own key, as JSON, which YAML takes as it is. */
function exampleLines({ path, example }: Explained): string[] {
  const key = /([A-Za-z_$][\w.]*)$/.exec(path)?.[1] ?? '';
  const value = JSON.stringify(example);
  return [`    ${key === '' ? '' : `${key}: `}${value}`];
}
