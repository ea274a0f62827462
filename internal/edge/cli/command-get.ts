// `svc get KIND [NAME]` and `svc describe KIND [NAME]`: the lists and the views of every kind under the words that hands
// know. They run the kind's own commands.

import { UsageError, Refusal } from './failure.ts';
import { nearest } from './text.ts';
import type { Call, Handler } from './types.ts';

interface Kind {
  readonly names: readonly string[];
  readonly list: string;
  /** Absent where a list tells all that there is. */
  readonly show?: string;
}

export const kinds: readonly Kind[] = [
  { names: ['agents', 'agent', 'ag'], list: 'agent list', show: 'agent show' },
  { names: ['repos', 'repo', 'repository', 'repositories'], list: 'repo list', show: 'repo show' },
  { names: ['reconciles', 'reconcile', 'runs', 'run'], list: 'reconcile list', show: 'reconcile show' },
  { names: ['triggers', 'trigger'], list: 'trigger list', show: 'trigger show' },
  { names: ['endpoints', 'endpoint', 'ep'], list: 'endpoint list', show: 'endpoint show' },
  { names: ['schedules', 'schedule'], list: 'schedule list' },
  { names: ['secrets', 'secret'], list: 'secret list', show: 'secret show' },
  { names: ['events', 'event', 'ev'], list: 'event list', show: 'event show' },
  { names: ['sessions', 'session'], list: 'session list', show: 'session show' },
  { names: ['bindings', 'binding'], list: 'binding list' },
  { names: ['connections', 'connection'], list: 'connection list', show: 'connection show' },
  { names: ['projects', 'project'], list: 'project list', show: 'project show' },
  { names: ['orgs', 'org', 'organizations', 'organization'], list: 'org list' },
  { names: ['members', 'member'], list: 'member list' },
  { names: ['accounts', 'account'], list: 'account list' },
  { names: ['tokens', 'token'], list: 'token list' },
  { names: ['daemons', 'daemon'], list: 'daemon list' },
  { names: ['contexts', 'context'], list: 'context list' },
];

/** `agents`, `agent/triage` and `agent triage`. */
function meant(call: Call): { readonly kind: Kind; readonly name: string | undefined } {
  const [word = '', ...rest] = call.arg('KIND').split('/');
  const kind = kinds.find(({ names }) => names.includes(word.toLowerCase()));
  if (kind === undefined) {
    const near = nearest(
      word,
      // A short one is no better told by a guess at it.
      kinds.flatMap(({ names }) => names).filter((name) => name.length > 2),
    );
    const known = kinds.map(({ names }) => names[0]).join(', ');
    throw new UsageError(
      `there is no kind "${word}"`,
      near === undefined ? `one of ${known}` : `did you mean ${near}?`,
    );
  }
  const inKind = rest.length === 0 ? undefined : rest.join('/');
  if (inKind !== undefined && call.optionalArg('NAME') !== undefined)
    throw new UsageError('give KIND/NAME or KIND NAME');
  return { kind, name: inKind ?? call.optionalArg('NAME') };
}

export const getCommand: Handler = async (call) => {
  const { kind, name } = meant(call);
  if (name === undefined) return call.run(kind.list, []);
  // One thing as a document is the thing itself, not a list of one.
  const isDocument = call.screen.json && !call.flag('watch');
  return isDocument && kind.show !== undefined ? call.run(kind.show, [name]) : call.run(kind.list, [], name);
};

export const describeCommand: Handler = async (call) => {
  const { kind, name } = meant(call);
  if (kind.show === undefined || name === undefined) return call.run(kind.list, [], name);
  try {
    return await call.run(kind.show, [name]);
  } catch (error) {
    if (!(error instanceof Refusal) || error.problem.status !== 404) throw error;
    throw new Refusal(error.problem, `\`svc get ${kind.names[0]}\` lists those there are`);
  }
};
