// `svc schema`: JSON Schema of what an author writes, printed or written as files for editors.

import { writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { jsonSchema, jsonSchemaText, schemaKinds, type SchemaKind } from '../../../schemas/json-schema.ts';
import { refusal } from './failure.ts';
import type { Handler } from './types.ts';
import { makeDirectory } from '../../base/files.ts';

export const schemaCommand: Handler = async (call) => {
  const given = call.optionalArg('KIND') as SchemaKind | undefined;
  const directory = call.text('write');
  if (directory === undefined) {
    const kind = given ?? 'agent';
    call.screen.emit(jsonSchema(kind), () => jsonSchemaText(kind));
    return 0;
  }
  const target = resolve(call.io.cwd, directory);
  const kinds = given === undefined ? schemaKinds : [given];
  const files: string[] = [];
  try {
    await makeDirectory(target, 0o777);
    for (const kind of kinds) {
      const file = join(target, `${kind}.schema.json`);
      await writeFile(file, jsonSchemaText(kind));
      files.push(file);
    }
  } catch (error) {
    throw refusal('cannot-write', `${directory} cannot be written (${(error as NodeJS.ErrnoException).code})`);
  }
  call.screen.emit({ files }, () => files.join('\n'));
  return 0;
};
