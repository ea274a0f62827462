import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import {
  afterTurn,
  attemptsMax,
  type InboxMessage,
  nextPrompt,
  outOfMemoryText,
  promptMaxBytes,
  promptText,
  relaunchAfterMs,
  successorAfterMs,
} from './prompts.ts';

const message = (seq: number, mode: InboxMessage['mode'], attempts = 0): InboxMessage => ({
  seq,
  mode,
  text: `m${seq}`,
  bytes: 2,
  attempts,
});

describe('the next prompt', () => {
  test('all interrupting messages together, in order', () => {
    const waiting = [message(1, 'interrupt'), message(2, 'defer'), message(3, 'interrupt')];
    assert.deepEqual(
      nextPrompt(waiting).map((one) => one.seq),
      [1, 3],
    );
    assert.equal(promptText(nextPrompt(waiting)), 'm1\n\nm3');
  });

  test('deferring messages one a turn, oldest first', () => {
    const waiting = [message(4, 'defer'), message(5, 'defer')];
    assert.deepEqual(nextPrompt(waiting), [waiting[0]]);
    assert.deepEqual(nextPrompt([]), []);
  });

  test('as many as fit together, and never none', () => {
    const sized = (...sizes: number[]): InboxMessage[] =>
      sizes.map((bytes, seq) => ({ ...message(seq, 'interrupt'), bytes }));
    const seqs = (...sizes: number[]): number[] => nextPrompt(sized(...sizes)).map((one) => one.seq);
    assert.deepEqual(seqs(promptMaxBytes - 1, 1, 1), [0, 1]);
    assert.deepEqual(seqs(promptMaxBytes, 1), [0]);
    assert.deepEqual(seqs(promptMaxBytes + 1, 1), [0]);
    assert.deepEqual(seqs(1, promptMaxBytes, 1), [0]);
    assert.deepEqual(seqs(promptMaxBytes), [0]);
  });

  test('a message that goes in again says so, the others do not', () => {
    const label =
      '[Delivered again: the session was cut off before it had finished with this message. Part of it may be done already; look before you repeat anything.]';
    assert.equal(promptText([message(1, 'interrupt', 1), message(2, 'interrupt')]), `${label}\n\nm1\n\nm2`);
    const from = { sessionId: 's-1', agent: 'boss' };
    assert.equal(
      promptText([{ ...message(1, 'interrupt', 1), from }, message(2, 'interrupt')]),
      `${label}\n\n[Message of session s-1, agent boss]\n\nm1\n\nm2`,
    );
  });

  test('turn by turn, every message goes in once, and none of a mode overtakes another of it', () => {
    const mode = fc.constantFrom('interrupt' as const, 'defer' as const);
    const modes = fc.array(fc.tuple(mode, fc.nat(promptMaxBytes)), { maxLength: 30 });
    fc.assert(
      fc.property(modes, (list) => {
        let waiting = list.map(([mode, bytes], index) => ({ ...message(index, mode), bytes }));
        const heard: InboxMessage[] = [];
        while (waiting.length > 0) {
          const taken = nextPrompt(waiting);
          assert.ok(taken.length > 0);
          heard.push(...taken);
          waiting = waiting.filter((one) => !taken.includes(one));
        }
        assert.equal(heard.length, list.length);
        for (const mode of ['interrupt', 'defer']) {
          const seqs = heard.filter((one) => one.mode === mode).map((one) => one.seq);
          assert.deepEqual(
            seqs,
            seqs.toSorted((a, b) => a - b),
          );
        }
      }),
    );
  });
});

describe('after a turn', () => {
  test('a good end leads to idle, a cap to blocked', () => {
    assert.deepEqual(afterTurn({ kind: 'done' }, 1), { next: 'idle' });
    const capped = { kind: 'failed', cause: 'spend_cap', retryable: false, reason: 'dailyUsd' } as const;
    assert.deepEqual(afterTurn(capped, 3), { next: 'blocked', reason: 'dailyUsd' });
  });

  test('what may pass is tried again, a bounded number of times, later each time', () => {
    const failed = { kind: 'failed', cause: 'overloaded', retryable: true, reason: 'busy' } as const;
    assert.deepEqual(afterTurn(failed, 1), { next: 'retry', afterMs: 1_000, relaunch: false, reason: 'busy' });
    assert.deepEqual(afterTurn(failed, 2), { next: 'retry', afterMs: 10_000, relaunch: false, reason: 'busy' });
    assert.deepEqual(afterTurn(failed, attemptsMax), { next: 'given-up', reason: 'given up after 3 attempts: busy' });
  });

  test('what is lost is tried again in a new process; what cannot succeed is not tried again', () => {
    const lost = afterTurn({ kind: 'lost', reason: 'exited' }, 1);
    assert.equal(lost.next === 'retry' && lost.relaunch, true);
    const worn = afterTurn({ kind: 'lost', reason: 'exited' }, attemptsMax);
    assert.deepEqual(worn, { next: 'failed', reason: 'given up after 3 attempts: exited' });
    const refused = { kind: 'failed', cause: 'authentication', retryable: false, reason: '401' } as const;
    assert.deepEqual(afterTurn(refused, 1), { next: 'failed', reason: '401' });
  });
});

test('a turn that ended for want of memory names the limit', () => {
  assert.equal(outOfMemoryText(512), 'out of memory (512 MB)');
});

test('launches are tried again later and later, and given up', () => {
  assert.deepEqual([1, 2, 3, 4, 5, 6].map(relaunchAfterMs), [1_000, 4_000, 16_000, 60_000, 60_000, null]);
});

test('successors of failed sessions come later and later', () => {
  assert.deepEqual([0, 1, 2, 3].map(successorAfterMs), [5_000, 5_000, 20_000, 80_000]);
  assert.equal(successorAfterMs(50), 3_600_000);
});
