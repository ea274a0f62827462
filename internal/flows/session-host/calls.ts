// Calls of tools as their harness tells of them, and the lines that come of that. Some begin a call before they know what it is for,
// and tell its title and input piece by piece as the model writes them: such a call is a line once it is told whole, and one more
// where something came after that. What it gave before its end is what it gave, where the end does not say. Pure.

import { cut, defaultLimits } from '../../adapters/harness/harness.ts';
import type { HarnessUpdate } from '../../adapters/harness/types.ts';

type Told<Kind extends HarnessUpdate['kind']> = Extract<HarnessUpdate, { readonly kind: Kind }>;
export type CallUpdate = Told<'tool_started' | 'tool_updated' | 'tool_finished'>;
export type CallEnd = Told<'tool_finished'>;

/** A call as it is known. */
export interface CallLine {
  readonly callId: string;
  readonly title: string;
  readonly category: string;
  readonly input?: string;
  readonly truncated?: true;
}
/** And when it was told so. */
export type DueCall = CallLine & { readonly at: Date };

interface Call {
  readonly line: DueCall;
  readonly gave: Pick<CallEnd, 'text' | 'truncated'>;
  /** As its line stands; undefined: there is none. */
  readonly stands: string | undefined;
}

/** Those that go on at a time and are remembered, each with texts as long as may be kept. */
const callsMax = 32;

const wordsOf = ({ title, input }: CallLine): string => JSON.stringify([title, input]);

export const isCall = (update: HarnessUpdate): update is CallUpdate =>
  update.kind === 'tool_started' || update.kind === 'tool_updated' || update.kind === 'tool_finished';

export class Calls {
  readonly #open = new Map<string, Call>();
  /** The one of which more is known than stands. */
  #due: string | undefined;

  /** A call with what is told of it now: its title says which tool an input is for that comes later. */
  known(update: CallUpdate): CallLine {
    const { callId, title, input } = update;
    const before = update.kind === 'tool_started' ? undefined : this.#open.get(callId)?.line;
    const category = update.kind === 'tool_updated' ? undefined : update.category;
    const passed = input ?? before?.input;
    const truncated = input === undefined ? before?.truncated : update.truncated;
    return {
      callId,
      title: title ?? before?.title ?? callId,
      category: category ?? before?.category ?? 'other',
      ...(passed !== undefined && { input: passed }),
      ...(truncated && { truncated }),
    };
  }

  /** Takes a part; what is due by it, in order. */
  take(update: CallUpdate, at: Date): readonly (DueCall | CallEnd)[] {
    const { callId, kind } = update;
    const lines: (DueCall | CallEnd)[] = this.#due === callId ? [] : this.close();
    const before = kind === 'tool_started' ? undefined : this.#open.get(callId);
    const line = { ...this.known(update), at };
    const gave = gaveOf(before?.gave ?? {}, update);
    const isNews = update.title !== undefined || update.input !== undefined;
    this.#open.set(callId, { line: isNews ? line : (before?.line ?? line), gave, stands: before?.stands });
    this.#forgetOldest();
    // Of one that was begun elsewhere, or is forgotten, the end alone is told.
    const isOurs = before !== undefined || kind !== 'tool_finished' || update.category !== undefined;
    if (isNews && isOurs && wordsOf(line) !== before?.stands) this.#due = callId;
    if (kind === 'tool_finished') {
      lines.push(...this.close());
      this.#open.delete(callId);
      const { input: _input, category: _category, truncated: _truncated, more: _more, ...end } = update;
      lines.push({ ...end, ...gave });
    } else if (update.status === 'in_progress' || (kind === 'tool_started' && !isEmpty(line)))
      lines.push(...this.close());
    return lines;
  }

  /** Whether more is known of a call than its line says. */
  get isDue(): boolean {
    return this.#due !== undefined;
  }

  /** What is due whatever comes next. */
  close(): DueCall[] {
    const call = this.#due === undefined ? undefined : this.#open.get(this.#due);
    this.#due = undefined;
    if (call === undefined) return [];
    this.#open.set(call.line.callId, { ...call, stands: wordsOf(call.line) });
    return [call.line];
  }

  #forgetOldest(): void {
    for (const oldest of this.#open.keys()) {
      if (this.#open.size <= callsMax) return;
      this.#open.delete(oldest);
    }
  }
}

/** What a call gave, with what is told of that now: all of it, or a piece behind what was told before. */
function gaveOf(before: Call['gave'], update: CallUpdate): Call['gave'] {
  const { text, truncated } = update;
  const told = text === undefined ? before : { text, ...(truncated && { truncated }) };
  const more = update.kind === 'tool_started' ? undefined : update.more;
  if (more === undefined || told.truncated) return told;
  const whole = cut(`${told.text ?? ''}${more}`, defaultLimits.maxTextBytes);
  return { text: whole.text, ...((whole.truncated || truncated) && { truncated: true }) };
}

/** What it is for is still being written. */
const isEmpty = ({ input }: CallLine): boolean => input === undefined || input === '{}';
