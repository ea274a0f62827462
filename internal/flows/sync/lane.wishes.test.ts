// What a wish does to the sync of its repository that is under way, and what comes next.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { following, relation } from './wishes.ts';

const whose = { isByHand: false, isPinned: false, isOfToday: true, seen: 's' } as const;
const under = { commit: 'a', kind: 'sync', ...whose, isApplying: false, sinceMs: 0, limitMs: 60_000 } as const;
const asked = { isAsked: true, hint: null } as const;
const cases: readonly (readonly [string, Parameters<typeof relation>, ReturnType<typeof relation>])[] = [
  ['its turn is no news', [{ reason: 'poll', isAsked: false, hint: null }, under], 'drop'],
  ['a push of the commit that is being synced is none', [{ ...asked, reason: 'push', hint: 'a' }, under], 'drop'],
  ['a push of another one is', [{ ...asked, reason: 'push', hint: 'b' }, under], 'end'],
  [
    'and so is one while nothing is known yet',
    [
      { ...asked, reason: 'push', hint: 'b' },
      { ...under, commit: null },
    ],
    'end',
  ],
  [
    'pushes without an end leave a read its time',
    [
      { ...asked, reason: 'push' },
      { ...under, sinceMs: 60_001 },
    ],
    'follow',
  ],
  [
    'a person need not wait',
    [
      { ...asked, reason: 'manual' },
      { ...under, sinceMs: 60_001 },
    ],
    'end',
  ],
  [
    'a push is no word against a rollback, which the commit that it leaves may have asked for',
    [
      { ...asked, reason: 'push', hint: 'b' },
      { ...under, kind: 'rollback' },
    ],
    'follow',
  ],
  [
    'nor against what may turn out to be one',
    [
      { ...asked, reason: 'push', hint: 'b' },
      { ...under, commit: null, kind: null },
    ],
    'follow',
  ],
  [
    'against an approval it is one',
    [
      { ...asked, reason: 'push', hint: 'b' },
      { ...under, kind: 'approve' },
    ],
    'end',
  ],
  [
    'but a late delivery of what it lets through is none',
    [
      { ...asked, reason: 'push', hint: 's' },
      { ...under, commit: null, kind: 'approve', isByHand: true },
    ],
    'follow',
  ],
  [
    'nor is one of what has been seen a word against a sync by hand that is about to read',
    [
      { ...asked, reason: 'push', hint: 's' },
      { ...under, commit: null, isByHand: true },
    ],
    'follow',
  ],
  [
    'nor any against what is pinned',
    [
      { ...asked, reason: 'push', hint: 'b' },
      { ...under, isPinned: true },
    ],
    'follow',
  ],
  [
    'and a person may change their mind',
    [
      { ...asked, reason: 'manual' },
      { ...under, kind: 'rollback' },
    ],
    'end',
  ],
  ['settings that changed are a wish', [{ ...asked, reason: 'poll' }, under], 'end'],
  [
    'but none against what a person asked for, where they change nothing of it',
    [
      { ...asked, reason: 'poll' },
      { ...under, kind: 'rollback', isByHand: true },
    ],
    'follow',
  ],
  [
    'nor against what may turn out to be that',
    [
      { ...asked, reason: 'poll' },
      { ...under, commit: null, kind: null, isOfToday: false },
    ],
    'follow',
  ],
  [
    'where they do, it could apply nothing any more',
    [
      { ...asked, reason: 'poll' },
      { ...under, kind: 'rollback', isByHand: true, isOfToday: false },
    ],
    'end',
  ],
  [
    'what is being applied is followed',
    [
      { ...asked, reason: 'manual' },
      { ...under, isApplying: true },
    ],
    'follow',
  ],
  ['an edited folder is read again afterwards', [{ ...asked, reason: 'watch' }, under], 'follow'],
  ['a thorough comparison waits', [{ ...asked, reason: 'resync' }, under], 'follow'],
];
for (const [what, args, expected] of cases) test(what, () => assert.equal(relation(...args), expected));

test('what comes next does what all ask for that came meanwhile', () => {
  const next = (...reasons: readonly ('manual' | 'resync' | 'push' | 'watch' | 'poll')[]): string | undefined =>
    reasons
      .map((reason) => ({ reason }))
      .reduce<{ reason: string } | undefined>(
        (waiting, later) => following(waiting as typeof later | undefined, later),
        undefined,
      )?.reason;
  assert.equal(next('push', 'watch'), 'watch');
  // A look that compares nothing stands in for no thorough one: the secret that came back would heal nothing.
  assert.equal(next('resync', 'watch'), 'resync');
  assert.equal(next('watch', 'resync', 'push'), 'resync');
  assert.equal(next('resync', 'manual', 'resync', 'watch'), 'manual');
});
