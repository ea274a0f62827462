import assert from 'node:assert/strict';
import { it } from 'node:test';
import fc from 'fast-check';
import { readPayload } from '../../core/match/match.ts';
import { exceedsValues, lookedAt, nestsDeeper, parseWithin, TooDeep } from '../../domain/depth.ts';

const depthOf = (value: unknown): number =>
  typeof value === 'object' && value !== null ? 1 + Math.max(0, ...Object.values(value).map(depthOf)) : 0;

it('the levels of any JSON are counted as they nest, whatever its texts hold', () => {
  const text = fc.string({ unit: fc.constantFrom('{', '[', '"', '\\', '}', ']', 'a') });
  const { value } = fc.letrec((tie) => ({
    value: fc.oneof(
      { depthSize: 'medium' },
      text,
      fc.array(tie('value'), { maxLength: 4 }),
      fc.dictionary(text, tie('value'), { maxKeys: 4 }),
    ),
  }));
  fc.assert(
    fc.property(value, fc.nat(12), (json, levels) => {
      assert.equal(nestsDeeper(Buffer.from(JSON.stringify(json)), levels), depthOf(json) > levels);
    }),
    { numRuns: 2_000 },
  );
});

it('what JSON holds is counted by its members and elements, whatever its texts hold', () => {
  const text = fc.string({ unit: fc.constantFrom(',', '[', '"', '\\', '{', 'a') });
  const { value } = fc.letrec((tie) => ({
    value: fc.oneof(
      { depthSize: 'medium' },
      text,
      fc.array(tie('value'), { maxLength: 4 }),
      fc.dictionary(text, tie('value'), { maxKeys: 4 }),
    ),
  }));
  const heldBy = (json: unknown): number => {
    if (typeof json !== 'object' || json === null) return 0;
    const inner = Object.values(json);
    return 1 + Math.max(0, inner.length - 1) + inner.reduce((sum: number, one) => sum + heldBy(one), 0);
  };
  fc.assert(
    fc.property(value, fc.nat(20), (json, most) => {
      assert.equal(exceedsValues(Buffer.from(JSON.stringify(json)), most), heldBy(json) > most);
      const { value } = lookedAt(Buffer.from(JSON.stringify(json)), {
        levels: Number.POSITIVE_INFINITY,
        values: most,
      }).next();
      assert.equal(value, heldBy(json) > most ? 'many' : undefined);
    }),
    { numRuns: 200 },
  );
});

it('what never closes is as deep as it opens', () => {
  assert.equal(nestsDeeper(Buffer.from('['.repeat(64)), 64), false);
  assert.equal(nestsDeeper(Buffer.from('['.repeat(65)), 64), true);
  assert.equal(nestsDeeper(Buffer.from(`"${'['.repeat(65)}`), 64), false);
});

/** What a reading came to: a value, too deep, or no JSON. */
function outcome(read: () => unknown): unknown {
  try {
    return { value: read() };
  } catch (error) {
    return error instanceof TooDeep ? 'too deep' : error instanceof SyntaxError ? 'no JSON' : error;
  }
}
const looked = (bytes: Buffer, levels: number): unknown =>
  outcome(() => {
    if (nestsDeeper(bytes, levels)) throw new TooDeep();
    return readPayload(bytes.toString());
  });
const walked = (bytes: Buffer, levels: number): unknown =>
  outcome(() => parseWithin(bytes, levels, () => readPayload(bytes.toString())));

/** JSON as text, so that names repeat, brackets stand in texts, and numbers are what no double holds. */
const written = fc.letrec<{ value: string }>((tie) => {
  const plain = fc.constantFrom(
    'null',
    'true',
    '12',
    '-0',
    '1e400',
    '12345678901234567890',
    '"[{"',
    String.raw`"\"[{"`,
  );
  const key = fc.constantFrom('a', 'b', '__proto__', 'toString', 'rawJSON', '[', '{{', '0');
  const member = fc.tuple(key, tie('value')).map(([name, value]) => `${JSON.stringify(name)}:${value}`);
  return {
    value: fc.oneof(
      { depthSize: 'medium', withCrossShrink: true },
      plain,
      fc.array(tie('value'), { maxLength: 4 }).map((inner) => `[${inner.join(', ')}]`),
      fc.array(member, { maxLength: 4 }).map((inner) => `{${inner.join(',')}}`),
    ),
  };
}).value;

it('what is parsed first is refused exactly where a look at its bytes refuses it', () => {
  const chain = fc.nat(20).map((levels) => `${'[{"a":'.repeat(levels)}"[["${'}]'.repeat(levels)}`);
  fc.assert(
    fc.property(fc.array(fc.oneof(written, chain), { maxLength: 6 }), fc.nat(14), (values, levels) => {
      // Long enough for its brackets to be few.
      const text = `{${values.map((value) => `"x":${value}`).join(',')}${values.length > 0 ? ',' : ''}"":"${'x'.repeat(16_000)}"}`;
      assert.deepEqual(walked(Buffer.from(text), levels), looked(Buffer.from(text), levels));
    }),
    { numRuns: 2_000 },
  );
});

it('text that is cut or spoiled is too deep exactly where its bytes are, and else no JSON', () => {
  fc.assert(
    fc.property(written, fc.nat(14), fc.nat(), fc.constantFrom('', '[', '"', '}', '\\'), (value, levels, at, put) => {
      const text = `[${value},"${'x'.repeat(16_000)}"]`;
      const cut = at % text.length;
      for (const spoiled of [text.slice(0, cut), text.slice(0, cut) + put + text.slice(cut)]) {
        assert.deepEqual(walked(Buffer.from(spoiled), levels), looked(Buffer.from(spoiled), levels));
      }
    }),
    { numRuns: 1_000 },
  );
});

it('levels that a later value of the same name has replaced count', () => {
  const deep = `${'['.repeat(70)}${']'.repeat(70)}`;
  const shallow = `${'['.repeat(40)}${']'.repeat(40)}`;
  const filler = 'x'.repeat(16_000);
  assert.equal(walked(Buffer.from(`{"a":${deep},"a":1,"f":"${filler}"}`), 64), 'too deep');
  assert.equal(walked(Buffer.from(`{"__proto__":${deep},"f":"${filler}"}`), 64), 'too deep');
  assert.deepEqual(walked(Buffer.from(`{"a":${shallow},"a":${shallow},"f":"${filler}"}`), 64), {
    value: JSON.parse(`{"a":${shallow},"f":"${filler}"}`),
  });
});

it('a parser never sees text of very many brackets that is too deep', () => {
  for (const length of [1_000, 60_000, 100_000]) {
    const bytes = Buffer.from('['.repeat(length));
    assert.throws(() => parseWithin(bytes, 64, () => assert.fail('parsed')), TooDeep);
  }
});
