// Paths and tokens that find nothing: `where` and `{{ path }}` read the payload of the event, whose shape is known for every
// source but webhooks; a `{{` that nothing closes and a `{{ $name }}` in the document's own body stay as they are written.

import { type Finding, type Range, writtenAt } from '../../domain/diagnostic.ts';
import { nearest } from '../../domain/nearest.ts';
import { anywhere, mayHave, namedPaths, payloadPaths, rootsOf, tickPaths } from '../../domain/payloads.ts';
import { parseTemplate } from '../template/template.ts';
import type { LintText, LintTrigger, Suggestions } from './types.ts';

/** What the payloads of a trigger may hold, one list for all events that have it; null where it may hold anything. */
function payloadsOf(trigger: LintTrigger): readonly (readonly string[])[] | null {
  if (trigger.events.length === 0) return [tickPaths()];
  const lists = [...new Set(trigger.events.map(({ key }) => payloadPaths(key)))];
  return lists.every((list) => list !== null) ? lists : null;
}

/** Texts with more doubtful paths than this get no suggestions for the rest: they cost more than the paths. */
const suggestionsMax = 50;

function suggestion(path: string, lists: readonly (readonly string[])[], made: Suggestions): string | undefined {
  made.count += 1;
  if (made.count > suggestionsMax) return undefined;
  const known = new Set(lists.flatMap((list) => [...namedPaths(list)]));
  const close = nearest(path, known, Math.max(2, Math.floor(path.length / 5)));
  if (close !== undefined) return close;
  const last = path.slice(path.lastIndexOf('.') + 1);
  return [...known].find((one) => one.endsWith(`.${last}`));
}

/** True where a path begins as these payloads do, or nearly so: any other may be what a caller adds. */
function beginsAs(path: string, lists: readonly (readonly string[])[]): boolean {
  if (!path.includes('.')) return false;
  const root = path.split('.', 1)[0] ?? '';
  const most = root.length > 3 ? 1 : 0;
  return lists.some((list) => rootsOf(list).has(root) || nearest(root, rootsOf(list), most) !== undefined);
}

const shown = (path: string): string => path.slice(0, 80).toWellFormed();
const whose = (trigger: LintTrigger): string => {
  const [first, second] = trigger.events;
  if (first === undefined) return 'the tick of a heartbeat';
  return second === undefined ? `the payload of ${first.key.slice(0, 80)}` : 'the payload of any of these events';
};

/** Filters of a trigger on paths that none of its events' payloads has; those in `told` have a warning already. */
export function lintFilters(trigger: LintTrigger, told: ReadonlySet<Range>, made: Suggestions): Finding[] {
  const lists = payloadsOf(trigger);
  if (lists === null) return [];
  const findings: Finding[] = [];
  for (const [key, range] of trigger.whereRanges) {
    // Any other key is the name of a root, or refused as a path.
    if (!key.startsWith('$.')) continue;
    const path = key.slice(2);
    if (told.has(range) || path.includes('{{') || lists.some((list) => mayHave(list, path))) continue;
    if (!beginsAs(path, lists)) continue;
    const near = suggestion(path, lists, made);
    const hint = near === undefined ? {} : { hint: `Did you mean ${near.includes('.') ? `$.${near}` : near}?` };
    const message = `${shown(key)} never exists in ${whose(trigger)}`;
    const at = `${trigger.path}.where[${JSON.stringify(shown(key))}]`;
    findings.push({ severity: 'warning', code: 'payload-path', message, range, path: at, ...hint });
  }
  return findings;
}

const variablePattern = /\{\{\s*\$[^{}]{0,120}\}\}/;

/** The texts of a document; `trigger` is the one whose payload a text reads. */
export function lintText(one: LintText, trigger: LintTrigger | undefined, made: Suggestions): Finding[] {
  const { text, path } = one;
  if (!text.includes('{{')) return [];
  const findings: Finding[] = [];
  const warn = (code: 'ignored-token' | 'payload-path', at: number, message: string, hint?: string): void => {
    const range = writtenAt(one, at);
    findings.push({ severity: 'warning', code, message, range, path, ...(hint === undefined ? {} : { hint }) });
  };
  const variable = one.isOwn ? variablePattern.exec(text) : null;
  if (variable !== null) {
    const message = `The token ${shown(variable[0])} stays as it is: variables are put into imported content only`;
    warn(
      'ignored-token',
      variable.index,
      message,
      'Write the value itself here, or move the text into a fragment that is imported.',
    );
  }
  const open = text.lastIndexOf('{{');
  if (one.reads !== 'nothing' && !text.includes('}}', open)) {
    const message = `${path} holds a {{ that nothing closes, which stays as it is: ${shown(text.slice(open, open + 40))}`;
    warn('ignored-token', open, message, 'Write {{ path }}.');
  }
  const doubtful = one.reads === 'nothing' ? undefined : firstUnknown(one, trigger);
  if (doubtful !== undefined) {
    const near = suggestion(doubtful.path, doubtful.lists, made);
    const where = trigger === undefined ? 'the payload of any event' : whose(trigger);
    const message = `{{ ${shown(doubtful.path)} }} never exists in ${where}, and is rendered as nothing`;
    warn('payload-path', doubtful.at, message, near === undefined ? undefined : `Did you mean {{ ${near} }}?`);
  }
  return findings;
}

/** One list, since what is known of each is kept. */
const nothing: readonly string[] = [];

/** The first token of a text that no payload it reads can have. */
function firstUnknown(one: LintText, trigger: LintTrigger | undefined) {
  const lists = trigger === undefined ? null : payloadsOf(trigger);
  if (trigger !== undefined && lists === null) return undefined;
  const seen = new Set<string>();
  for (const token of parseTemplate(one.text).tokens) {
    // A text may say the same thousands of times.
    if (seen.has(token.path)) continue;
    seen.add(token.path);
    const all = lists ?? [anywhere(token.path) ?? nothing];
    if (!beginsAs(token.path, all) || all.some((list) => mayHave(list, token.path))) continue;
    return { path: token.path, at: token.start, lists: all };
  }
  return undefined;
}
