// `svc account …`, `svc project rename|archive|restore` and `svc audit export`: the rest of administering tenants.

import { once } from 'node:events';
import { type Client, connect } from './client.ts';
import { showList } from './lists.ts';
import { scoped } from './scope.ts';
import { relativeTime } from './text.ts';
import type { Call, Handler } from './types.ts';

const accounts = (client: Client, name?: string): string =>
  client.org(`/service-accounts${name === undefined ? '' : `/${encodeURIComponent(name)}`}`);

export const accountList: Handler = async (call) => {
  const client = await connect(call);
  const now = call.screen.now();
  return showList(call, client, {
    path: accounts(client),
    empty: 'no service accounts',
    head: ['name', 'state', 'created', 'id'],
    row: (account) => [
      account.text('name'),
      account.raw('disabledAt') === null ? 'active' : 'disabled',
      relativeTime(account.raw('createdAt') as string, now),
      account.text('id'),
    ],
  });
};

export const accountCreate: Handler = async (call) => {
  const client = await connect(call);
  const name = call.arg('NAME');
  const role = call.text('role');
  const body = { name, ...(role !== undefined && { role }) };
  const answer = await client.request('POST', accounts(client), { body });
  call.screen.emit(answer, () => `made the service account ${name}`);
  return 0;
};

const accountState = (disabled: boolean): Handler => {
  return async (call) => {
    const client = await connect(call);
    const name = call.arg('NAME');
    const answer = await client.request('PATCH', accounts(client, name), { body: { disabled } });
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
  const answer = await client.request('DELETE', accounts(client, name));
  call.screen.emit(answer ?? { name, status: 'deleted' }, () => `deleted ${name} with its tokens`);
  return 0;
};

async function changeProject(call: Call, body: object, done: string): Promise<number> {
  const client = await connect(call);
  const path = client.org(`/projects/${encodeURIComponent(call.arg('SLUG'))}`);
  const answer = await client.request('PATCH', path, { body });
  call.screen.emit(answer, () => `${call.arg('SLUG')} ${done}`);
  return 0;
}
export const projectRename: Handler = (call) =>
  changeProject(call, { name: call.arg('NAME') }, `is ${call.arg('NAME')}`);
export const projectArchive: Handler = (call) =>
  changeProject(call, { archived: true }, 'is archived: nothing in it changes');
export const projectRestore: Handler = (call) => changeProject(call, { archived: false }, 'is back');

/** Query of the audit's filters that were given. */
export const auditFilters = (call: Call): { [name: string]: string | undefined } =>
  Object.fromEntries(['action', 'subject', 'principal', 'since', 'until'].map((name) => [name, call.text(name)]));

export const auditExport: Handler = async (call) => {
  const client = await connect(call);
  const { stdout } = call.io;
  for await (const chunk of client.download(scoped(call, client, '/audit/export'), auditFilters(call))) {
    if (!stdout.write(chunk)) await once(stdout, 'drain', { signal: call.io.signal });
  }
  return 0;
};
