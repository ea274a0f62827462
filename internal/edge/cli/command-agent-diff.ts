// `svc agent diff`: how two agents, or two revisions of one, differ, field by field.

import * as agents from '../../../schemas/api/agents.ts';
import { diffJson } from '../../core/plan/plan.ts';
import type { Json } from '../../domain/json.ts';
import { type Client, connect } from './client.ts';
import { printOptions } from './command-reconcile.ts';
import { UsageError, refusal } from './failure.ts';
import { printChange } from './print-run.ts';
import { clean } from './text.ts';
import type { Call, Handler } from './types.ts';

interface Side {
  readonly name: string;
  /** Absent: the one that runs. */
  readonly revision?: number;
}

const sideOf = (text: string): Side => {
  const [, name = '', revision] = /^(.*?)(?:@(\d+))?$/.exec(text) ?? [];
  return revision === undefined ? { name } : { name, revision: Number(revision) };
};

/** `triage 3 5`, `triage 3`, `triage`, `triage@3 other`. */
async function sidesOf(call: Call, client: Client): Promise<readonly [Side, Side]> {
  const a = sideOf(call.arg('A'));
  const b = call.optionalArg('B');
  const c = call.optionalArg('C');
  if (b === undefined) {
    const to = a.revision ?? (await client.call(agents.getAgent, { params: { name: a.name } })).revision;
    if (to <= 1)
      throw refusal('no-revision', `${a.name} has no revision before ${to}`, 'name another agent to compare with');
    return [
      { name: a.name, revision: to - 1 },
      { name: a.name, revision: to },
    ];
  }
  if (!/^\d+$/.test(b)) {
    if (c !== undefined) throw new UsageError('a third argument goes with two revisions', 'svc agent diff triage 3 5');
    return [a, sideOf(b)];
  }
  if (c !== undefined && !/^\d+$/.test(c)) throw new UsageError(`"${c}" is not a revision`);
  return [
    { name: a.name, revision: Number(b) },
    c === undefined ? { name: a.name } : { name: a.name, revision: Number(c) },
  ];
}

interface Found {
  readonly name: string;
  readonly revision: number;
  readonly spec: Json;
}

async function specOf(client: Client, { name, revision }: Side): Promise<Found> {
  const params = { name };
  const agent = await client.call(agents.getAgent, { params });
  if (revision === undefined || revision === agent.revision)
    return { name, revision: agent.revision, spec: agent.spec as unknown as Json };
  const { items } = await client.list(agents.listAgentRevisions, { params });
  const found = items.find((one) => one.revision === revision);
  if (found === undefined)
    throw refusal('no-revision', `${name} has no revision ${revision}`, `svc agent history ${name}`);
  return { name, revision, spec: found.spec as unknown as Json };
}

export const agentDiff: Handler = async (call) => {
  const client = await connect(call);
  const [left, right] = await sidesOf(call, client);
  const from = await specOf(client, left);
  const to = await specOf(client, right);
  const changes = diffJson(from.spec, to.spec);
  const end = ({ name, revision }: Found) => ({ name, revision });
  call.screen.emit({ from: end(from), to: end(to), changes }, () => {
    const head = call.screen.paint('bold', clean(`${from.name}@${from.revision} → ${to.name}@${to.revision}`, true));
    if (changes.length === 0) return `${head}\n  no difference`;
    return [head, ...changes.flatMap((change) => printChange(change, printOptions(call)))].join('\n');
  });
  return changes.length > 0 && call.flag('exit-code') ? 1 : 0;
};
