// Unknown root keys are ignored (docs/reference/compile.md#files); one within edit distance 2 of a known key is most likely a slip.

import { rootKeys } from '../../../schemas/agent.ts';
import type { Finding, Range } from '../../domain/diagnostic.ts';
import { editDistance, nearest } from '../../domain/nearest.ts';

/** Where what other tools keep at the root belongs here. */
const placesByRootKey: { readonly [key: string]: string } = {
  prompt: 'Write systemPrompt, or initialPrompt for a first message.',
  instructions: 'Write systemPrompt.',
  description: 'Write identity.description, or an annotation.',
  where: 'It belongs to a trigger: triggers[].where.',
  event: 'It belongs to a trigger: triggers[].event.',
  events: 'It belongs to a trigger: triggers[].events.',
  on: 'What wakes an agent stands under triggers, such as triggers: [{ event: codehost.push, routing: { kind: spawn } }].',
  routing: 'It belongs to a trigger: triggers[].routing.',
  schedule: 'Write a trigger: { kind: heartbeat, cron: … }.',
  cron: 'Write a trigger: { kind: heartbeat, cron: … }.',
  'runs-on': 'Where sessions run is the environment: environment.image.',
  image: 'It belongs to the environment: environment.image.',
  secrets: 'Name a secret where it is used: env: { NAME: { $secret: name } }.',
  mcpServers: 'Write tools.',
};

/** Where to write what other tools keep under that root key. */
export const belongsOf = (key: string): string | undefined =>
  Object.hasOwn(placesByRootKey, key) ? placesByRootKey[key] : undefined;

/** Unknown keys of one document that are held against the known ones: past so many, that costs more than reading them. */
const keysMax = 1_000;

/** A warning for each unknown root key that is within a typing mistake of a known one; any other is ignored without a word. */
export function lintRootKeys(keys: readonly { readonly key: string; readonly range: Range }[]): Finding[] {
  const findings: Finding[] = [];
  let unknown = 0;
  for (const { key, range } of keys) {
    if (rootKeys.includes(key)) continue;
    if (++unknown > keysMax) break;
    const near = nearest(key, rootKeys);
    if (near === undefined) continue;
    const message = `Unknown root key ${key} is ignored`;
    const belongs = belongsOf(key);
    findings.push({
      severity: 'warning',
      code: 'unknown-root-key',
      message,
      range,
      path: key,
      // Of a short word, half of it changed is another word.
      ...(editDistance(key, near, 2) * 2 < key.length
        ? { hint: `Did you mean ${near}?` }
        : belongs === undefined
          ? {}
          : { hint: belongs }),
    });
  }
  return findings;
}
