// What a wish does to the sync of its repository that is under way, and what comes next. Decides only; lane.ts does it.

import type { DueRepository } from '../../adapters/store/repositories/polls.ts';
import type { SyncRequest } from './run-record.ts';

/** What a wish does to the sync of its repository that is under way. */
export function relation(
  wish: Pick<DueRepository, 'reason' | 'isAsked' | 'hint'>,
  now: {
    readonly commit: string | null;
    /** Null: nobody knows yet, and nothing has been read. */
    readonly kind: SyncRequest['kind'] | null;
    readonly isByHand: boolean;
    /** It comes to the same commit wherever the branch is. */
    readonly isPinned: boolean;
    /** Its settings decide what those of the wish do. */
    readonly isOfToday: boolean;
    /** The commit that was seen to its end before. */
    readonly seen: string | null;
    readonly isApplying: boolean;
    readonly sinceMs: number;
    readonly limitMs: number;
  },
): 'drop' | 'follow' | 'end' {
  // Its turn came while it is being looked at.
  if (!wish.isAsked && wish.reason === 'poll') return 'drop';
  // The commit that somebody speaks of is the one that is being synced.
  if (wish.reason === 'push' && wish.hint !== null && wish.hint === now.commit) return 'drop';
  // Somebody has changed a setting, or resumed what was awake: what a person's run comes to is the same, and nothing would take its
  // place but this look. Of settings that decide something else it could apply nothing any more.
  if (wish.reason === 'poll' && (now.kind === null || (now.isByHand && now.isOfToday))) return 'follow';
  if (now.isApplying || wish.reason === 'watch' || wish.reason === 'resync') return 'follow';
  // The delivery may be a late one, of the very commit that the rollback leaves: the sync for it would find nothing to do.
  if (wish.reason === 'push' && (now.kind === 'rollback' || now.kind === null)) return 'follow';
  // What is pinned is not what was pushed; nor is what has been seen any newer than what a person's run is about to read, or
  // lets through: the sync for it would find nothing to do.
  const isLate = now.isByHand && now.commit === null && wish.hint !== null && wish.hint === now.seen;
  if (wish.reason === 'push' && (now.isPinned || isLate)) return 'follow';
  // However often somebody pushes, a read gets its time now and then.
  if (wish.reason === 'push' && now.sinceMs > now.limitMs) return 'follow';
  return 'end';
}

/** Of two wishes for what comes next, the one that does what both ask for: the later, where neither does more than a look. */
export function following<W extends Pick<DueRepository, 'reason'>>(waiting: W | undefined, later: W): W {
  const rank = ({ reason }: W): number => (reason === 'manual' ? 2 : reason === 'resync' ? 1 : 0);
  return waiting !== undefined && rank(waiting) > rank(later) ? waiting : later;
}

/** What may be begun one after the other: a run by hand, and the look that stays to be done where that reads nothing. */
export interface Following {
  readonly due: DueRepository;
  readonly look?: DueRepository | undefined;
}

/** What is begun behind a sync that is over. */
export function behind(over: {
  /** What it was begun for, and what came of that; null: it was not taken in hand. */
  readonly due: DueRepository;
  readonly kind: SyncRequest['kind'] | null;
  /** What is wanted next, and which look besides. */
  readonly next: DueRepository | undefined;
  readonly look: DueRepository | undefined;
}): Following | undefined {
  const { due, kind, next, look } = over;
  // What repeats an earlier run reads nothing of what there is now.
  const hasRead = kind === null || kind === 'sync';
  // It has taken a run along that was waiting.
  const left = hasRead || due.reason === 'manual' ? look : following(due, look ?? due);
  if (next?.reason === 'manual') return { due: next, look: left };
  if (hasRead || left === undefined) return next && { due: next };
  return { due: following(left, next ?? left) };
}

/** What a wish for a run by hand has been joined to: somebody had asked for a look. */
export function lookBeside(due: DueRepository): DueRepository | undefined {
  if (due.reason !== 'manual' || due.hint === null) return undefined;
  return { ...due, reason: due.hint === '' ? 'poll' : 'push', hint: due.hint === '' ? null : due.hint };
}
