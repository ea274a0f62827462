// `node:assert/strict` without the difference that a failure prints: of a killed mutant nobody reads it, and it costs most of the time.

import assert, { AssertionError } from 'node:assert/strict';
import { isDeepStrictEqual } from 'node:util';

const fail = (operator) => {
  throw new AssertionError({ message: operator, operator });
};
const quick = {
  ok: (value) => (value ? undefined : fail('ok')),
  equal: (left, right) => (Object.is(left, right) ? undefined : fail('strictEqual')),
  deepEqual: (left, right) => (isDeepStrictEqual(left, right) ? undefined : fail('deepStrictEqual')),
};
const all = Object.assign((value) => quick.ok(value), assert, quick, { strictEqual: quick.equal, deepStrictEqual: quick.deepEqual });
all.strict = all;

export default all;
export { AssertionError };
export const { deepEqual, deepStrictEqual, doesNotMatch, doesNotReject, doesNotThrow, equal, fail: failWith, match, notDeepEqual, notEqual, ok, partialDeepStrictEqual, rejects, strictEqual, throws } = all;
