// `svc context …`: several servers, organizations and projects under names, one of them in use.

import { builtIn, type Context, type Contexts, readContexts, writeContexts } from './contexts.ts';
import { UsageError, refusal } from './failure.ts';
import { readSecret } from './input.ts';
import { checkUrl, clientFile, contextsFile, readClientFile, readLogin } from './settings.ts';
import { nearest, table } from './text.ts';
import type { Call, Handler } from './types.ts';

interface Listed extends Omit<Context, 'token'> {
  readonly name: string;
  readonly current: boolean;
}

async function allOf(call: Call): Promise<{ readonly kept: Contexts; readonly items: readonly Listed[] }> {
  const kept = await readContexts(await contextsFile(call));
  const login = await readLogin(call).catch(() => undefined);
  const local = await readClientFile(await clientFile(call)).catch(() => undefined);
  const known: [string, Context][] = [
    ...(local === undefined ? [] : [['local', local] as [string, Context]]),
    ...(login === undefined ? [] : [['login', login] as [string, Context]]),
    ...Object.entries(kept.contexts),
  ];
  const fallback = login === undefined ? 'local' : 'login';
  const current = call.io.env['SVC_CONTEXT'] || (kept.current ?? fallback);
  const items = known.map(([name, { url, org, project }]) => ({ name, url, org, project, current: name === current }));
  return { kept, items };
}

export const contextList: Handler = async (call) => {
  const { items: all } = await allOf(call);
  const items = call.only === undefined ? all : all.filter(({ name }) => name === call.only);
  call.screen.emit({ items, nextCursor: null }, () =>
    items.length === 0
      ? 'no contexts; `svc context add NAME --url URL` makes one'
      : table(
          ['', 'name', 'url', 'org', 'project'],
          items.map(({ name, url, org, project, current }) => [current ? '*' : '', name, url, org, project]),
          { paint: call.screen.paint, width: call.screen.width },
        ),
  );
  return 0;
};

export const contextUse: Handler = async (call) => {
  const { kept, items } = await allOf(call);
  const name = call.arg('NAME');
  const found = items.find((one) => one.name === name);
  if (found === undefined) {
    const names = items.map((one) => one.name);
    const near = nearest(name, names);
    const hint = near === undefined ? `there are ${names.join(', ') || 'none'}` : `did you mean ${near}?`;
    throw refusal('no-such-context', `there is no context ${name}`, hint);
  }
  await writeContexts(await contextsFile(call), { ...kept, current: name });
  call.screen.emit({ ...found, current: true }, () => `using ${name}: ${found.url} ${found.org}/${found.project}`);
  return 0;
};

export const contextAdd: Handler = async (call) => {
  const name = call.arg('NAME');
  const url = call.global('url');
  if (!/^[A-Za-z0-9_.-]{1,64}$/.test(name)) throw new UsageError('NAME has letters, digits, _, . and -');
  if (builtIn.some((one) => one === name)) throw new UsageError(`${name} is always there`);
  if (url === undefined) throw new UsageError('--url is missing: http:// or https:// and the server');
  const address = checkUrl(url, '--url');
  const token = (call.global('token') ?? (await readSecret(call, `token for ${address}`))).trim();
  const kept = await readContexts(await contextsFile(call));
  const made: Context = {
    url: address,
    token,
    org: call.global('org') ?? 'default',
    project: call.global('project') ?? 'default',
  };
  await writeContexts(await contextsFile(call), { ...kept, contexts: { ...kept.contexts, [name]: made } });
  const { token: _token, ...shown } = made;
  call.screen.emit({ name, ...shown }, () => `added ${name}; \`svc context use ${name}\` takes it into use`);
  return 0;
};

export const contextRemove: Handler = async (call) => {
  const kept = await readContexts(await contextsFile(call));
  const name = call.arg('NAME');
  const { [name]: gone, ...contexts } = kept.contexts;
  if (gone === undefined) throw refusal('no-such-context', `there is no context ${name} that was added`);
  const { current, ...rest } = kept;
  await writeContexts(await contextsFile(call), {
    ...rest,
    ...(current !== undefined && current !== name && { current }),
    contexts,
  });
  call.screen.emit({ name, status: 'removed' }, () => `removed ${name}${current === name ? ', which was in use' : ''}`);
  return 0;
};
