// Pull-request checks of a trigger (docs/reference/checks.md#states; docs/reference/compile.md#triggers, docs/reference/checks.md#deadlines).

import type { Check as CheckSpec, CheckDeadline } from '../../domain/spec.ts';
import { check as fields, checks as list } from '../../../schemas/trigger.ts';
import { keysOf } from '../../../schemas/grammar.ts';
import { readFields, reading } from './read-field.ts';
import type { Check, MapSpot, NodeRef, Reader } from './read.ts';
import { compact, fault, faultAt, field, items, pathOf, strict } from './read.ts';

/** `timeout` is another spelling of `beginTimeout`. */
const { timeout, ...kept } = fields.fields;

export const checkChecks: Reader<readonly CheckSpec[]> = (check, spot) => {
  const seen = { name: new Map<string, NodeRef>(), displayName: new Map<string, NodeRef>() };
  const checks: CheckSpec[] = [];
  for (const item of items(check, spot, list.what, list.least, Number.POSITIVE_INFINITY, list.code) ?? []) {
    const found = strict(check, item, keysOf(fields));
    if (found === undefined) continue;
    const read = readFields(check, found, kept);
    const { name, displayName, description, instructions, completeTimeout } = read;
    const beginTimeout = checkBegin(check, found) ?? read.beginTimeout;
    unique(check, found, 'name', name, seen.name);
    unique(check, found, 'displayName', displayName, seen.displayName);
    if (name === undefined || displayName === undefined || description === undefined) continue;
    checks.push(compact<CheckSpec>({ name, displayName, description, instructions, beginTimeout, completeTimeout }));
  }
  return checks;
};

function unique(check: Check, spot: MapSpot, key: string, value: string | undefined, seen: Map<string, NodeRef>): void {
  const at = field(spot, key);
  if (value === undefined || at === undefined) return;
  const first = seen.get(value);
  if (first === undefined) {
    seen.set(value, at);
    return;
  }
  const related = [{ message: 'the first of that name', range: first.node.range }];
  const message = `${pathOf(at.trail)} repeats ${JSON.stringify(value.slice(0, 80).toWellFormed())}; each check of a trigger needs its own`;
  faultAt(check, 'check-invalid', message, at, { related });
}

/** `timeout` and `beginTimeout` are one field under two names. */
function checkBegin(check: Check, spot: MapSpot): CheckDeadline | undefined {
  const alias = field(spot, 'timeout');
  const begin = field(spot, 'beginTimeout');
  if (alias !== undefined && begin !== undefined) {
    const message = 'Use either timeout or beginTimeout, not both; they are the same deadline';
    fault(check, 'check-invalid', message, alias.key, pathOf(alias.trail));
    fault(check, 'check-invalid', message, begin.key, pathOf(begin.trail));
  }
  return alias && reading(timeout)(check, alias);
}
