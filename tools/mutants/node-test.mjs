// What the core's tests use of `node:test`. Anything else throws where it is used: a test is run or the run fails.

import { existsSync, readFileSync } from 'node:fs';

let found = [];
let path = [];

/** The tests that a file registers while it is loaded. */
export async function collect(loadFile) {
  found = [];
  path = [];
  await loadFile();
  return found;
}

const unknown = (what) => () => {
  throw new Error(`tools/mutants/node-test.mjs: ${what} is not known here`);
};
const context = {
  assert: {
    fileSnapshot(value, file, { serializers }) {
      if (!existsSync(file)) throw new Error(`${file} is missing`);
      if (serializers.reduce((seen, serialize) => serialize(seen), value) !== readFileSync(file, 'utf8')) throw new Error(`differs from ${file}`);
    },
  },
};

export function test(name, ...rest) {
  if (rest.length !== 1 || typeof rest[0] !== 'function') unknown(`options of test ${name}`)();
  const [body] = rest;
  found.push({ name: [...path, name].join(' / '), run: async () => body(context) });
}

export function describe(name, ...rest) {
  if (rest.length !== 1) unknown(`options of describe ${name}`)();
  path.push(name);
  rest[0]();
  path.pop();
}

export const it = test;
export const suite = describe;
export const before = unknown('before');
export const after = unknown('after');
export const beforeEach = unknown('beforeEach');
export const afterEach = unknown('afterEach');
export const mock = new Proxy({}, { get: unknown('mock') });
export default test;
