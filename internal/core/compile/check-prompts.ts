// Templates rendered against the normalized payload, whose root is the payload itself: a `payload.` prefix would find
// nothing there and is refused (docs/reference/messages.md; docs/reference/compile.md#text-and-limits).

import { writtenAt } from '../../domain/diagnostic.ts';
import type { Check, NodeRef } from './read.ts';
import { fault, pathOf } from './read.ts';

const prefix = /\{\{\s*payload\./;

/** The token with a `payload.` prefix that a template holds, and where it begins; null where there is none. */
function tokenIn(template: string): { readonly token: string; readonly index: number } | null {
  const index = prefix.exec(template)?.index ?? -1;
  const end = index === -1 ? -1 : template.indexOf('}}', index);
  return end === -1 ? null : { token: template.slice(index, end + 2), index };
}

/** Reports the token of a template that begins with `payload.`, in the part of the text that holds it. */
export function noPayloadPrefix(check: Check, spot: NodeRef, template: string): void {
  const { node } = spot;
  const found = tokenIn(node.kind === 'scalar' && typeof node.value === 'string' ? node.value : template);
  if (found === null) return;
  const { token, index } = found;
  const shown = token.length > 80 ? `${token.slice(0, 80).toWellFormed()}…` : token;
  const message = `${pathOf(spot.trail)} must not use the payload. prefix: ${shown}`;
  const hint = 'The payload is the template root here: write {{ path }} without payload. in front.';
  const range = node.kind === 'scalar' ? writtenAt(node, index) : node.range;
  fault(check, 'payload-prefix', message, range, pathOf(spot.trail), { hint });
}
