// JSON Schema of what authors write, for editors and for `svc schema`: of documents from their descriptions, of the
// configuration from its valibot shape. The files under schemas/json are this function's output; a test holds them to it.

import { toJsonSchema } from '@valibot/to-json-schema';
import { agent } from './agent.ts';
import { config } from './config.ts';
import { editorSchema } from './editor-schema.ts';
import { environment } from './environment.ts';
import { identity } from './identity.ts';

export const schemaKinds = ['agent', 'environment', 'identity', 'config'] as const;
export type SchemaKind = (typeof schemaKinds)[number];

const documents = {
  agent: [agent, 'Agent'],
  environment: [environment, 'Environment'],
  identity: [identity, 'Identity'],
} as const;

/** The JSON Schema of one kind of document; draft-07, which every editor reads. */
export function jsonSchema(kind: SchemaKind): { readonly [keyword: string]: unknown } {
  if (kind === 'config') return { ...toJsonSchema(config, { target: 'draft-07' }) };
  const [description, title] = documents[kind];
  return editorSchema(description, title);
}

/** The text of a schema file: what `svc schema KIND` prints and schemas/json holds. */
export const jsonSchemaText = (kind: SchemaKind): string => `${JSON.stringify(jsonSchema(kind), null, 2)}\n`;
