// `svc secret …`. A value comes from a prompt without an echo, a file or stdin, and is printed by `reveal` alone.

import type { DryRun } from '../../../schemas/api/common.ts';
import * as secrets from '../../../schemas/api/secrets.ts';
import { connect } from './client.ts';
import { reasonBody, dryRun, isAsked, isMeant } from './confirm.ts';
import { UsageError, refusal } from './failure.ts';
import { readSecret } from './input.ts';
import { isoTime } from './iso-time.ts';
import { type Row, showList } from './lists.ts';
import { scopeOf } from './scope.ts';
import { clean, details, durationText, parseDurationSeconds, relativeTime } from './text.ts';
import type { Call, Handler } from './types.ts';

/** The operations at the scope that is meant, and where the secret stands. */
function placeOf(call: Call) {
  const { isOrg, params } = scopeOf(call);
  return {
    operations: isOrg ? secrets.organizationSecrets : secrets.projectSecrets,
    params: { ...params, name: call.arg('NAME') },
  };
}

export const secretSet: Handler = async (call) => {
  const settings = settingsOf(call);
  const value = await readSecret(call, `value of ${call.arg('NAME')}`);
  const client = await connect(call);
  const body = { value, ...settings, ...(call.flag('unprotected') && { protected: false }) };
  const { operations, params } = placeOf(call);
  return done(call, await client.call(operations.write, { params, body }), 'stored');
};

/** What the options say; `none` is the null that clears. */
function settingsOf(call: Call) {
  const description = call.text('description');
  const expiresAt = expiryOf(call.text('expires-at'));
  const idleExpirySeconds = idleOf(call.text('idle-expiry'));
  const injection = injectionOf(call);
  return {
    ...(description !== undefined && { description }),
    ...(expiresAt !== undefined && { expiresAt }),
    ...(idleExpirySeconds !== undefined && { idleExpirySeconds }),
    ...(injection !== undefined && { injection }),
  };
}

function expiryOf(text: string | undefined): string | null | undefined {
  if (text === undefined) return undefined;
  if (text === 'none') return null;
  const at = isoTime(text);
  if (at === undefined) throw new UsageError('--expires-at takes an ISO time, or none');
  return at;
}

function idleOf(text: string | undefined): number | null | undefined {
  if (text === undefined) return undefined;
  if (text === 'none') return null;
  const seconds = parseDurationSeconds(text);
  if (seconds === undefined) throw new UsageError('--idle-expiry takes seconds, 30d, or none');
  return seconds;
}

function injectionOf(call: Call) {
  const hosts = call.list('inject-host');
  const header = call.text('inject-header');
  const format = call.text('inject-format');
  const isGiven = hosts.length > 0 || header !== undefined || format !== undefined;
  if (call.flag('no-inject')) {
    if (isGiven) throw new UsageError('--no-inject goes with no other --inject option');
    return null;
  }
  if (!isGiven) return undefined;
  if (hosts.length === 0 || header === undefined) throw new UsageError('--inject-host and --inject-header go together');
  return { hosts, header, ...(format !== undefined && { format }) };
}

// An answer about a secret is metadata; a server that put a value there would be wrong, and it is not printed.
function done(call: Call, answer: secrets.Secret | undefined, what: string): number {
  const name = call.arg('NAME');
  const { value: _value, ...metadata } = Object(answer ?? { name, status: what }) as {
    readonly [key: string]: unknown;
  };
  call.screen.emit(metadata, () => `${what} ${name}`);
  return 0;
}

/** When the value ends: by its deadline, or by not being used. */
function expiryText(secret: Row<secrets.Secret>, now: Date): string {
  const idle = secret.at('idleExpirySeconds');
  const deadline = relativeTime(secret.at('expiresAt'), now);
  if (typeof idle !== 'number') return deadline;
  const unused = `${durationText(idle * 1_000)} unused`;
  return secret.at('expiresAt') === null ? unused : `${deadline}, or ${unused}`;
}

export const secretList: Handler = async (call) => {
  const client = await connect(call);
  const now = call.screen.now();
  const { isOrg, params } = scopeOf(call);
  return showList(call, client, {
    operation: (isOrg ? secrets.organizationSecrets : secrets.projectSecrets).list,
    input: { params },
    empty: 'no secrets',
    head: ['name', 'protected', 'injected', 'expires', 'rotated', 'used', 'description'],
    row: (secret) => [
      secret.text('name'),
      secret.at('protected') === false ? 'no' : 'yes',
      secret.at('injection') === null ? 'no' : 'yes',
      secret.at('expired') === true ? { text: 'expired', colour: 'red' } : expiryText(secret, now),
      relativeTime(secret.at('lastRotatedAt'), now),
      relativeTime(secret.at('lastAccessedAt'), now),
      secret.text('description'),
    ],
  });
};

export const secretShow: Handler = async (call) => {
  const client = await connect(call);
  const now = call.screen.now();
  const { operations, params } = placeOf(call);
  const secret = await client.call(operations.get, { params });
  const when = (at: string | null): string => (at === null ? 'never' : `${relativeTime(at, now)} (${at})`);
  call.screen.emit(secret, () =>
    details(
      [
        ['name', clean(secret.name, true)],
        ['scope', secret.scope],
        ['state', secret.expired ? 'expired' : 'live'],
        ['protected', secret.protected ? 'yes' : 'no: svc secret reveal shows it'],
        ['description', secret.description === null ? undefined : clean(secret.description)],
        ['expires', secret.expiresAt === null ? undefined : when(secret.expiresAt)],
        [
          'idle expiry',
          secret.idleExpirySeconds === null ? undefined : `${durationText(secret.idleExpirySeconds * 1_000)} unused`,
        ],
        [
          'injected',
          secret.injection === null ? undefined : `${secret.injection.header} to ${secret.injection.hosts.join(', ')}`,
        ],
        ['rotated', when(secret.lastRotatedAt)],
        ['last used', when(secret.lastAccessedAt)],
      ],
      call.screen.paint,
    ),
  );
  return 0;
};

export const secretEdit: Handler = async (call) => {
  const body = { ...settingsOf(call), ...(call.flag('protect') && { protected: true }) };
  if (Object.keys(body).length === 0) throw new UsageError('nothing to change was given');
  const client = await connect(call);
  const { operations, params } = placeOf(call);
  return done(call, await client.call(operations.update, { params, body }), 'changed');
};

export const secretRotate: Handler = async (call) => {
  const value = await readSecret(call, `new value of ${call.arg('NAME')}`);
  const client = await connect(call);
  const { operations, params } = placeOf(call);
  return done(call, await client.call(operations.rotate, { params, body: { value } }), 'rotated');
};

export const secretReveal: Handler = async (call) => {
  const client = await connect(call);
  const { operations, params } = placeOf(call);
  const answer = await client.call(operations.reveal, { params });
  call.screen.exact(answer, () => answer.value);
  return 0;
};

/** What may use a secret, as a dry run calls it, and one of it. */
const userKinds = { endpoints: 'endpoint', agents: 'agent', repositories: 'repository' };

/** What uses the secret: endpoints, repositories, and agents that name it themselves or in their environment. */
function usersIn({ consequences }: DryRun): string[] {
  return Object.entries(userKinds).flatMap(([kind, word]) =>
    consequences
      .filter((one) => one.kind === kind)
      .flatMap(({ count, names }) => [
        ...names.map((name) => `${word} ${name}`),
        ...(count > names.length ? [`${count - names.length} more ${kind}`] : []),
      ]),
  );
}

export const secretDelete: Handler = async (call) => {
  const client = await connect(call);
  const { operations, params } = placeOf(call);
  const name = call.arg('NAME');
  const look = async () => (await client.call(operations.remove, { params, query: dryRun })) as DryRun;
  const isForced = call.flag('force') && !call.flag('dry-run');
  // Who is asked, or looks, is told what uses it all the same.
  const users = isForced || call.flag('dry-run') || isAsked(call) ? [] : usersIn(await look());
  if (users.length > 0)
    throw refusal('secret-in-use', `${name} is used by ${users.join(', ')}`, '--force deletes it nevertheless');
  if (!isForced && !(await isMeant(call, `deleting ${name}`, look))) return 0;
  await client.call(operations.remove, { params, ...reasonBody(call) });
  return done(call, undefined, 'deleted');
};
