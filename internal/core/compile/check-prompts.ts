// Templates rendered against the normalized payload, whose root is the payload itself: a `payload.` prefix would find
// nothing there and is refused (docs/reference/messages.md; docs/reference/compile.md#text-and-limits).

import type { Check, NodeRef } from './read.ts';
import { faultAt, pathOf } from './read.ts';

const prefix = /\{\{\s*payload\./;

/** The token with a `payload.` prefix that a template holds, or null. */
export function payloadToken(template: string): string | null {
  const found = prefix.exec(template);
  if (found === null) return null;
  const end = template.indexOf('}}', found.index);
  return end === -1 ? null : template.slice(found.index, end + 2);
}

/** Reports the token of a template that begins with `payload.`. */
export function noPayloadPrefix(check: Check, spot: NodeRef, template: string): void {
  const token = payloadToken(template);
  if (token === null) return;
  const shown = token.length > 80 ? `${token.slice(0, 80).toWellFormed()}…` : token;
  const message = `${pathOf(spot.trail)} must not use the payload. prefix: ${shown}`;
  const hint = 'The payload is the template root here: write {{ path }} without payload. in front.';
  faultAt(check, 'payload-prefix', message, spot, { hint });
}
