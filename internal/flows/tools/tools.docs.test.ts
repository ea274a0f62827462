import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { toolInputSchema } from '../../../schemas/tool-input.ts';
import { ownTools } from './tools.ts';

const page = fileURLToPath(new URL('../../../docs/reference/tools.md', import.meta.url));
const [begin, end] = ['<!-- tools: begin -->', '<!-- tools: end -->'];

interface Property {
  readonly type?: string;
  readonly enum?: readonly string[];
  readonly default?: unknown;
  readonly description?: string;
  readonly properties?: { readonly [name: string]: Property };
  readonly items?: Property;
  readonly anyOf?: readonly Property[];
}

const typeOf = ({ type, enum: words, items, anyOf }: Property): string =>
  anyOf !== undefined
    ? anyOf.map(typeOf).join(' or ')
    : words !== undefined
      ? words.map((word) => `\`${word}\``).join(', ')
      : items === undefined
        ? `${type}`
        : `${type} of ${items.type}`;

function rows(schema: Property & { readonly required?: readonly string[] }, prefix = ''): string[] {
  return Object.entries(schema.properties ?? {}).flatMap(([name, property]) => {
    const need = schema.required?.includes(name)
      ? 'yes'
      : 'default' in property
        ? `\`${JSON.stringify(property.default)}\``
        : '';
    const row = `| \`${prefix}${name}\` | ${typeOf(property)} | ${need} | ${property.description?.replaceAll('|', '\\|')} |`;
    return [row, ...rows(property, `${prefix}${name}.`), ...rows(property.items ?? {}, `${prefix}${name}[].`)];
  });
}

// `node --test --test-update-snapshots internal/flows/tools/tools.docs.test.ts` writes the page anew.
test('the page of tools lists every one of them, as a harness is shown it', async (t) => {
  const parts = ownTools.flatMap(({ of, tools }) => [
    `### ${of[0] === '`' ? of : of[0]?.toUpperCase() + of.slice(1)}`,
    ...tools.flatMap(({ name, description, effect }) => {
      const inputs = rows(toolInputSchema(name));
      const table = ['| Input | Type | Required, or default | |', '|---|---|---|---|', ...inputs].join('\n');
      const note = effect === 'none' && !description.endsWith('Changes nothing.') ? ' Changes nothing.' : '';
      return [`**\`${name.replaceAll('.', '_')}\`** ${description}${note}`, ...(inputs.length === 0 ? [] : [table])];
    }),
  ]);
  const text = await readFile(page, 'utf8');
  const wanted = `${text.slice(0, text.indexOf(begin))}${begin}\n\n${parts.join('\n\n')}\n\n${text.slice(text.indexOf(end))}`;
  t.assert.fileSnapshot(wanted.trimEnd(), page, { serializers: [(value: unknown) => `${String(value)}`] });
});
