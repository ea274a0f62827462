// The device grant (RFC 8628), with this service as the authorization server and its own command line as the one client.

import {
  decideGrant,
  insertGrant,
  pendingGrant,
  pollGrant,
  type PolledGrant,
  useGrant,
} from '../../adapters/store/signin/device-grants.ts';
import { orgsOf } from '../../adapters/store/signin/web-sessions.ts';
import { insertToken } from '../../adapters/store/tenancy/principals.ts';
import type { Sql } from '../../adapters/store/store.ts';
import { Fault } from '../../domain/fault.ts';
import type { Actor, FlowContext } from '../context.ts';
import { hashToken, newToken } from '../tenancy/tenancy.ts';
import { auditIn, personRequired } from './web-session.ts';

const lifetimeSeconds = 600;
const intervalSeconds = 5;
const tokenMs = 30 * 24 * 60 * 60 * 1_000;
/** No vowels: no words. */
const letters = 'BCDFGHJKLMNPQRSTVWXZ';
const codeLetters = 8;
const wrong = { most: 10, windowMs: 60_000, people: 10_000 } as const;
const clientId = 'svc-cli';

/** An error of RFC 6749, section 5.2, or RFC 8628, section 3.5. */
export interface GrantError {
  readonly error: string;
  readonly error_description?: string;
}
interface StartedDevice {
  readonly device_code: string;
  readonly user_code: string;
  readonly verification_uri: string;
  readonly expires_in: number;
  readonly interval: number;
}
interface MadeDeviceToken {
  readonly access_token: string;
  readonly token_type: 'Bearer';
  readonly expires_in: number;
  readonly token_id: string;
}
type Form = { readonly [name: string]: string | undefined };

/** Evenly distributed: bytes beyond the last whole multiple of the alphabet are drawn again. */
function drawCode(ctx: FlowContext): string {
  let code = '';
  while (code.length < codeLetters) {
    for (const byte of ctx.runtime.randomBytes(codeLetters)) {
      if (byte < 240 && code.length < codeLetters) code += letters[byte % letters.length];
    }
  }
  return code;
}
const plain = (code: string): string => code.toUpperCase().replaceAll(/[^A-Z]/g, '');

/** Begins a grant for a command line, from `address`. Where too many wait it is `temporarily_unavailable`. */
export async function startDevice(ctx: FlowContext, form: Form, address: string): Promise<StartedDevice | GrantError> {
  if (form['client_id'] !== clientId) return unknownClient(form);
  const deviceCode = ctx.runtime.randomBytes(32).toString('base64url');
  const userCode = drawCode(ctx);
  const now = ctx.runtime.now();
  const host = (form['host'] ?? '').replaceAll(/[^\x20-\x7e]/g, '').slice(0, 200);
  const isBegun = await insertGrant(ctx.db, {
    deviceCodeSha256: hashToken(deviceCode),
    userCodeSha256: hashToken(userCode),
    host: host === '' ? 'unknown' : host,
    address,
    intervalSeconds,
    now,
    expiresAt: new Date(now.getTime() + lifetimeSeconds * 1_000),
  });
  if (!isBegun) return tooMany;
  return {
    device_code: deviceCode,
    user_code: `${userCode.slice(0, 4)}-${userCode.slice(4)}`,
    verification_uri: `${ctx.baseUrl}/device`,
    expires_in: lifetimeSeconds,
    interval: intervalSeconds,
  };
}

const tooMany: GrantError = {
  error: 'temporarily_unavailable',
  error_description: 'too many command lines wait for somebody to let them in; try again in some minutes',
};

const unknownClient = (form: Form): GrantError =>
  form['client_id'] === undefined
    ? { error: 'invalid_request', error_description: 'client_id is required' }
    : { error: 'invalid_client' };

export interface DevicePending {
  readonly host: string;
  readonly address: string;
  readonly expiresAt: Date;
}
interface Decider {
  readonly id: string;
  readonly kind: string;
  readonly tokenId: string | null;
  readonly tokenOrgId: string | null;
  readonly tokenExpiresAt: Date | null;
}

/** Wrong codes of each person in the last minute: a code is eight letters, and is not to be guessed. */
const misses = new Map<string, { count: number; sinceMs: number }>();

function requireTries(principalId: string): void {
  const nowMs = performance.now();
  const entry = misses.get(principalId);
  if (entry === undefined || nowMs - entry.sinceMs >= wrong.windowMs || entry.count < wrong.most) return;
  const retryAfterSeconds = Math.max(1, Math.ceil((entry.sinceMs + wrong.windowMs - nowMs) / 1_000));
  throw new Fault('rate_limited', 'too-many-codes', 'Too many wrong codes; wait a minute.', { retryAfterSeconds });
}

function noteMiss(principalId: string): void {
  const nowMs = performance.now();
  const entry = misses.get(principalId);
  if (entry !== undefined && nowMs - entry.sinceMs < wrong.windowMs) entry.count += 1;
  else {
    if (misses.size >= wrong.people) misses.clear();
    misses.set(principalId, { count: 1, sinceMs: nowMs });
  }
}

/** Who waits behind a code. Throws Fault `not_found`, or `rate_limited` after ten wrong ones in a minute. */
export async function pendingDevice(
  ctx: FlowContext,
  person: Pick<Decider, 'id' | 'kind'>,
  userCode: string,
): Promise<DevicePending & { readonly id: string }> {
  if (person.kind !== 'user') throw personRequired();
  requireTries(person.id);
  const found = await pendingGrant(ctx.db, hashToken(plain(userCode)), ctx.runtime.now());
  if (found !== undefined) return found;
  noteMiss(person.id);
  throw new Fault('not_found', 'unknown-code', 'No command line waits with this code, or not any more.');
}

/** Lets the command line in as this person, or not. */
export async function decideDevice(
  ctx: FlowContext,
  actor: Actor,
  person: Decider,
  given: { readonly userCode: string; readonly decision: 'allow' | 'deny' },
): Promise<'allowed' | 'denied'> {
  const found = await pendingDevice(ctx, person, given.userCode);
  const state = given.decision === 'allow' ? 'allowed' : 'denied';
  await ctx.db.tx(async (tx) => {
    const { id: principalId, tokenId, tokenOrgId, tokenExpiresAt } = person;
    const decided = { state, principalId, tokenId, tokenOrgId, tokenExpiresAt, now: ctx.runtime.now() } as const;
    if (!(await decideGrant(tx, found.id, decided)))
      throw new Fault('conflict', 'already-decided', 'Somebody has decided about this code before.');
    await auditIn(tx, await orgsOf(tx, principalId, tokenOrgId), actor, `auth.device_${state}`, {
      host: found.host,
      address: found.address,
    });
  });
  return state;
}

/** One poll of the command line. The token is made with the poll that gets it, and is told once. */
export async function deviceToken(
  ctx: FlowContext,
  form: Form,
  requestId: string,
): Promise<MadeDeviceToken | GrantError> {
  if (form['client_id'] !== clientId) return unknownClient(form);
  if (form['grant_type'] === undefined)
    return { error: 'invalid_request', error_description: 'grant_type is required' };
  if (form['grant_type'] !== 'urn:ietf:params:oauth:grant-type:device_code') return { error: 'unsupported_grant_type' };
  const code = form['device_code'];
  if (code === undefined) return { error: 'invalid_request', error_description: 'device_code is required' };
  const now = ctx.runtime.now();
  return ctx.db.tx(async (tx) => {
    const grant = await pollGrant(tx, hashToken(code), now);
    if (grant === undefined || grant.state === 'used' || grant.ended) return { error: 'invalid_grant' };
    if (grant.state === 'denied') return { error: 'access_denied' };
    if (grant.expiresAt <= now) return { error: 'expired_token' };
    if (grant.state === 'pending') return { error: grant.tooSoon ? 'slow_down' : 'authorization_pending' };
    return make(ctx, tx, grant, requestId);
  });
}

async function make(
  ctx: FlowContext,
  tx: Sql,
  grant: PolledGrant,
  requestId: string,
): Promise<MadeDeviceToken | GrantError> {
  const { principalId, principalName } = grant;
  const orgs = principalId === null ? [] : await orgsOf(tx, principalId, grant.tokenOrgId);
  if (principalId === null || principalName === null || orgs.length === 0 || !(await useGrant(tx, grant.id)))
    return { error: 'invalid_grant' };
  const now = ctx.runtime.now();
  const end = now.getTime() + tokenMs;
  const expiresAt = new Date(Math.min(end, grant.tokenExpiresAt?.getTime() ?? end));
  const token = newToken(ctx.runtime);
  const name = `svc login on ${grant.host}`.slice(0, 200);
  const made = { principalId, orgId: grant.tokenOrgId, sha256: hashToken(token), name, expiresAt };
  const row = await insertToken(tx, made);
  const actor: Actor = { kind: 'user', id: principalId, name: principalName, requestId };
  await auditIn(tx, orgs, actor, 'token.created', { tokenId: row.id, of: principalName, by: 'device grant' });
  const expiresIn = Math.floor((expiresAt.getTime() - now.getTime()) / 1_000);
  return { access_token: token, token_type: 'Bearer', expires_in: expiresIn, token_id: row.id };
}
