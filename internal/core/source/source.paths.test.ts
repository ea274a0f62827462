import assert from 'node:assert/strict';
import { test } from 'node:test';
import { printPath, type PathStep } from './node.ts';

const paths: readonly (readonly [steps: readonly PathStep[], printed: string])[] = [
  [[], ''],
  [['name'], 'name'],
  [['triggers', 0, 'routing', 'kind'], 'triggers[0].routing.kind'],
  [['triggers', 0, 'where', '$.a.b'], 'triggers[0].where["$.a.b"]'],
  [[0, 'a'], '[0].a'],
  [['a b'], '["a b"]'],
  [['env', 'A_1-b'], 'env.A_1-b'],
  [['env', '1a'], 'env["1a"]'],
  [['env', '-a'], 'env["-a"]'],
  [['env', 'a"'], 'env["a\\""]'],
  [['env', ''], 'env[""]'],
];
for (const [steps, printed] of paths) {
  test(`a path is printed as ${JSON.stringify(printed)}`, () => assert.equal(printPath(steps), printed));
}
