// Lines of context that a message is given where its text lacks them (docs/reference/events.md: trigger message rendering): ids of
// channel, thread and message on chat events, and one line per attachment on chat, code-host comment and review events.

import type { Json, JsonObject } from '../../domain/json.ts';

/** The brokered tool that fetches an attachment with the session's own credentials. */
const downloadTool = 'download_attachment';

/** Code-host events of comments and reviews, and where in the payload each keeps what was said. */
const saidAt: readonly (readonly [prefix: string, key: string])[] = [
  ['codehost.issue_comment.', 'issueComment'],
  ['codehost.issue.comment.', 'issueComment'],
  ['codehost.review.', 'review'],
  ['codehost.pull_request_review.', 'review'],
  ['codehost.pull_request_review_comment.', 'reviewComment'],
  ['codehost.commit_comment.', 'commitComment'],
];

function member(value: Json | undefined, key: string): Json | undefined {
  const isRecord = typeof value === 'object' && value !== null && !Array.isArray(value);
  return isRecord && Object.hasOwn(value, key) ? (value as JsonObject)[key] : undefined;
}

/** Text at a path of own members, trimmed; a number as text, anything else as nothing. */
export function textAt(value: Json | undefined, ...path: readonly string[]): string {
  const found = path.reduce(member, value);
  return typeof found === 'string' ? found.trim() : typeof found === 'number' ? String(found) : '';
}

/** Every line of context that the event has to give, in order, whatever the text says already. */
export function contextLines(event: string, payload: Json): string[] {
  if (event.startsWith('chat.')) {
    const ids = [
      ['Channel', textAt(payload, 'chat', 'channelId')],
      ['Thread', textAt(payload, 'chat', 'threadId')],
      ['Message', textAt(payload, 'chat', 'messageId')],
    ] as const;
    const lines = ids.filter(([, id]) => id !== '').map(([label, id]) => `${label}: ${id}`);
    return [...lines, ...attachments(member(payload, 'message')).map((file) => `Attachment: ${file}`)];
  }
  const said = saidAt.find(([prefix]) => event.startsWith(prefix));
  if (said === undefined) return [];
  const files = attachments(member(member(payload, 'codehost'), said[1]));
  return files.map((file) => `Attachment: ${file} (download it with the tool ${downloadTool})`);
}

/** Each file by its name and where it is, or whichever of the two is known. */
function attachments(said: Json | undefined): string[] {
  const files = member(said, 'attachments');
  if (!Array.isArray(files)) return [];
  return (files as readonly Json[]).flatMap((file) => {
    const line = [textAt(file, 'name'), textAt(file, 'url') || textAt(file, 'id')].filter((part) => part !== '');
    return line.length === 0 ? [] : [line.join(' ').replace(/\s+/g, ' ')];
  });
}

/** The text, and below it the lines of context that it lacks. */
export function withContext(text: string, event: string, payload: Json): string {
  const lines = contextLines(event, payload);
  if (lines.length === 0) return text;
  // As a line of context is written: one space behind a label.
  const said = text.replace(/(\w):[ \t]*/g, '$1: ');
  const says = sayer(said);
  const lacking = lines.filter((line) => !says(line));
  return lacking.length === 0 ? text : `${text.trimEnd()}\n\n${lacking.join('\n')}`;
}

/** Characters that are compared to find out what a text says already; a payload may make text and lines of any kind. */
const comparedMax = 20_000_000;

/**
 * Whether a text has a line anywhere, as words of their own: `Thread: 11.5` does not say `Thread: 11`. Each label is looked
 * for once, and where looking would take too long, a line counts as lacking.
 */
function sayer(text: string): (line: string) => boolean {
  const places = new Map<string, number[]>();
  const placesOf = (label: string): readonly number[] => {
    let found = places.get(label);
    if (found === undefined) {
      found = [];
      for (let at = text.indexOf(label); at !== -1; at = text.indexOf(label, at + 1)) {
        if (!/\w/.test(text.charAt(at - 1))) found.push(at);
      }
      places.set(label, found);
    }
    return found;
  };
  let left = comparedMax;
  const goesOn = /[.:/-]*\w/y;
  return (line) => {
    const wanted = line.replace(/(\w):[ \t]*/g, '$1: ');
    for (const at of placesOf(wanted.slice(0, wanted.indexOf(': ') + 2))) {
      left -= wanted.length;
      if (left < 0) return false;
      goesOn.lastIndex = at + wanted.length;
      if (text.startsWith(wanted, at) && !goesOn.test(text)) return true;
    }
    return false;
  };
}
