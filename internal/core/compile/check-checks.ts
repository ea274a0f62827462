// Pull-request checks of a trigger (spec, Check entry fields; decisions 63 and 67).

import type { Check as CheckSpec, CheckDeadline } from '../../domain/spec.ts';
import type { Check, MapSpot, Reader, NodeRef } from './read.ts';
import {
  compact,
  fault,
  faultAt,
  field,
  integer,
  items,
  oneOf,
  optional,
  pathOf,
  required,
  resourceName,
  strict,
  text,
} from './read.ts';

const KEYS = ['name', 'displayName', 'description', 'instructions', 'timeout', 'beginTimeout', 'completeTimeout'];

export const checkChecks: Reader<readonly CheckSpec[]> = (check, spot) => {
  const seen = { name: new Map<string, NodeRef>(), displayName: new Map<string, NodeRef>() };
  const checks: CheckSpec[] = [];
  for (const item of items(check, spot, 'a list of checks', 1, Number.POSITIVE_INFINITY, 'check-invalid') ?? []) {
    const found = strict(check, item, KEYS);
    if (found === undefined) continue;
    const name = required(check, found, 'name', resourceName);
    const displayName = required(check, found, 'displayName', text({ most: 256 }));
    const description = required(check, found, 'description', text({ most: 65_535 }));
    const instructions = optional(check, found, 'instructions', text({ most: 20_000 }));
    const beginTimeout = checkBegin(check, found);
    const completeTimeout = optional(check, found, 'completeTimeout', deadline);
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
  const fromAlias = optional(check, spot, 'timeout', deadline);
  return optional(check, spot, 'beginTimeout', deadline) ?? fromAlias;
}

const deadline: Reader<CheckDeadline> = (check, spot) => {
  const found = strict(check, spot, ['seconds', 'conclusion']);
  if (found === undefined) return undefined;
  const seconds = required(check, found, 'seconds', integer(1, 604_800, 'a whole number from 1 to 604,800'));
  const conclusion = required(check, found, 'conclusion', oneOf(['success', 'failure', 'skipped'] as const));
  return seconds === undefined || conclusion === undefined ? undefined : { seconds, conclusion };
};
