// How far the output of a session's harness is in its transcript, and what the harness was given: the position from which
// another life of this daemon can go on. Bytes are of the harness's output and input since it was started. A position is
// clean while nothing was taken behind a message that is not done with: a question, or the answer to a prompt.

import type { HarnessWriting } from '../../adapters/harness/types.ts';
import type { CursorWrite, HoldCursor } from '../../adapters/store/sessions/holds.ts';

export class Progress {
  /** The turn that the next prompt is of. */
  turn: string | null = null;
  /** All before it is in the transcript, or in the lines that wait to be written. */
  #out = 0;
  /** As much of the text behind it is, too. */
  #skip = 0;
  /** Behind all that was taken. */
  #seen = 0;
  #in = 0;
  #next = 0;
  #prompt: number | null = null;
  #promptTurn: string | null = null;
  #active = false;
  #commits = 0;
  #last = '';
  /** Where what is not done with ends. */
  readonly #questions = new Set<number>();
  readonly #answers = new Set<number>();
  #release: ((out: number) => void) | undefined;
  #state: 'off' | 'on' | 'stopped' = 'off';

  /** Of a harness that was just started. */
  begin(): void {
    this.#out = this.#skip = this.#seen = this.#in = this.#next = 0;
    this.#prompt = null;
    this.#questions.clear();
    this.#answers.clear();
  }

  /** Goes on from what another process has written. */
  adopt(cursor: HoldCursor, commits: number): void {
    this.#out = this.#seen = cursor.out;
    this.#skip = cursor.skip;
    this.#in = cursor.in;
    this.#next = cursor.next;
    this.#prompt = cursor.prompt;
    this.#promptTurn = cursor.turn;
    this.#active = cursor.active;
    this.#commits = commits;
  }

  /** From now on it is written with the transcript. `release` hears up to where that is done. */
  keep(release: (out: number) => void): void {
    this.#release = release;
    this.#state = 'on';
  }

  /** Nothing is written any more: what comes is another process's. */
  stop(): void {
    if (this.#state === 'on') this.#state = 'stopped';
  }

  get isKept(): boolean {
    return this.#state === 'on';
  }

  get isStopped(): boolean {
    return this.#state === 'stopped';
  }

  cursor(): HoldCursor {
    return {
      out: this.#out,
      skip: this.#skip,
      in: this.#in,
      unclean: [...this.#questions, ...this.#answers].some((end) => this.#out >= end),
      turn: this.#promptTurn,
      prompt: this.#prompt,
      next: this.#next,
      active: this.#active,
    };
  }

  /** The next write of the cursor, with lines or without; undefined where none is kept, or it stands as written. */
  write(hasLines: boolean): CursorWrite | undefined {
    if (!this.isKept) return undefined;
    const cursor = this.cursor();
    const text = JSON.stringify(cursor);
    if (!hasLines && text === this.#last) return undefined;
    this.#last = text;
    this.#commits += 1;
    return { cursor, number: this.#commits };
  }

  written({ cursor }: CursorWrite): void {
    this.#release?.(cursor.out);
  }

  /** Up to here all was taken; `isWhole`: and is in lines. */
  saw(end: number | undefined, isWhole: boolean): void {
    this.#seen = Math.max(this.#seen, end ?? 0);
    if (isWhole) this.whole();
  }

  /** All that was taken is in lines. */
  whole(): void {
    this.#out = this.#seen;
    this.#skip = 0;
  }

  /** Of the text that is being taken so many characters more are in lines. */
  wrote(characters: number): void {
    this.#skip += characters;
  }

  did(): void {
    this.#active = true;
  }

  waits(end: number, what: 'question' | 'answer'): void {
    (what === 'question' ? this.#questions : this.#answers).add(end);
  }

  writing({ id, method, answers, bytes }: HarnessWriting): void {
    this.#in += bytes;
    if (id !== undefined) this.#next = id + 1;
    if (method === 'session/prompt' && id !== undefined) {
      this.#prompt = id;
      this.#promptTurn = this.turn;
      this.#active = false;
    }
    if (answers === undefined) return;
    this.#questions.delete(answers);
    this.#seen = Math.max(this.#seen, answers);
  }

  /** The turn was ended, and that stands as written. */
  settled(): void {
    for (const end of this.#answers) this.#seen = Math.max(this.#seen, end);
    this.#answers.clear();
  }
}
