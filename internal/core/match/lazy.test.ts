import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { TooDeep } from '../../domain/depth.ts';
import { isLong } from '../../base/testkit/long.ts';
import { checkJson, NotJson, readLazily, readPayload, TooMany } from './match.ts';

const bytes = (text: string): Uint8Array => Buffer.from(text);
const within = { levels: 64, values: 1_000_000 };
const print = (value: unknown): string => JSON.stringify(value);

/** Values of which some members are long: each text may be repeated far beyond what is read at once. */
const { any } = fc.letrec((of) => ({
  any: fc.oneof({ maxDepth: 5 }, of('leaf'), of('list'), of('object')),
  leaf: fc.oneof(
    fc.constantFrom(null, true, false, 0, -0.5, 1e21, '', '"', '\\', 'é', '😀'),
    fc.double({ noNaN: true, noDefaultInfinity: true }),
    fc.tuple(fc.string({ unit: 'binary' }), fc.constantFrom(1, 3, 9_000)).map(([text, times]) => text.repeat(times)),
  ),
  list: fc.array(of('any'), { maxLength: 6 }),
  object: fc.dictionary(fc.oneof(fc.string(), fc.constantFrom('__proto__', 'a', '1')), of('any'), { maxKeys: 6 }),
}));

describe('large JSON', () => {
  it('is the value that the parser gives, however it is spaced', () => {
    fc.assert(
      fc.property(any, fc.constantFrom(undefined, 1, '\t'), (value, space) => {
        const text = JSON.stringify(value, undefined, space);
        checkJson(bytes(text), within);
        assert.equal(print(readLazily(bytes(text))), print(readPayload(text)));
      }),
      { numRuns: isLong ? 3_000 : 60 },
    );
  });

  it('is told from what is none as the parser tells it', () => {
    const piece = fc.constantFrom(
      ...[
        '{',
        '}',
        '[',
        ']',
        ',',
        ':',
        '"',
        '"a"',
        '"\\u00e9"',
        '"\\u00g0"',
        '"\\',
        ' ',
        '\n',
        '\u0001',
        '0',
        '01',
        '-',
        '1.5',
      ],
      ...[
        '1.',
        '.5',
        '1e3',
        '1e',
        '1E+2',
        '-0',
        'true',
        'tru',
        'null',
        'false',
        'x',
        '"\\x"',
        '"\t"',
        '{"a":1}',
        '[1,2]',
      ],
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 8 }), (pieces) => {
        const text = pieces.join('');
        let isJson = true;
        try {
          JSON.parse(text);
        } catch {
          isJson = false;
        }
        if (isJson) checkJson(bytes(text), within);
        else assert.throws(() => checkJson(bytes(text), within), NotJson, text);
      }),
      { numRuns: isLong ? 200_000 : 3_000 },
    );
  });

  it('keeps a number by its digits, and the last of two members of one name', () => {
    const long = 'x'.repeat(40_000);
    const text = `{"n":12345678901234567890,"a":"${long}","b":[1e400,"${long}"],"a":1,"b":{"c":"${long}"},"__proto__":{"d":"${long}"}}`;
    const read = readLazily(bytes(text)) as { readonly [key: string]: unknown };
    assert.equal(print(read), print(readPayload(text)));
    assert.deepEqual(Object.keys(read), ['n', 'a', 'b', '__proto__']);
    assert.equal(Object.getPrototypeOf(read), Object.prototype);
  });

  it('is refused beyond its bounds', () => {
    checkJson(bytes('[[[1,2]]]'), { levels: 3, values: 5 });
    assert.throws(() => checkJson(bytes('[[[1,2]]]'), { levels: 2, values: 5 }), TooDeep);
    assert.throws(() => checkJson(bytes('[[[1,2]]]'), { levels: 3, values: 4 }), TooMany);
    assert.throws(() => checkJson(bytes('['.repeat(1_000_000)), within), TooDeep);
  });

  it('is not read where nobody asks', () => {
    const text = `{"a":"${'x'.repeat(20_000)}","b":1}`;
    const read = readLazily(bytes(text));
    assert.equal(typeof Object.getOwnPropertyDescriptor(read, 'a')?.get, 'function');
    assert.equal((read as { a: string }).a.length, 20_000);
    assert.equal(typeof Object.getOwnPropertyDescriptor(read, 'a')?.value, 'string');
  });
});
