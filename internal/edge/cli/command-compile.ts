// `svc compile` and `svc validate`: a tree compiled here, without a server. Diagnostics are the reason of a refusal and go
// to stderr; under --json they are in the document.

import type { Resource } from '../../domain/spec.ts';
import { clean, resourceCount } from './text.ts';
import { type CompiledTree, compileOutput } from './tree.ts';
import type { Call, Handler } from './types.ts';

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
  const output = await compileOutput(call);
  const { ok, diagnostics } = output;
  call.screen.emit({ ok, diagnostics }, () =>
    ok ? `${call.screen.paint('green', 'ok')}: ${resourceCount(output.resources)}` : '',
  );
  const code = await finish(call, output);
  return call.flag('strict') && diagnostics.length > 0 ? 1 : code;
};

async function finish(call: Call, output: CompiledTree['output']): Promise<number> {
  if (!call.json && output.diagnostics.length > 0) {
    const { printDiagnostics } = await import('./diagnostics.ts');
    call.screen.note(printDiagnostics(output.diagnostics, call.screen.errPaint));
  }
  return output.ok ? 0 : 1;
}
