// `svc login`, `logout`, `whoami` and `console`: how a person gets at a server from here, and from here into a browser.

import * as signin from '../../../schemas/api/signin.ts';
import * as tenancy from '../../../schemas/api/tenancy.ts';
import * as tokens from '../../../schemas/api/tokens.ts';
import { rm } from 'node:fs/promises';
import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { timeLimit } from '../../base/waits.ts';
import { openBrowser } from './browser.ts';
import { type Client, connect, createClient } from './client.ts';
import { replaceFile } from './contexts.ts';
import { Refusal, refusal } from './failure.ts';
import { patiently } from './patience.ts';
import { findServer, loginFile, readLogin } from './settings.ts';
import { clean } from './text.ts';
import type { Call, Handler } from './types.ts';

const clientId = 'svc-cli';
const grant = 'urn:ietf:params:oauth:grant-type:device_code';

interface FormAnswer {
  readonly status: number;
  readonly body: { readonly [name: string]: unknown };
}

async function postForm(call: Call, address: string, form: { readonly [name: string]: string }): Promise<FormAnswer> {
  try {
    const response = await fetch(address, {
      method: 'POST',
      redirect: 'manual',
      headers: { accept: 'application/json' },
      body: new URLSearchParams(form),
      signal: timeLimit(60_000, call.io.signal),
    });
    const text = await response.text();
    return { status: response.status, body: Object(JSON.parse(text)) as FormAnswer['body'] };
  } catch (error) {
    if (call.io.signal.aborted) throw refusal('interrupted', 'interrupted');
    const isText = error instanceof SyntaxError;
    throw refusal('unreachable', isText ? `${address} did not answer with JSON` : `cannot reach ${address}`);
  }
}

const textOf = (body: FormAnswer['body'], name: string): string => {
  const value = body[name];
  if (typeof value !== 'string') throw refusal('unexpected-answer', `the server did not answer with ${name}`);
  return value;
};

export const loginCommand: Handler = async (call) => {
  const server = await findServer(call);
  const base = `${server.url}${signin.authorizeDevice.path}`;
  const begun = await postForm(call, base, { client_id: clientId, host: hostname() });
  if (begun.status === 429) throw refusal('busy', `${server.url}: ${textOf(begun.body, 'error_description')}`);
  if (begun.status !== 200) throw refusal('login-refused', `${server.url} does not take sign-ins of command lines`);
  const address = textOf(begun.body, 'verification_uri');
  call.screen.note(`open ${address}\nand type the code ${textOf(begun.body, 'user_code')}`);
  openBrowser(call, address);
  const made = await waitForToken(call, server.url, begun.body);
  const token = textOf(made, 'access_token');
  const client = createClient({ ...server, token }, call.io.signal);
  const me = await client.call(tenancy.getMe);
  const org = me.orgs.find((one) => one.slug === server.org) ?? me.orgs[0];
  const project = org?.projects.find((one) => one.slug === server.project) ?? org?.projects[0];
  const place = { org: org?.slug ?? server.org, project: project?.slug ?? server.project };
  const tokenId = textOf(made, 'token_id');
  await replaceFile(await loginFile(call), { url: server.url, token, tokenId, ...place }).catch(
    async (error: unknown) => {
      // What is kept nowhere is nobody's to sign out with.
      await revoke(client, tokenId).catch(() => undefined);
      throw error;
    },
  );
  call.screen.emit(
    { name: me.name, url: server.url, ...place },
    () => `signed in to ${server.url} as ${clean(me.name, true)}`,
  );
  return 0;
};

async function waitForToken(call: Call, url: string, begun: FormAnswer['body']): Promise<FormAnswer['body']> {
  let seconds = Number(begun['interval'] ?? 5);
  const form = { client_id: clientId, grant_type: grant, device_code: textOf(begun, 'device_code') };
  const ask = patiently(async () => {
    const answer = await postForm(call, `${url}${signin.deviceToken.path}`, form);
    // What stands between, or the daemon itself while its database is away, answers otherwise than the grant does.
    if (answer.status >= 500 || answer.status === 429)
      throw refusal('unreachable', `${url} answered ${answer.status}`, '`svc doctor` looks further');
    return answer;
  });
  for (;;) {
    await sleep(seconds * 1_000, undefined, { signal: call.io.signal }).catch(() => {
      throw refusal('interrupted', 'interrupted');
    });
    const answer = await ask();
    if (answer === undefined) {
      seconds = Math.min(seconds * 2, 60);
      continue;
    }
    const { status, body } = answer;
    if (status === 200) return body;
    const error = String(body['error'] ?? status);
    if (error === 'slow_down') seconds += 5;
    else if (error === 'access_denied') throw refusal('access-denied', 'it was refused in the browser');
    else if (error === 'expired_token') throw refusal('expired', 'nobody typed the code in time; try again');
    else if (error !== 'authorization_pending') throw refusal('login-refused', `the server refused: ${error}`);
  }
}

export const logoutCommand: Handler = async (call) => {
  const login = await readLogin(call);
  if (login === undefined) {
    call.screen.emit({ status: 'not-signed-in' }, () => 'not signed in with `svc login`');
    return 0;
  }
  const { url, token, org, project, tokenId } = login;
  const client = createClient({ url, token, org, project, from: 'login' }, call.io.signal);
  const left = tokenId === undefined ? undefined : await notRevoked(call, client, tokenId);
  await rm(await loginFile(call), { force: true });
  if (left !== undefined) {
    // Whoever signs out keeps no token for a server that is gone.
    const how = `revoke it where ${url} is reached: svc token revoke ${tokenId}`;
    call.screen.note(`${call.screen.errPaint('yellow', 'warning:')} the token is not revoked: ${left}\n${how}`);
  }
  const revoked = tokenId !== undefined && left === undefined;
  call.screen.emit({ status: 'signed-out', url, revoked }, () => `signed out of ${url}`);
  return 0;
};

/** Why the server did not revoke it; undefined where it did. */
async function notRevoked(call: Call, client: Client, token: string): Promise<string | undefined> {
  try {
    await revoke(client, token);
    return undefined;
  } catch (error) {
    if (call.io.signal.aborted || !(error instanceof Refusal)) throw error;
    return clean(error.message, true);
  }
}

/** What is not valid any more needs no revoking. */
async function revoke(client: Client, token: string): Promise<void> {
  await client.call(tokens.revokeOwnToken, { params: { token } }).catch((error: unknown) => {
    const status = (error as { problem?: { status?: number } }).problem?.status;
    if (status !== 401 && status !== 404) throw error;
  });
}

export const whoamiCommand: Handler = async (call) => {
  const client = await connect(call);
  const me = await client.call(tenancy.getMe);
  const { url, org, project, from } = client.server;
  const roles = me.orgs.map((one) => clean(`${one.slug}: ${one.role}`, true)).join(', ');
  call.screen.emit(
    { id: me.id, kind: me.kind, name: me.name, email: me.email, url, org, project, from, orgs: me.orgs },
    () => `${clean(me.name, true)} at ${url}, by ${from}\n${roles === '' ? 'no organization' : roles}`,
  );
  return 0;
};

export const consoleCommand: Handler = async (call) => {
  const client = await connect(call);
  const { url, expiresAt } = await client.call(signin.createHandoff);
  const isPrint = call.flag('print') || call.io.stderr.isTTY !== true;
  // The address signs whoever opens it first in as this person: it is printed only when that is asked for.
  if (isPrint) call.screen.emit({ url, expiresAt }, () => url);
  else {
    openBrowser(call, url);
    call.screen.emit(
      { url: `${new URL(url).origin}/signin`, expiresAt },
      () => 'opened in the browser; --print shows the address',
    );
  }
  return 0;
};
