// The API as pages use it: the key of the session beside the cookie, problems as errors, and the way back to signing in.

export interface ApiProblem {
  readonly status: number;
  readonly code: string;
  readonly detail: string;
  readonly requestId: string;
}

export class ApiError extends Error {
  readonly problem: ApiProblem;

  constructor(problem: ApiProblem) {
    super(problem.detail);
    this.problem = problem;
  }
}

/** The service was not reached, or did not end its answer: of what was to be changed nobody knows whether it was. */
export class UnreachedError extends Error {
  readonly isRead: boolean;

  constructor(isRead: boolean) {
    super('The service was not reached.');
    this.isRead = isRead;
  }
}

/** The language's raw JSON values, which the type library does not know yet, and an older browser does not, either. */
const raw = JSON as unknown as { rawJSON?(text: string): object; isRawJSON?(value: unknown): boolean };

/** A number of an answer that a double does not hold: it is kept by its digits, which `JSON.stringify` gives back. */
export const isExactNumber = (value: unknown): boolean => raw.isRawJSON?.(value) === true;

/** What may be such a number: 16 digits or more, or an exponent. That it may also stand in a string costs time alone. */
const suspect = /[:,[]\s*-?(?:[\d.]{16}|[\d.]+[eE])/;

/** Reads JSON as the service wrote it: payloads hold numbers that a double would show as others. */
function parsed(text: string): unknown {
  const keep = raw.rawJSON;
  if (keep === undefined || !suspect.test(text)) return JSON.parse(text);
  const revive = (_key: string, value: unknown, context?: { readonly source?: string }): unknown =>
    typeof value !== 'number' || context?.source === undefined || context.source === String(value)
      ? value
      : keep(context.source);
  return JSON.parse(text, revive);
}

/** What passes by itself: the same reading may be answered a moment later. */
export const isPassing = (error: unknown): boolean =>
  error instanceof UnreachedError || (error instanceof ApiError && error.problem.status === 503);

/** Whether a text is an id, in any case. */
export const isId = (text: string): boolean => /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text);

const keyItem = 'svc.key';
/** A browser that keeps nothing signs in anew on each page. */
export const storeKey = (key: string): void => localStorage.setItem(keyItem, key);

export interface CallOptions {
  readonly body?: unknown;
  readonly signal?: AbortSignal;
  readonly headers?: { readonly [name: string]: string };
}

/** Names of dots alone, which a browser would take for steps, as the service takes them. */
export const withoutSteps = (path: string): string => path.replaceAll(/\/(?=\.{1,2}(?:[/?]|$))/g, '/~');

async function send(method: string, path: string, { body, signal, headers }: CallOptions): Promise<Response> {
  const key = localStorage.getItem(keyItem);
  return fetch(withoutSteps(path), {
    method,
    credentials: 'same-origin',
    redirect: 'error',
    headers: {
      accept: 'application/json',
      ...headers,
      ...(key !== null && { 'x-svc-key': key }),
      ...(body !== undefined && { 'content-type': 'application/json' }),
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
    ...(signal !== undefined && { signal }),
  });
}

async function problemOf(response: Response): Promise<ApiError> {
  const given = (await response.json().catch(() => ({}))) as Partial<ApiProblem>;
  return new ApiError({
    status: response.status,
    code: given.code ?? 'unexpected-answer',
    detail: given.detail ?? `The service answered ${response.status}.`,
    requestId: given.requestId ?? response.headers.get('x-request-id') ?? '',
  });
}

/** The key of a session that a provider vouched for; it is given once. */
async function fetchKey(): Promise<boolean> {
  localStorage.removeItem(keyItem);
  const response = await send('POST', '/api/v1/auth/key', {});
  if (!response.ok) return false;
  const { key } = (await response.json()) as { readonly key: string };
  storeKey(key);
  return true;
}

export const signinAddress = (): string =>
  `/signin?next=${encodeURIComponent(`${location.pathname}${location.search}`)}`;

let inFlight = 0;
/** This document has been signed in. */
let hasAnswered = false;
let quietSince = performance.now();
/** For how long nothing has been asked, in milliseconds. */
export const quietMs = (): number => (inFlight > 0 ? 0 : performance.now() - quietSince);

/** One request of the API, whatever it answers: for streams and files. */
export const fetchApi = (path: string, options: CallOptions = {}): Promise<Response> => send('GET', path, options);

const early = new Map<string, Promise<unknown>>();
/** The same answer for somebody else; it is still the first `call`'s. */
export const prefetched = <T>(path: string): Promise<T> => (early.get(path) ?? call('GET', path)) as Promise<T>;

/** Calls the API. Throws ApiError; a document that begins without being signed in goes to sign in, and the promise never ends. */
export async function call<T>(method: string, path: string, options: CallOptions = {}): Promise<T> {
  const asked = method === 'GET' ? early.get(path) : undefined;
  early.delete(path);
  if (asked !== undefined) return asked as Promise<T>;
  return ask(method, path, options, async (response) =>
    response.status === 204 ? undefined : parsed(await response.text()),
  ) as Promise<T>;
}

/** The same for a file. */
export const callFile = (path: string): Promise<Blob> => ask('GET', path, {}, (response) => response.blob());

async function ask<T>(
  method: string,
  path: string,
  options: CallOptions,
  read: (response: Response) => Promise<T>,
): Promise<T> {
  inFlight += 1;
  try {
    return await read(await answered(method, path, options));
  } catch (error) {
    // What `fetch` throws says nothing but that.
    throw error instanceof TypeError ? new UnreachedError(method === 'GET') : error;
  } finally {
    inFlight -= 1;
    quietSince = performance.now();
  }
}

async function answered(method: string, path: string, options: CallOptions): Promise<Response> {
  let response = await send(method, path, options);
  if (response.status === 401 && (await fetchKey())) response = await send(method, path, options);
  // A page that shows something keeps it: that the session is over is said in its head, with the way back in.
  if (response.status === 401 && hasAnswered) {
    const { problem } = await problemOf(response);
    // The service speaks of tokens, which nobody has in their hands here.
    throw new ApiError({ ...problem, detail: 'You are not signed in any more.' });
  }
  if (response.status === 401) {
    location.replace(signinAddress());
    return new Promise<Response>(() => undefined);
  }
  if (!response.ok) throw await problemOf(response);
  hasAnswered = true;
  return response;
}

/**
 * Where all that the first page of a project shows comes from, in one answer; undefined on other pages. This module, which
 * imports nothing, asks for it before the others are there; the first `call` of this address takes the answer.
 */
export const earlyPath = document.getElementById('root')?.dataset['early'];
if (earlyPath !== undefined) {
  const asked = call('GET', earlyPath);
  // What was not answered is asked anew by whoever reads it next.
  asked.catch(() => early.delete(earlyPath));
  early.set(earlyPath, asked);
}

/** Signs in; answers whether the cookie was kept. */
export async function openSession(body: { readonly token: string } | { readonly handoff: string }): Promise<boolean> {
  const response = await send('POST', '/api/v1/auth/sessions', { body });
  if (!response.ok) throw await problemOf(response);
  const { key } = (await response.json()) as { readonly key: string };
  storeKey(key);
  return (await send('GET', '/api/v1/me', {})).status !== 401;
}

/** What went wrong, for people. */
export function message(error: unknown): string {
  return error instanceof Error ? error.message : 'Something went wrong.';
}
