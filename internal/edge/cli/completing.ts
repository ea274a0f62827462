// What a shell completes an argument or the value of an option with: words of the table, or names that `svc __names` gives.

import type { ArgSpec, CommandSpec, OptionSpec, ValueKind } from './types.ts';

const options: { readonly [name: string]: ValueKind } = {
  agent: 'agent',
  repo: 'repo',
  connection: 'connection',
  secret: 'secret',
  endpoint: 'endpoint',
  project: 'project',
  org: 'org',
  key: 'event-key',
};
/** First words whose NAME, ID or SLUG is one that is there. */
const groups: { readonly [word: string]: ValueKind } = {
  agent: 'agent',
  repo: 'repo',
  reconcile: 'reconcile',
  endpoint: 'endpoint',
  secret: 'secret',
  connection: 'connection',
  event: 'event',
  session: 'session',
  binding: 'binding',
  org: 'org',
  project: 'project',
  account: 'account',
  token: 'token',
};
/** These make a new one, whose name nobody knows. */
const creatingVerbs = new Set(['add', 'create', 'reserve']);

export function namesOfOption(command: CommandSpec | undefined, option: OptionSpec): ValueKind | undefined {
  if (option.values !== undefined || option.choices !== undefined || option.completes !== undefined)
    return option.values;
  if (option.type !== 'string' && option.type !== 'list') return undefined;
  if (option.name === 'event' && command?.words.join(' ') === 'trigger explain') return 'event-key';
  return Object.hasOwn(options, option.name) ? options[option.name] : undefined;
}

/** `index`: which argument it is. */
export function namesOfArg(command: CommandSpec, arg: ArgSpec, index: number): ValueKind | undefined {
  if (arg.values !== undefined || arg.choices !== undefined || arg.completes !== undefined) return arg.values;
  const [first = '', second = ''] = command.words;
  if (first === 'explain') return 'field';
  if (first === 'agent' && second === 'diff') return index < 2 ? 'agent' : undefined;
  if (index > 0) return first === 'repo' && second === 'approve' ? 'reconcile' : undefined;
  if (creatingVerbs.has(second) || !/^(?:NAME|ID|SLUG)$/.test(arg.name)) return undefined;
  return Object.hasOwn(groups, first) ? groups[first] : undefined;
}
