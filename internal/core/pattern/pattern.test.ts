import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { drawPattern, parsePattern, type Pattern } from './pattern.ts';

function parsed(text: string): Pattern {
  const result = parsePattern(text);
  assert.ok(result.ok, `${text}: ${result.ok ? '' : result.message}`);
  return result.pattern;
}

/** A small generator of bytes, seeded: the distribution of a test is the same every day. */
function bytesFrom(seed: number): (count: number) => Uint8Array {
  let state = seed >>> 0;
  return (count) =>
    Uint8Array.from({ length: count }, () => {
      state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
      return state >>> 24;
    });
}

describe('patterns of generated secrets', () => {
  it('draw values that the same regular expression matches', () => {
    const patterns = [
      'abc',
      'sk-[A-Za-z0-9]{32}',
      '\\d{6}',
      '\\w{1,20}',
      '(?:ab|cd){2,3}x?',
      '(a|b|)c',
      '[^a-z ]{4}',
      'a\\.b\\{\\}',
      '[\\d_-]{3}',
      '[a\\-z]{5}',
      ' ~!"#%&\',/:;<=>@`-',
      '[!-~]{1,64}',
      '((a?){3}b){2}',
      '[\\]\\\\]{2}',
      'x{0}y',
      '[a-a]',
      // Each bound is itself allowed: length of the pattern, length of the value, steps.
      'a'.repeat(1_024),
      'a{4096}',
      '(){4095}(){4095}(){4095}(){4093}a',
    ]; // prettier-ignore
    for (const text of patterns) {
      const pattern = parsed(text);
      const expected = new RegExp(`^(?:${text})$`, 'u');
      const random = bytesFrom(7);
      for (let turn = 0; turn < 200; turn += 1) {
        const value = drawPattern(pattern, random);
        assert.match(value, new RegExp(expected.source), text);
        assert.match(value, /^[ -~]+$/);
      }
    }
  });

  it('refuse what is unbounded, unknown or malformed, at its place', () => {
    const cases: readonly [string, number, RegExp][] = [
      ['', 0, /pattern is empty/],
      ['a*', 1, /no bound/],
      ['ab+', 2, /no bound/],
      ['a{2,}', 1, /no bound/],
      ['a.c', 1, /no certain character/],
      ['a{3,2}', 1, /least is more/],
      ['a{,3}', 1, /no \{n\}/],
      ['a{x}', 1, /no \{n\}/],
      ['a{x{2}', 1, /no \{n\}/],
      ['a{2}{3}', 4, /follow a quantifier/],
      ['a{2}?', 4, /follow a quantifier/],
      ['?a', 0, /nothing before/],
      ['(?=a)', 0, /special group/],
      ['(?<n>a)', 0, /special group/],
      ['(a', 0, /not closed/],
      ['a)', 1, /closes no group/],
      ['[a', 0, /not closed/],
      ['[a-', 0, /not closed/],
      ['[]', 0, /no characters/],
      ['[^ -~]', 0, /no characters/],
      ['[z-a]', 1, /no range/],
      ['[\\d-z]', 1, /no range/],
      ['[ -\\d]', 1, /no range/],
      ['[a[b]', 2, /write/],
      ['^a', 0, /write/],
      ['a$', 1, /write/],
      ['a]', 1, /write/],
      ['\\s', 0, /escapes/],
      ['(a)\\1', 3, /escapes/],
      ['a\\', 1, /ends the pattern/],
      ['é', 0, /printable/],
      ['a\nb', 1, /printable/],
      ['a\\\n', 2, /printable/],
      ['a?', 0, /empty value/],
      ['(a|)', 0, /empty value/],
      ['a{4097}', 0, /longer than 4096/],
      ['a{999999}', 0, /longer than 4096/],
      ['(a{100}){100}', 0, /longer than 4096/],
      ['(a|b{2049}){2}', 0, /longer than 4096/],
      ['a{4000}b{97}', 7, /longer than 4096/],
      ['((){4096}){4096}a', 0, /too many steps/],
      ['(){4095}(){4095}(){4095}(){4094}a', 32, /too many steps/],
      ['(a|(){5000}){4}', 0, /too many steps/],
      ['a'.repeat(1_025), 1_024, /longer than 1024/],
      [`${'('.repeat(40)}a${')'.repeat(40)}`, 33, /deeper/],
    ];
    for (const [text, offset, message] of cases) {
      const result = parsePattern(text);
      assert.ok(!result.ok, text);
      assert.match(result.message, message, text);
      assert.equal(result.offset, offset, text);
    }
  });

  it('draw every derivation equally often', () => {
    for (const [text, kinds] of [
      ['[abc]{0,2}x', 13],
      ['a|bc|[d-h]', 7],
      ['(a|b)?[xyz]', 9],
      ['\\d', 10],
      ['[^!-\\]_-~]', 2],
    ] as const) {
      const pattern = parsed(text);
      const seen = new Map<string, number>();
      const turns = 2_000 * kinds;
      const random = bytesFrom(11);
      for (let turn = 0; turn < turns; turn += 1) {
        const value = drawPattern(pattern, random);
        seen.set(value, (seen.get(value) ?? 0) + 1);
      }
      assert.equal(seen.size, kinds, text);
      // Six standard deviations of a count of mean 2,000.
      for (const [value, count] of seen) assert.ok(Math.abs(count - 2_000) < 270, `${text}: ${value} ${count}`);
    }
  });

  const DRAWS: readonly (readonly [text: string, bytes: readonly number[], value: string])[] = [
    ['a|bc|[d-h]', [0], 'a'],
    ['a|bc|[d-h]', [1], 'bc'],
    ['a|bc|[d-h]', [2, 4], 'h'],
    ['a|bc|[d-h]', [6, 0], 'd'],
    // What is no number of a choice is drawn again.
    ['a|bc|[d-h]', [7, 0], 'a'],
    ['[ab]{0,2}x', [0], 'x'],
    ['[ab]{0,2}x', [1, 0], 'ax'],
    ['[ab]{0,2}x', [2, 1], 'bx'],
    ['[ab]{0,2}x', [3, 0, 1], 'abx'],
    ['[ab]{0,2}x', [6, 1, 1], 'bbx'],
    ['(?:ab|cd){1,2}', [1, 0], 'ab'],
    ['(?:ab|cd){1,2}', [2, 0, 1], 'abcd'],
    ['(?:ab|cd){1,2}', [5, 1, 1], 'cdcd'],
    ['[a-]', [0], '-'],
    ['[a-]', [1], 'a'],
    ['[a-a]', [], 'a'],
    ['[^!-~]', [], ' '],
    ['a{3}', [], 'aaa'],
  ];
  for (const [text, bytes, value] of DRAWS) {
    it(`${text} drawn with ${bytes.join(', ')} is ${value}`, () => {
      const left = [...bytes];
      assert.equal(
        drawPattern(parsed(text), () => Uint8Array.of(left.shift() ?? assert.fail('too many bytes'))),
        value,
      );
      assert.deepEqual(left, []);
    });
  }

  it('count their derivations, and keep to each bound itself', () => {
    for (const [text, bits] of [
      ['a|b|c|d', 2],
      ['[ab]{1,3}', 3],
      ['[^a-z]{10}', 61],
      ['a'.repeat(1_024), 0],
      ['a{4096}', 0],
    ] as const) {
      assert.equal(parsed(text).bits, bits, text);
    }
  });

  it('ask for no more random bytes than a choice needs, and read them as one number', () => {
    const asked: number[] = [];
    const ones = (count: number): Uint8Array => {
      asked.push(count);
      return new Uint8Array(count).fill(0xff);
    };
    assert.equal(drawPattern(parsed('[ab]c'), ones), 'bc');
    assert.deepEqual(asked, [1], 'a literal is drawn without any');
    assert.equal(
      drawPattern(parsed('a{0,511}x'), () => Uint8Array.of(1, 5)),
      `${'a'.repeat(0x105)}x`,
    );
  });

  it('tell how many bits a value has', () => {
    assert.equal(parsed('[0-9a-f]{32}').bits, 128);
    assert.equal(parsed('abc').bits, 0);
    assert.equal(parsed('\\w{43}').bits, 257);
  });

  it('take any text without an accident, and any value of theirs is bounded', () => {
    const piece = fc.constantFrom(
      'a',
      '[',
      ']',
      '(',
      ')',
      '|',
      '{',
      '}',
      '1',
      ',',
      '9',
      '?',
      '\\',
      'd',
      'w',
      '-',
      '^',
      'é',
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 24 }), fc.integer(), (pieces, seed) => {
        const result = parsePattern(pieces.join(''));
        if (!result.ok) return result.offset >= 0 && result.offset <= pieces.length;
        const value = drawPattern(result.pattern, bytesFrom(seed));
        return value.length > 0 && value.length <= 4_096;
      }),
      { numRuns: 2_000 },
    );
  });
});
