// What a harness says, as rows of the transcript. Text comes in pieces: they are put together until something else comes,
// they are long enough, or a moment has passed, so that a reader sees it grow and the table does not. What must not be
// repeated is masked here, also where it comes in pieces.

import { appendTranscript, type TranscriptEntry } from '../../adapters/store/sessions/turns.ts';
import { type Lease, leaseSeconds } from '../../adapters/store/sessions/hosts.ts';
import { moveHold } from '../../adapters/store/sessions/holds.ts';
import { defaultLimits, nameBytesMax, planPart } from '../../adapters/harness/harness.ts';
import type { HarnessFollower, HarnessUpdate, HarnessWriting } from '../../adapters/harness/types.ts';
import type { JsonObject } from '../../domain/json.ts';
import type { FlowContext } from '../context.ts';
import { type CallEnd, Calls, type CallUpdate, type DueCall, isCall } from './calls.ts';
import { givenSecrets } from './given-secret.ts';
import type { Mask } from './mask.ts';
import { Progress } from './progress.ts';
import { withRetry } from '../with-retry.ts';

/** `callMs`: what a call is for is waited for so long since something of it was told. */
const limits = { flushMs: 400, callMs: 2_000, textChars: 8_000, rows: 64 } as const;

/** Writes updates of one launch, and how far it is with them; loses nothing that `flush` was awaited for. */
export class Transcript implements HarnessFollower {
  readonly progress = new Progress();
  readonly #ctx: FlowContext;
  readonly #lease: Lease;
  readonly #mask: Mask;
  #entries: TranscriptEntry[] = [];
  #piece: { readonly kind: 'text' | 'thought'; text: string } | undefined;
  readonly #calls = new Calls();
  /** When the call that is due was told of, on the monotonic clock. */
  #calledAt = 0;
  #timer: NodeJS.Timeout | undefined;
  #writing: Promise<void> = Promise.resolve();
  /** Writes that have not ended. */
  #underWay = 0;
  /** The number of the last line that is known to stand. */
  #last = 0;
  /** Characters of text that another process has written already. */
  #skip = 0;

  readonly #leaving: AbortSignal;

  /** `leaving`: the session is this host's no more, or the daemon stops: nothing is waited for without end. */
  constructor(ctx: FlowContext, lease: Lease, mask: Mask, leaving: AbortSignal) {
    this.#ctx = ctx;
    this.#lease = lease;
    this.#mask = mask;
    this.#leaving = leaving;
  }

  /** Takes one update; waits only where much is waiting to be written. */
  async take(update: HarnessUpdate, end?: number): Promise<void> {
    if (this.progress.isStopped) return;
    if (update.kind === 'usage') return this.passed(end);
    if (update.kind !== 'notice') this.progress.did();
    if (update.kind === 'text' || update.kind === 'thought') {
      this.#say(update.kind, update.truncated ? this.#mask.applyToCut(update.text) : update.text);
    } else {
      this.#skip = 0;
      if (isCall(update)) this.#call(update);
      else this.#add(entryOf(update, this.#mask));
    }
    this.progress.saw(end, this.#isWhole());
    if (this.#entries.length >= limits.rows) await this.#write();
    else this.#later();
  }

  /** Goes on behind what another process has written. */
  skip(characters: number): void {
    this.#skip = characters;
  }

  passed(end?: number): void {
    this.progress.saw(end, this.#isWhole());
    if (this.progress.isKept) this.#later();
  }

  waits(end: number, what: 'question' | 'answer'): void {
    this.progress.waits(end, what);
  }

  /** Where it is kept how far this is, that stands as written before the harness is given anything more. */
  async writing(message: HarnessWriting): Promise<void> {
    if (this.progress.isStopped) throw new Error('the harness is another process’s');
    this.progress.writing(message);
    if (this.progress.isKept) await this.flush();
  }

  /** A line of our own. */
  async note(entry: TranscriptEntry): Promise<void> {
    this.#add(entry);
    await this.flush();
  }

  /** Resolves when everything taken so far is stored, or belongs to another host by now. */
  flush(): Promise<void> {
    this.#closePiece();
    return this.#write();
  }

  async #write(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const entries = this.#entries;
    this.#entries = [];
    if (this.progress.isStopped) return;
    const write = this.progress.write(entries.length > 0);
    this.#underWay += 1;
    const written = this.#writing.then(async () => {
      const { db, runtime } = this.#ctx;
      if (entries.length > 0) {
        const now = runtime.now();
        let againBehind: number | undefined;
        const append = (): Promise<number | undefined> => {
          const appended = appendTranscript(db, this.#lease, entries, { now, write, againBehind });
          againBehind = this.#last;
          return appended;
        };
        this.#last = (await this.#patiently(append)) ?? this.#last;
      } else if (write !== undefined) await this.#patiently(() => moveHold(db, this.#lease, write));
      if (write !== undefined) this.progress.written(write);
    });
    // The next write does not fail for this one's sake; whoever awaits this one hears of it.
    this.#writing = written.catch(() => undefined).finally(() => (this.#underWay -= 1));
    await written;
  }

  /** A database whose disk is full may renew the lease all the while, and take no line: what was said waits for it. */
  #patiently<T>(work: () => Promise<T>): Promise<T> {
    const leaseEnd = performance.now() + leaseSeconds * 1_000;
    const isOver = (): boolean => this.#leaving.aborted && performance.now() > leaseEnd;
    return withRetry(work, { until: Number.POSITIVE_INFINITY, isOver });
  }

  #say(kind: 'text' | 'thought', said: string): void {
    if (this.#calls.isDue || (this.#piece !== undefined && this.#piece.kind !== kind)) this.#closePiece();
    const known = Math.min(this.#skip, said.length);
    this.#skip -= known;
    if (known === said.length) return;
    const text = said.slice(known);
    this.#piece ??= { kind, text: '' };
    this.#piece.text += text;
    if (this.#piece.text.length >= limits.textChars) this.#breakPiece();
  }

  #call(update: CallUpdate): void {
    this.#closeText();
    this.#mask.hideGiven(givenSecrets(this.#calls.known(update)));
    for (const line of this.#calls.take(update, this.#ctx.runtime.now())) this.#push(callEntryOf(line, this.#mask));
    this.#calledAt = performance.now();
  }

  #add(entry: TranscriptEntry): void {
    this.#closePiece();
    this.#push(entry);
  }

  #push(entry: TranscriptEntry): void {
    const { detail: more } = entry;
    // Several are written together: each keeps its own time, by which one sees how long a call took.
    const masked = { ...entry, text: this.#mask.apply(entry.text), at: entry.at ?? this.#ctx.runtime.now() };
    this.#entries.push(more === undefined ? masked : { ...masked, detail: this.#mask.applyToJson(more) });
  }

  /** There is a text or a call that more may come of, or neither. */
  #closePiece(): void {
    this.#closeText();
    for (const line of this.#calls.close()) this.#push(callEntryOf(line, this.#mask));
    if (this.#isWhole()) this.progress.whole();
  }

  #closeText(): void {
    const piece = this.#piece;
    this.#piece = undefined;
    if (this.#isWhole()) this.progress.whole();
    if (piece !== undefined)
      this.#entries.push({
        role: 'assistant',
        kind: piece.kind,
        text: this.#mask.apply(piece.text),
        at: this.#ctx.runtime.now(),
      });
  }

  /** All that was taken is in lines. */
  #isWhole(): boolean {
    return this.#piece === undefined && this.#skip === 0 && !this.#calls.isDue;
  }

  /** What was said so far; what may be the beginning of something masked waits for what follows. */
  #breakPiece(): void {
    const piece = this.#piece;
    if (piece === undefined) return;
    const text = this.#mask.apply(piece.text);
    const length = text.length - this.#mask.open(text);
    if (length > 0) this.#entries.push({ role: 'assistant', kind: piece.kind, text: text.slice(0, length) });
    this.progress.wrote(Math.max(piece.text.length - (text.length - length), 0));
    this.#piece = length === text.length ? undefined : { kind: piece.kind, text: text.slice(length) };
  }

  #later(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      // What comes while a line waits is put together, until there is so much that whoever brings it waits as well.
      if (this.#underWay > 0) return this.#later();
      this.#breakPiece();
      if (this.#calls.isDue && performance.now() - this.#calledAt >= limits.callMs) this.#closePiece();
      if (this.#isWhole()) this.progress.whole();
      this.#write().catch((error: unknown) => {
        this.#ctx.runtime.log.warn({ err: error, sessionId: this.#lease.sessionId }, 'session.transcript_failed');
      });
      if (this.#calls.isDue) this.#later();
    }, limits.flushMs);
  }
}

const detail = (members: { readonly [name: string]: string | boolean | undefined }): JsonObject =>
  Object.fromEntries(
    Object.entries(members).filter((pair): pair is [string, string | boolean] => pair[1] !== undefined),
  );

/** What was said as a line; where it may have been cut, nothing hidden begins at its end. */
function entryOf(update: Extract<HarnessUpdate, { kind: 'plan' | 'notice' }>, mask: Mask): TranscriptEntry {
  if (update.kind === 'plan') {
    const most = defaultLimits.maxTextBytes / planPart;
    const entries = update.entries.map((one) => `[${one.status}] ${mask.applyWithin(one.text, most)}`);
    return { role: 'assistant', kind: 'plan', text: entries.join('\n') };
  }
  const text = mask.applyWithin(update.text, defaultLimits.maxTextBytes);
  return { role: 'system', kind: 'notice', text, detail: { severity: update.severity } };
}

/** The same of a call of a tool, or of what it gave. */
function callEntryOf(line: DueCall | CallEnd, mask: Mask): TranscriptEntry {
  const whole = (said: string): string => mask.applyWithin(said, defaultLimits.maxTextBytes);
  const name = (said: string): string => mask.applyWithin(said, nameBytesMax);
  const { callId, truncated } = line;
  if ('kind' in line) {
    const title = line.title === undefined ? undefined : name(line.title);
    return {
      role: 'tool',
      kind: 'tool_result',
      text: whole(line.text ?? ''),
      detail: detail({ callId, status: line.status, title, truncated }),
    };
  }
  const { category, at } = line;
  const input = line.input === undefined ? undefined : whole(line.input);
  return {
    ...{ role: 'tool', kind: 'tool_call', at },
    text: name(line.title),
    detail: detail({ callId, category, input, truncated }),
  };
}
