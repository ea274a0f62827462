// `svc project show|set`: what a project's environments may ask for and reach, and whom its sessions tell and ask.

import * as tenancy from '../../../schemas/api/tenancy.ts';
import { connect } from './client.ts';
import { UsageError } from './failure.ts';
import { clean } from './text.ts';
import type { Call, Handler } from './types.ts';

const paramsOf = (call: Call): { readonly project?: string } => {
  const slug = call.optionalArg('SLUG');
  return slug === undefined ? {} : { project: slug };
};

const approversText = ({ approvers }: tenancy.Project): string =>
  Object.entries(approvers)
    .flatMap(([provider, ids]) => (ids ?? []).map((id) => `${provider}:${id}`))
    .join(', ');

function projectText(project: tenancy.Project): string {
  const rows = [
    ['project', `${project.org}/${project.slug}`],
    ['name', project.name],
    ['archived', project.archived ? 'yes' : 'no'],
    ['notify', project.notify ? 'on' : 'off'],
    ['approvers', approversText(project) || 'nobody'],
    ['limits', JSON.stringify(project.limits ?? {})],
    ['network', project.network?.allow.join(', ') ?? 'as the installation says'],
  ];
  return rows.map(([head = '', text = '']) => `${head.padEnd(10)} ${clean(text, true)}`).join('\n');
}

export const projectShow: Handler = async (call) => {
  const client = await connect(call);
  const project = await client.call(tenancy.getProject, { params: paramsOf(call) });
  call.screen.emit(project, () => projectText(project));
  return 0;
};

/** `chat:U1` and the like by provider; `chat:` alone leaves nobody. Throws UsageError. */
function approversOf(given: readonly string[]): tenancy.Project['approvers'] | undefined {
  if (given.length === 0) return undefined;
  const lists: { [provider: string]: string[] } = {};
  for (const one of given) {
    const [, provider, id = ''] = /^(chat|codehost|tracker):(.*)$/.exec(one) ?? [];
    if (provider === undefined) throw new UsageError('--approver takes chat:ID, codehost:ID or tracker:ID');
    const list = (lists[provider] ??= []);
    if (id !== '' && !list.includes(id)) list.push(id);
  }
  return lists;
}

/** A ceiling that was given, `none` for no ceiling any more, or the one that stands. */
function ceiling(call: Call, option: string, least: number, stands: number | undefined): number | undefined {
  const text = call.text(option);
  if (text === undefined) return stands;
  if (text === 'none') return undefined;
  const value = Number(text);
  if (!Number.isSafeInteger(value) || value < least)
    throw new UsageError(`--${option} takes a whole number from ${least}, or none`);
  return value;
}

/** What the options say of environments, beside what stands. Throws UsageError. */
function environmentOf(call: Call, stands: tenancy.Project['limits']) {
  const allow = call.list('network-allow');
  const isOpen = call.flag('no-network');
  if (isOpen && allow.length > 0) throw new UsageError('--no-network goes with no --network-allow');
  const hasLimits = hasCeilings(call);
  const cpuCount = ceiling(call, 'max-cpu', 1, stands?.cpuCount);
  const memoryMB = ceiling(call, 'max-memory', 128, stands?.memoryMB);
  const limits = { ...(cpuCount !== undefined && { cpuCount }), ...(memoryMB !== undefined && { memoryMB }) };
  return {
    ...(hasLimits && { limits: Object.keys(limits).length === 0 ? null : limits }),
    ...(isOpen ? { network: null } : allow.length > 0 && { network: { allow: [...allow] } }),
  };
}
const hasCeilings = (call: Call): boolean =>
  call.text('max-cpu') !== undefined || call.text('max-memory') !== undefined;

export const projectSet: Handler = async (call) => {
  const [notify, name, approvers] = [call.text('notify'), call.text('name'), approversOf(call.list('approver'))];
  if (notify !== undefined && notify !== 'on' && notify !== 'off') throw new UsageError('--notify takes on or off');
  const people = {
    ...(name !== undefined && { name }),
    ...(approvers !== undefined && { approvers }),
    ...(notify !== undefined && { notify: notify === 'on' }),
  };
  const asked = { ...people, ...environmentOf(call, undefined) };
  if (Object.keys(asked).length === 0) throw new UsageError('nothing to change was given');
  const client = await connect(call);
  const params = paramsOf(call);
  const { limits } = hasCeilings(call) ? await client.call(tenancy.getProject, { params }) : {};
  const answer = (await client.call(tenancy.updateProject, {
    params,
    body: { ...people, ...environmentOf(call, limits) },
  })) as tenancy.Project;
  call.screen.emit(answer, () => `changed the project ${answer.slug}`);
  return 0;
};
