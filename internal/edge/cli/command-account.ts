// `svc account …`, `svc project rename|archive|restore|delete` and `svc audit export`: the rest of administering tenants.

import * as audit from '../../../schemas/api/audit.ts';
import type { DryRun } from '../../../schemas/api/common.ts';
import * as members from '../../../schemas/api/members.ts';
import * as tenancy from '../../../schemas/api/tenancy.ts';
import { once } from 'node:events';
import { connect } from './client.ts';
import { reasonBody, dryRun, isMeant, reasonOf } from './confirm.ts';
import { refusal } from './failure.ts';
import { isoTime } from './iso-time.ts';
import { showList } from './lists.ts';
import { scopeOf } from './scope.ts';
import { cleanDocument, relativeTime } from './text.ts';
import type { Call, Handler } from './types.ts';

export const accountList: Handler = async (call) => {
  const client = await connect(call);
  const now = call.screen.now();
  return showList(call, client, {
    operation: members.listServiceAccounts,
    empty: 'no service accounts',
    head: ['name', 'state', 'created', 'id'],
    row: (account) => [
      account.text('name'),
      account.at('disabledAt') === null ? 'active' : 'disabled',
      relativeTime(account.at('createdAt'), now),
      account.text('id'),
    ],
  });
};

export const accountCreate: Handler = async (call) => {
  const client = await connect(call);
  const name = call.arg('NAME');
  const role = call.text('role');
  const body = { name, ...(role !== undefined && { role: role as 'admin' | 'member' }) };
  const answer = await client.call(members.createServiceAccount, { body });
  call.screen.emit(answer, () => `made the service account ${name}`);
  return 0;
};

const accountState = (disabled: boolean): Handler => {
  return async (call) => {
    const client = await connect(call);
    const name = call.arg('NAME');
    const of = { params: { account: name }, body: { disabled, ...reasonOf(call) } };
    const look = async () => (await client.call(members.updateServiceAccount, { ...of, query: dryRun })) as DryRun;
    if (disabled && !(await isMeant(call, `disabling ${name}`, look))) return 0;
    const answer = await client.call(members.updateServiceAccount, of);
    call.screen.emit(answer, () =>
      disabled ? `${name} is disabled; none of its tokens is valid` : `${name} is enabled`,
    );
    return 0;
  };
};
export const accountDisable = accountState(true);
export const accountEnable = accountState(false);

export const accountDelete: Handler = async (call) => {
  const client = await connect(call);
  const name = call.arg('NAME');
  const of = { params: { account: name } };
  const look = async () => (await client.call(members.deleteServiceAccount, { ...of, query: dryRun })) as DryRun;
  if (!(await isMeant(call, `deleting ${name}`, look))) return 0;
  await client.call(members.deleteServiceAccount, { ...of, ...reasonBody(call) });
  call.screen.emit({ name, status: 'deleted' }, () => `deleted ${name} with its tokens`);
  return 0;
};

async function changeProject(
  call: Call,
  body: { readonly name: string } | { readonly archived: boolean; readonly reason?: string },
  done: string,
): Promise<number> {
  const client = await connect(call);
  const answer = await client.call(tenancy.updateProject, { params: { project: call.arg('SLUG') }, body });
  call.screen.emit(answer, () => `${call.arg('SLUG')} ${done}`);
  return 0;
}
export const projectRename: Handler = (call) =>
  changeProject(call, { name: call.arg('NAME') }, `is ${call.arg('NAME')}`);
export const projectArchive: Handler = async (call) => {
  const client = await connect(call);
  const project = call.arg('SLUG');
  const asked = { params: { project }, query: dryRun, body: { archived: true } };
  const look = async () => (await client.call(tenancy.updateProject, asked)) as DryRun;
  if (!(await isMeant(call, `archiving ${project}`, look))) return 0;
  return changeProject(call, { archived: true, ...reasonOf(call) }, 'is archived: nothing in it changes');
};
export const projectRestore: Handler = (call) => changeProject(call, { archived: false }, 'is back');

export const projectDelete: Handler = async (call) => {
  const client = await connect(call);
  const project = call.arg('SLUG');
  const of = { params: { project } };
  const look = async () => (await client.call(tenancy.deleteProject, { ...of, query: dryRun })) as DryRun;
  if (!(await isMeant(call, `deleting ${project}`, look))) return 0;
  await client.call(tenancy.deleteProject, { ...of, ...reasonBody(call) });
  call.screen.emit({ slug: project, status: 'deleted' }, () => `deleted the project ${project}`);
  return 0;
};

/** Query of the audit's filters that were given. */
export const auditFilters = (call: Call) => ({
  action: call.text('action'),
  subject: call.text('subject'),
  principal: call.text('principal'),
  since: timeOf(call, 'since'),
  until: timeOf(call, 'until'),
});

/** As the server takes it, which says what is wrong with one that is none. */
function timeOf(call: Call, option: string): string | undefined {
  const text = call.text(option);
  return text === undefined ? undefined : (isoTime(text) ?? text);
}

export const auditExport: Handler = async (call) => {
  const client = await connect(call);
  const { stdout } = call.io;
  const { isOrg, params } = scopeOf(call);
  const operation = isOrg ? audit.exportOrganizationAudit : audit.exportAudit;
  for await (const chunk of client.download(operation, { params, query: auditFilters(call) })) {
    if (stdout.write(cleanDocument(chunk))) continue;
    await once(stdout, 'drain', { signal: call.io.signal }).catch((error: unknown) => {
      throw call.io.signal.aborted ? refusal('interrupted', 'interrupted') : error;
    });
  }
  return 0;
};
