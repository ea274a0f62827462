// `svc diff` and `svc apply`: the tree is read and compiled here to learn which files it names, then the files go to the
// server, which compiles them against its own configuration and decides.

import * as apply from '../../../schemas/api/apply.ts';
import type { Diagnostic } from '../../domain/diagnostic.ts';
import { connect } from './client.ts';
import { printOptions } from './command-reconcile.ts';
import { Refusal } from './failure.ts';
import { countText, printPlan } from './print-run.ts';
import { contextOf } from './settings.ts';
import { compileTree, type CompiledTree } from './tree.ts';
import type { Call, Handler } from './types.ts';

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

export const diffCommand: Handler = (call) => run(call, true);
export const applyCommand: Handler = (call) => run(call, call.flag('dry-run'));

async function run(call: Call, dryRun: boolean): Promise<number> {
  const tree = await compileTree(call);
  const leftOut = refuseWhatCannotBeSent(tree);
  const client = await connect(call);
  const context = contextOf(call);
  const body = {
    files: filesOf(tree),
    ...(Object.keys(context).length > 0 && { context }),
    ...(dryRun && { dryRun: true }),
    ...(call.bool('prune') ? {} : { prune: false }),
    ...(call.flag('adopt') && { adopt: true }),
  };
  call.screen.progress(dryRun ? 'planning…' : 'applying…');
  const given = await client.call(apply.applyFiles, { body, timeoutMs: 300_000 });
  const answer = leftOut.length === 0 ? given : { ...given, diagnostics: [...(given.diagnostics ?? []), ...leftOut] };
  call.screen.emit(answer, () => applyText(answer, call));
  const differs = answer.actions.some((action) => action.op !== 'unchanged');
  return dryRun && differs && call.flag('exit-code') ? 1 : 0;
}

function applyText(answer: apply.ApplyResult, call: Call): string {
  const planned = answer.status === 'planned';
  const changed = answer.actions.some((action) => action.op !== 'unchanged');
  if (!changed && (answer.diagnostics ?? []).length === 0) {
    return `no changes (${countText(answer.actions)})`;
  }
  const head = planned ? 'plan' : answer.applyId ? `${answer.status} ${answer.applyId}` : answer.status;
  return [call.screen.paint('bold', head), ...printPlan(answer, printOptions(call))].join('\n');
}

/**
 * What has no bytes, a link or a file that is too large, cannot be sent, and the server would not know that it was there. Refused
 * where something needs it, at its place; gives what is said of the rest, which is left out.
 */
function refuseWhatCannotBeSent({ bundle, output }: CompiledTree): readonly Diagnostic[] {
  const unsendable = [...bundle.entries.values()].filter(({ bytes }) => bytes === undefined).map(({ path }) => path);
  const isOf = (path: string, { file, message }: Diagnostic): boolean => file === path || message.includes(path);
  const errors = output.diagnostics.filter(({ severity }) => severity === 'error');
  const needed = unsendable.filter((path) => errors.some((one) => isOf(path, one)));
  if (needed.length === 0 && bundle.hasSvc)
    return output.diagnostics.filter(({ file }) => file !== undefined && unsendable.includes(file));
  const others = needed.length > 1 ? ` and ${needed.length - 1} more` : '';
  throw new Refusal({
    type: 'about:blank',
    title: 'The tree cannot be applied',
    code: 'invalid-tree',
    detail: bundle.hasSvc ? `${needed[0]}${others} cannot be sent` : 'there is no .svc directory here',
    diagnostics: errors.filter((one) => !bundle.hasSvc || needed.some((path) => isOf(path, one))),
  });
}

function filesOf({ bundle }: CompiledTree): apply.ApplyFile[] {
  const files: apply.ApplyFile[] = [];
  for (const { path, bytes } of bundle.entries.values()) {
    if (bytes === undefined) continue;
    files.push(asText(path, bytes) ?? { path, content: Buffer.from(bytes).toString('base64'), encoding: 'base64' });
  }
  // A `.svc/` without a file cannot be sent as one, and is a tree of no agents like this.
  if (!files.some(({ path }) => path.startsWith('.svc/'))) files.push({ path: '.svc/agents/none.yaml', content: '' });
  return files;
}

function asText(path: string, bytes: Uint8Array): apply.ApplyFile | undefined {
  try {
    return { path, content: utf8.decode(bytes) };
  } catch {
    // Not UTF-8: an image, or a mistake that the server reports at its place.
    return undefined;
  }
}
