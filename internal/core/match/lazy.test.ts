import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { TooDeep } from '../../domain/depth.ts';
import { isLong } from '../../base/testkit/long.ts';
import { membersOf } from './lazy.ts';
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

  const long = 'x'.repeat(17_000);
  const short = 'y'.repeat(1_000);
  const many = Array.from({ length: 40 }, (_, at) => `${short}${at}`);
  const spaces = ' '.repeat(17_000);
  const VALUES: readonly string[] = [
    ...[
      '{}',
      '[]',
      '{ }',
      '[ ]',
      '""',
      '" "',
      '0',
      '-0',
      '10',
      '12',
      ' 12 ',
      '-1.5e+10',
      '1E-2',
      '0.5',
      '1e5',
      'true',
      'false',
      'null',
    ],
    ' \t\r\n{ \t"a" \r\n: \t1 , "b" :\t[ 1 ,\r2 , { } ] }\r\n',
    '"\\u00e9\\uABCD\\uabcd\\uAFaf\\u0909"',
    '"\\"\\\\\\/\\b\\f\\n\\r\\t"',
    `"${long}"`,
    `"\ufeff${long}"`,
    `"${long}\\""`,
    `"\\\\${long}\\\\"`,
    `{${spaces}}`,
    `[${spaces}]`,
    `[1,"${long}",2,"${long}","${long}",["${long}"],{"a":"${long}"},3]`,
    `[ 1 ,\r"${long}"\t, [ ] , "${long}" , "${long}" ]`,
    `{"a":1,"b":"${long}","c":2,"d":["${long}",1],"e":"${long}","f":{"g":"${long}"},"h":3}`,
    `{ "a" : 1 ,\r"b" :\t"${long}" , "c" : { } , "d" : "${long}" }`,
    `{"a":"${long}]}[{","b":1,"c":"]}","d":[1],"e":"}${long}"}`,
    `{"a\\\\":"${long}","b\\"":1,"\\\\\\"c":"\\"","d":"${long}\\\\\\""}`,
    JSON.stringify(many),
    JSON.stringify(Object.fromEntries(many.map((one, at) => [`k${at}`, one]))),
    JSON.stringify([many, long, many]),
  ];

  it('is the value that the parser gives, for what people and machines write', () => {
    for (const text of VALUES) {
      checkJson(bytes(text), within);
      assert.equal(print(readLazily(bytes(text))), print(readPayload(text)), text.slice(0, 80));
    }
  });

  it('is none where the grammar says so', () => {
    for (const text of [
      ...['', ' ', '{', '[', '[1', '[1 2]', '[1;2]', '[1,]', '[,1]', '[1}', '1 2', 'x', 'tru', 'trux', 'nul', 'falsy'],
      ...[
        '{"a" 1}',
        '{a":1}',
        '{"a";1}',
        '{a:1}',
        '{1:1}',
        '{"a":1 "b":2}',
        '{"a":1;"b":2}',
        '{"a":1,}',
        '{,}',
        '{"a":}',
        '{"a":1]',
      ],
      ...['"', '"a', '["a', '{"a', '"\\"', '"\\x"', '"\\', '"\u0001"', '"\u001f"', '"\\u12"', '"\\u"'],
      ...['`', '/', ':', '@', 'g', 'G'].map((odd) => `"\\u00${odd}0"`),
      ...['01', '-', '-x', '1.', '.5', '1e', '1e+', '1.e1', '+1'],
    ]) {
      assert.throws(() => checkJson(bytes(text), within), NotJson, text);
    }
  });

  it('has members with names and places', () => {
    const text = ' { "a" : 1 ,"b\\"":[2] , "c":{"d":"}"} } ';
    const found = [...membersOf(bytes(text))].map(({ key, from, valueFrom, to }) => [
      key,
      text.slice(from, to),
      text.slice(valueFrom, to),
    ]);
    assert.deepEqual(found, [
      ['a', '"a" : 1', '1'],
      ['b"', '"b\\"":[2]', '[2]'],
      ['c', '"c":{"d":"}"}', '{"d":"}"}'],
    ]);
    assert.deepEqual([...membersOf(bytes(' { } '))], []);
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
    checkJson(bytes('{"a":{"a":1}}'), { levels: 2, values: 3 });
    assert.throws(() => checkJson(bytes('{"a":{"a":1}}'), { levels: 1, values: 3 }), TooDeep);
    assert.throws(() => checkJson(bytes('['.repeat(1_000_000)), within), TooDeep);
  });

  it('is not read where nobody asks', () => {
    const text = `{"a":"${'x'.repeat(20_000)}","b":1}`;
    const read = readLazily(bytes(text));
    assert.equal(typeof Object.getOwnPropertyDescriptor(read, 'a')?.get, 'function');
    assert.equal((read as { a: string }).a.length, 20_000);
    assert.equal(typeof Object.getOwnPropertyDescriptor(read, 'a')?.value, 'string');
    const plain = { value: 1, writable: true, enumerable: true, configurable: true };
    assert.deepEqual(Object.getOwnPropertyDescriptor(read, 'b'), plain);
    const again = readLazily(bytes(`{"a":1,"a":"${'x'.repeat(20_000)}"}`)) as { readonly a: string };
    assert.equal(again.a.length, 20_000);
  });
});
