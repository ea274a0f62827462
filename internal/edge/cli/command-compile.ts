// `svc compile` and `svc validate`: a tree compiled here, without a server. Diagnostics are the reason of a refusal and go
// to stderr; under --json they are in the document.

import { relative, resolve } from 'node:path';
import type { Resource } from '../../domain/spec.ts';
import { UsageError } from './failure.ts';
import { clean, resourceCount } from './text.ts';
import { type CompiledTree, compileOutput, treePath } from './tree.ts';
import type { Call, Handler } from './types.ts';
import type { CheckFormat } from './validate-formats.ts';

export const compileCommand: Handler = async (call) => {
  const output = await compileOutput(call);
  const { ok, resources, diagnostics } = output;
  const { jsonLines } = await import('./lists.ts');
  call.screen.emit({ ok, resources, diagnostics }, () =>
    resources.map((resource) => resourceText(resource, call, jsonLines)).join('\n'),
  );
  return finish(call, output);
};

function resourceText(resource: Resource, call: Call, lines: (value: unknown, indent: string) => string): string {
  const { paint } = call.screen;
  const file = resource.source === undefined ? '' : paint('grey', `  ${clean(resource.source.file, true)}`);
  return `${paint('bold', `${resource.kind} ${resource.name}`)}${file}\n${lines(resource.spec, '  ')}\n`;
}

export const validateCommand: Handler = async (call) => {
  const strict = call.flag('strict');
  const format = call.text('format');
  if (format !== undefined && call.json) throw new UsageError('give one of --format and --json');
  const output = await compileOutput(call, strict);
  const { ok, diagnostics } = output;
  const code = !ok || (strict && diagnostics.length > 0) ? 1 : 0;
  if (format !== undefined) {
    const { checkText } = await import('./validate-formats.ts');
    const { ownVersion } = await import('./command-version.ts');
    const prefix = relative(call.io.cwd, resolve(call.io.cwd, treePath(call)));
    const text = checkText(format as CheckFormat, { diagnostics, prefix, version: await ownVersion() });
    call.screen.emit(undefined, () => text);
    return code;
  }
  call.screen.emit({ ok, diagnostics }, () =>
    ok ? `${call.screen.paint('green', 'ok')}: ${resourceCount(output.resources)}` : '',
  );
  await finish(call, output);
  return code;
};

async function finish(call: Call, output: CompiledTree['output']): Promise<number> {
  if (!call.json && output.diagnostics.length > 0) {
    const { printDiagnostics } = await import('./diagnostics.ts');
    call.screen.note(printDiagnostics(output.diagnostics, call.screen.errPaint));
  }
  return output.ok ? 0 : 1;
}
