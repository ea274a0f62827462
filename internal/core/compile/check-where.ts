// Where filters (docs/reference/where.md#clauses; docs/reference/where.md#paths): the grammar of paths and clauses. Keys stay as authored.

import { DIAGNOSTIC_CODES } from '../../domain/codes.ts';
import type { JsonScalar } from '../../domain/json.ts';
import type { Where, WhereClause } from '../../domain/spec.ts';
import type { Check, MapSpot, Reader, NodeRef } from './read.ts';
import { boolean, fault, field, listOf, map, pathOf, recordOf, scalar, suggest } from './read.ts';

const OPERATORS = ['contains', 'exists', 'in', 'notIn', 'changedTo'] as const;
const BAD_PATH = DIAGNOSTIC_CODES['where-path'];

/** A single bare key without dots, or `$.` and segments that are not empty and have no space around them. */
export function isFilterPath(path: string): boolean {
  const clean = (segment: string): boolean => segment !== '' && segment.trim() === segment;
  return path.startsWith('$.') ? path.slice(2).split('.').every(clean) : clean(path) && !path.includes('.');
}

/** The filters of a trigger, keys as authored. */
export const checkWhere: Reader<Where> = recordOf<WhereClause>((check, spot, path) => {
  if (!isFilterPath(path))
    fault(
      check,
      'where-path',
      `${BAD_PATH}: ${JSON.stringify(path.slice(0, 80).toWellFormed())}`,
      spot.key,
      pathOf(spot.trail),
      isFilterPath(`$.${path}`) ? { hint: `Write $.${path.slice(0, 80).toWellFormed()}` } : {},
    );
  return checkClause(check, spot);
}, 'a map from path to clause');

/** A scalar as events compare with it: a number that a double cannot hold by its digits (docs/reference/http-api.md#conventions). */
const compared: Reader<JsonScalar> = (check, spot) =>
  spot.node.kind === 'scalar' && spot.node.exact !== undefined ? spot.node.exact : scalar(check, spot);

function checkClause(check: Check, spot: NodeRef): WhereClause | undefined {
  if (spot.node.kind === 'scalar') return compared(check, spot);
  const found = map(check, spot, `a scalar, or a map with one of ${OPERATORS.join(', ')}`);
  if (found === undefined) return undefined;
  const operator = onlyOperator(check, found);
  const operand = operator === undefined ? undefined : field(found, operator);
  if (operator === undefined || operand === undefined) return undefined;
  if (operator === 'exists') return wrap(operator, boolean(check, operand));
  if (operator === 'in' || operator === 'notIn') {
    return wrap(
      operator,
      listOf(compared, 'a list of scalars', 1, Number.POSITIVE_INFINITY, 'where-clause')(check, operand),
    );
  }
  return wrap(operator, compared(check, operand));
}

function wrap(
  operator: (typeof OPERATORS)[number],
  operand: JsonScalar | readonly JsonScalar[] | undefined,
): WhereClause | undefined {
  if (operand === undefined) return undefined;
  return { [operator]: operand } as WhereClause; // Each operand was read by its operator's own reader.
}

function onlyOperator(check: Check, clause: MapSpot): (typeof OPERATORS)[number] | undefined {
  const path = pathOf(clause.trail);
  let found: (typeof OPERATORS)[number] | undefined;
  let isSound = clause.node.entries.size === 1;
  for (const [key, entry] of clause.node.entries) {
    const operator = OPERATORS.find((one) => one === key);
    if (operator === undefined) {
      isSound = false;
      const near = suggest(check, key, OPERATORS);
      const hint = near === undefined ? `Operators: ${OPERATORS.join(', ')}.` : `Did you mean ${near}?`;
      const name = JSON.stringify(key.slice(0, 80).toWellFormed());
      fault(check, 'where-clause', `Unknown operator ${name} in ${path}`, entry.keyRange, pathOf(clause.trail, key), {
        hint,
      });
    } else if (found === undefined) {
      found = operator;
    } else {
      fault(
        check,
        'where-clause',
        `${path} must have exactly one operator; ${key} is a further one`,
        entry.keyRange,
        pathOf(clause.trail, key),
      );
    }
  }
  if (clause.node.entries.size === 0) {
    fault(
      check,
      'where-clause',
      `${path} must have exactly one operator: ${OPERATORS.join(', ')}`,
      clause.node.range,
      path,
    );
  }
  return isSound ? found : undefined;
}
