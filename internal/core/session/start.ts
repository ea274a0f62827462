// What a session is told first, and what a live one is told (docs/reference/routing.md#start-message): five steps, the first
// that gives text. Only an attached prompt goes in verbatim; every other text gets its context lines.

import type { Json } from '../../domain/json.ts';
import { cutText } from '../../domain/utf8.ts';
import { textAt, withContext } from './context.ts';

/** The beginning of a text, and the bytes of UTF-8 that would follow it. */
interface Rendered {
  readonly text: string;
  beyond(): number;
}
/**
 * A template against a payload, about as far as so many bytes go, as core/template renders; rooms of the core do not
 * know each other here.
 */
export type Render = (template: string, payload: Json, bytesMax: number) => Rendered;

/** A message to a session has at most so many bytes of UTF-8 (docs/reference/routing.md#messages). */
const messageBytesMax = 1_048_576;

export interface MessageSource {
  readonly event: string;
  readonly payload: Json;
  readonly attachedUserPrompt?: string | undefined;
  readonly message?: string | undefined;
  readonly initialPrompt?: string | undefined;
  /** True for the spawn of a bind route that found nobody: there a defined `initialPrompt` comes before `message`. */
  readonly isBindUnmatched?: boolean | undefined;
  /** Bytes of UTF-8 that the message may have; at most `messageBytesMax`, which is the default. */
  readonly bytesMax?: number | undefined;
}

export interface StartMessage {
  /** The first message of the conversation. */
  readonly text: string;
  /** Rendered `message` beside an attached prompt, for the system prompt under `hiddenContextHeading`; else null. */
  readonly hiddenContext: string | null;
  /** What a title is inferred from. */
  readonly titleSeed: string;
}

export const hiddenContextHeading = 'Trigger message context';

/** A template that is not there, or that renders to white space, says nothing. */
function say(render: Render, template: string | undefined, payload: Json, bytesMax: number): Rendered | undefined {
  if (template === undefined) return undefined;
  const rendered = render(template, payload, bytesMax);
  return rendered.text.trim() === '' && rendered.beyond() === 0 ? undefined : rendered;
}

const whole = (text: string): Rendered => ({ text, beyond: () => 0 });

/** As it is told: with its context, within the bound. A rendering that is cut has no room for more. */
function told({ text, beyond }: Rendered, { event, payload, bytesMax = messageBytesMax }: MessageSource): string {
  const rest = beyond();
  const cut = cutText(text, bytesMax, rest);
  return cut === text ? cutText(withContext(text, event, payload), bytesMax) : cut;
}

/** The first message of a spawned session. A template that renders to nothing gives way to the next step. */
export function startMessage(source: MessageSource, render: Render): StartMessage {
  const { event, payload, attachedUserPrompt, bytesMax = messageBytesMax } = source;
  const message = say(render, source.message, payload, bytesMax);
  if (attachedUserPrompt !== undefined) {
    const hiddenContext = message === undefined ? null : told(message, source);
    return { text: cutText(attachedUserPrompt, bytesMax), hiddenContext, titleSeed: attachedUserPrompt };
  }
  // The one that is not used is not rendered: either may repeat a payload as often as it has room to name it.
  const initialPrompt = (): Rendered | undefined => say(render, source.initialPrompt, payload, bytesMax);
  const chosen = source.isBindUnmatched ? (initialPrompt() ?? message) : (message ?? initialPrompt());
  const start = chosen ?? whole(recoverText(event, payload) ?? generic(event));
  return { text: told(start, source), hiddenContext: null, titleSeed: start.text };
}

/**
 * What a live session is told by a deliver or bind route, also where that would have started one: the rendered `message`,
 * else what the payload says. A spawn route that became a delivery is told all that it would have started with, so that
 * nothing is lost.
 */
export function deliveredMessage(source: MessageSource, render: Render, isConverted = false): string {
  const { event, payload, bytesMax = messageBytesMax } = source;
  if (isConverted) {
    const { text, hiddenContext } = startMessage(source, render);
    return hiddenContext === null ? text : cutText(`${text}\n\n${hiddenContext}`, bytesMax);
  }
  const message = say(render, source.message, payload, bytesMax);
  return told(message ?? whole(recoverText(event, payload) ?? generic(event)), source);
}

/** What the payload itself says: a chat message with its author, or a reaction; undefined where it says nothing. */
function recoverText(event: string, payload: Json): string | undefined {
  const text = event.startsWith('chat.') ? textAt(payload, 'message', 'text') : '';
  if (event.startsWith('chat.reaction.')) {
    const emoji = textAt(payload, 'reaction', 'rawEmoji') || textAt(payload, 'reaction', 'emoji');
    if (emoji === '') return undefined;
    const who = textAt(payload, 'reaction', 'user', 'userName') || textAt(payload, 'reaction', 'user', 'userId');
    const did = event === 'chat.reaction.removed' ? 'removed' : 'added';
    return `${who || 'Someone'} ${did} the reaction ${emoji}${text === '' ? '' : ` on: ${text}`}`;
  }
  if (text === '') return undefined;
  const author = textAt(payload, 'message', 'author', 'userName') || textAt(payload, 'message', 'author', 'userId');
  return author === '' ? text : `${author}: ${text}`;
}

const generic = (event: string): string => `The event ${event} arrived. Review it and act as your instructions say.`;

/** An inferred title has at most so many characters. */
const inferredMax = 80;
/** A displayed title has at most so many characters (docs/reference/routing.md#messages). */
const titleMax = 200;
/** Of a title no more is rendered than it may show, and some white space. */
const titleBytesMax = 16_384;

/**
 * The session's title on one line, at most 200 characters: the rendered template; for `infer`, without a template, and
 * where it renders to nothing, one made from what the session was told first. `fallback` is for a start without words.
 */
export function displayTitle(
  template: string | undefined,
  start: { readonly titleSeed: string; readonly payload: Json; readonly fallback: string },
  render: Render,
): string {
  const wanted = template === 'infer' ? undefined : say(render, template, start.payload, titleBytesMax);
  const title =
    wanted === undefined ? infer(beginning(start.titleSeed)) || start.fallback : oneLine(beginning(wanted.text));
  return shortened(title, titleMax);
}

/** As much of a text as a title is sought in: each session that an event starts has its own. */
const beginning = (text: string): string => text.trimStart().slice(0, titleBytesMax);

/** Most texts have single spaces only. */
const oneLine = (text: string): string => (/\s\s|[^\S ]/.test(text) ? text.replace(/\s+/g, ' ') : text).trim();

/** The first line with words, without the marks that lists and headings begin with, cut at a word. */
const infer = (seed: string): string => shortened(firstLine(seed), inferredMax);

/**
 * The text, or its beginning with an ellipsis, cut at a word where one ends in the second half. Looks at no more of the
 * text than it may keep: a line of a payload may be as long as the payload, many times over.
 */
function shortened(text: string, charactersMax: number): string {
  if (text.length <= charactersMax) return text;
  // A character has one unit or two.
  const characters = [...text.slice(0, 2 * charactersMax + 2)];
  if (characters.length <= charactersMax) return text;
  const cut = characters.slice(0, charactersMax - 1).join('');
  const space = cut.lastIndexOf(' ');
  return `${space > charactersMax / 2 ? cut.slice(0, space) : cut}…`;
}

/** Reads no further than it has to: a seed may be as long as an event. */
function firstLine(seed: string): string {
  for (let at = 0; at <= seed.length; ) {
    const end = seed.indexOf('\n', at);
    const line = seed.slice(at, end < 0 ? seed.length : end);
    if (/[\p{L}\p{N}]/u.test(line)) return oneLine(line.replace(/^[\s#>*-]+/, ''));
    if (end < 0) break;
    at = end + 1;
  }
  return '';
}
