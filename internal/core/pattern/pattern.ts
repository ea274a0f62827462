// Patterns from which a secret's value is drawn (docs/reference/secrets.md#generated-values: svc.secrets.create, `generate`). Printable
// ASCII literals, character classes, \d and \w, groups, alternation and bounded quantifiers; everything else that a
// regular expression may hold is refused with its place: what is unbounded, `.`, anchors, look-arounds, references.
// It decides what a pattern means and how a value is drawn from it: every derivation is equally likely, so that
// `[a-z]{1,16}` is nearly always 15 or 16 letters long. It reads no randomness of its own and never sees a value again.

import { type Node, parse } from './parse.ts';

/** A pattern that can be drawn from. */
export interface Pattern {
  readonly node: Node;
  /** Whole bits of entropy of a drawn value, rounded down. */
  readonly bits: number;
}

export type PatternResult =
  | { readonly ok: true; readonly pattern: Pattern }
  /** `offset` counts UTF-16 units from 0. */
  | { readonly ok: false; readonly offset: number; readonly message: string };

/** Reads a pattern. The bounds: 1,024 characters of pattern, 4,096 of value, nesting of 32. */
export function parsePattern(text: string): PatternResult {
  const parsed = parse(text);
  if (!parsed.ok) return parsed;
  return { ok: true, pattern: { node: parsed.node, bits: parsed.node.count.toString(2).length - 1 } };
}

/** Draws a value. `randomBytes` must be uniform and unpredictable. */
export function drawPattern(pattern: Pattern, randomBytes: (count: number) => Uint8Array): string {
  const out: string[] = [];
  draw(pattern.node, randomBytes, out);
  return out.join('');
}

function draw(node: Node, randomBytes: (count: number) => Uint8Array, out: string[]): void {
  switch (node.kind) {
    case 'chars':
      out.push(node.chars[Number(below(BigInt(node.chars.length), randomBytes))] ?? '');
      return;
    case 'sequence':
      for (const item of node.items) draw(item, randomBytes, out);
      return;
    case 'choice': {
      let rank = below(node.count, randomBytes);
      const chosen = node.options.find((option) => {
        if (rank < option.count) return true;
        rank -= option.count;
        return false;
      });
      if (chosen !== undefined) draw(chosen, randomBytes, out);
      return;
    }
    case 'repeat': {
      const times = node.min + timesOf(node, below(node.count, randomBytes));
      for (let turn = 0; turn < times; turn += 1) draw(node.item, randomBytes, out);
    }
  }
}

/** How often beyond the least: each number of times weighs what it has derivations. */
function timesOf(node: Extract<Node, { kind: 'repeat' }>, rank: bigint): number {
  let weight = node.item.count ** BigInt(node.min);
  let left = rank;
  for (let more = 0; more < node.max - node.min; more += 1) {
    if (left < weight) return more;
    left -= weight;
    weight *= node.item.count;
  }
  return node.max - node.min;
}

/** Uniform in [0, bound), by rejection: a remainder would favour small numbers. */
function below(bound: bigint, randomBytes: (count: number) => Uint8Array): bigint {
  if (bound <= 1n) return 0n;
  const bits = (bound - 1n).toString(2).length;
  const bytes = Math.ceil(bits / 8);
  const mask = (1n << BigInt(bits)) - 1n;
  for (;;) {
    const hex = Array.from(randomBytes(bytes), (byte) => byte.toString(16).padStart(2, '0')).join('');
    const number = BigInt(`0x${hex}`) & mask;
    if (number < bound) return number;
  }
}
