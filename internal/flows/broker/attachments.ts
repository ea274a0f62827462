// Attachments: an address that stood in the session's event or in an answer to it is fetched and written into its sandbox.
// The token goes to the host's own addresses alone; redirects are followed without it, each held to the network rules.

import { addressIn, fetchSigned } from '../../adapters/providers/codehost/codehost.ts';
import { eventById } from '../../adapters/store/events/event-reads.ts';
import { routedPayload } from '../ingest/ingest.ts';
import { eventsOfSession, knowsAddress, noteAddresses } from '../../adapters/store/outbox/drafts.ts';
import type { ToolCaller } from '../../adapters/store/sessions/tool-callers.ts';
import { contains } from '../../base/borders.ts';
import { yieldToEventLoop } from '../../base/concurrency.ts';
import { Fault } from '../../domain/fault.ts';
import type { Json } from '../../domain/json.ts';
import { outsideFault } from '../../domain/outside.ts';
import { gitUrlOf } from '../codehost-mounts.ts';
import type { FlowContext } from '../context.ts';
import { fileBytesMax as bytesMax, keepFile } from '../sandbox-files.ts';
import type { CodehostCall } from './codehost-call.ts';

const redirectsMax = 3;
/** Of an answer. */
const notedMax = 500;
const addressCharsMax = 2_000;
/** Of the event loop, one after another. */
const turnMs = 10;
const addressPattern = /https?:\/\/[^\s"'<>()[\]\\`]+/g;

const hosts = (ctx: FlowContext): readonly string[] => ctx.outbox?.attachmentHosts ?? [];
const isAllowed = (ctx: FlowContext, address: string): boolean => {
  const url = URL.parse(address);
  return url !== null && hosts(ctx).some((host) => host === url.host || host === url.hostname);
};

/** Keeps the addresses of attachments that an answer holds: the session may download them. */
export async function noteAnswer(ctx: FlowContext, sessionId: string, answer: Json): Promise<void> {
  const found = new Set<string>();
  const named = (text: string): boolean => hosts(ctx).some((host) => text.toLowerCase().includes(host));
  for await (const one of addressesIn(answer, named)) {
    if (one.length < addressCharsMax && named(one) && isAllowed(ctx, one)) found.add(one);
    if (found.size >= notedMax) break;
  }
  await noteAddresses(ctx.db, sessionId, [...found]);
}

async function isKnown(ctx: FlowContext, caller: ToolCaller, address: string): Promise<boolean> {
  if (await knowsAddress(ctx.db, caller.sessionId, address)) return true;
  for (const id of await eventsOfSession(ctx.db, caller.sessionId)) {
    const event = await eventById(ctx.db, caller.project.id, id);
    // What is stored is the text of the payload; null where its body is gone with its partition.
    const payload = event === undefined ? null : routedPayload(event);
    for await (const one of addressesIn(payload, (text) => contains(text, address))) if (one === address) return true;
  }
  return false;
}

/**
 * Every address in the texts of a value that may hold one that is meant, as it stands there and as one within a sentence is
 * read. An event may be as large as a delivery and made of nothing else: others have their turn meanwhile.
 */
async function* addressesIn(value: Json, mayHold: (text: string) => boolean): AsyncGenerator<string, undefined> {
  let since = performance.now();
  const pause = async (): Promise<void> => {
    if (performance.now() - since < turnMs) return;
    await yieldToEventLoop();
    since = performance.now();
  };
  for (const text of textsOf(value)) {
    await pause();
    if (text === undefined || !mayHold(text)) continue;
    for (const [one] of text.matchAll(addressPattern)) {
      await pause();
      yield one;
      yield addressIn(one);
    }
  }
}

/** Every text of a value, as it was meant: in JSON some characters are written otherwise. Stops at each other part of it too. */
function* textsOf(value: Json | undefined): Generator<string | undefined, undefined> {
  if (typeof value === 'string') yield value;
  else if (value !== null && typeof value === 'object') {
    // One by one: a member of a large event is read when it is asked for.
    for (const key of Object.keys(value)) {
      yield undefined;
      yield* textsOf((value as { readonly [key: string]: Json | undefined })[key]);
    }
  }
}

/** Throws Fault `invalid-input`, `refused`, before anything is asked. */
export async function checkAttachment(ctx: FlowContext, caller: ToolCaller, address: string): Promise<void> {
  const url = URL.parse(address);
  if (
    url === null ||
    (url.protocol !== 'https:' && url.protocol !== 'http:') ||
    url.username !== '' ||
    url.password !== ''
  ) {
    throw outsideFault('invalid-input', 'url: expected the address of an attachment');
  }
  if (!isAllowed(ctx, address)) throw outsideFault('refused', 'url: attachments are not downloaded from this host');
  if (!(await isKnown(ctx, caller, address))) {
    throw outsideFault(
      'refused',
      'url: only addresses of the event or of an earlier answer of this session are downloaded',
    );
  }
}

/** Downloads; answers with where it is in the sandbox. Throws Fault. */
export async function download(codehost: CodehostCall, caller: ToolCaller, address: string): Promise<Json> {
  const { ctx } = codehost.options;
  const place = ctx.host?.places.get(caller.sessionId);
  if (place === undefined)
    throw outsideFault('not-available', 'the sandbox of this session is not on this daemon; nothing was done');
  const found = await fetchAttachment(codehost, address);
  if (found.mimeType === 'text/html') throw ofPeople();
  return keepFile(ctx, place, { address, ...found });
}

const ofPeople = (): Fault => outsideFault('not-found', 'it is only for people who are signed in there');

async function fetchAttachment(codehost: CodehostCall, address: string): Promise<{ bytes: Buffer; mimeType: string }> {
  const { ctx, connection, repository } = codehost.options;
  const of = { allowPrivate: ctx.config.allowPrivateNetwork, mostBytes: bytesMax };
  let at = /\/user-attachments\/assets\//.test(address) ? await signedAddress(codehost, address) : address;
  const isOfHost = new URL(address).origin === new URL(gitUrlOf(ctx, connection, repository)).origin;
  const authorization = isOfHost && /\/files\//.test(address) ? await codehost.authorization() : undefined;
  for (let redirects = 0; ; redirects += 1) {
    const more = redirects === 0 && authorization !== undefined ? { authorization } : {};
    const found = await fetchSigned(at, { ...of, ...more }).catch((error: unknown) => {
      // The host serves these to browsers alone.
      const isOfPeople = authorization !== undefined && error instanceof Fault && error.code === 'not-found';
      throw isOfPeople ? ofPeople() : error;
    });
    if (!('location' in found)) return found;
    if (redirects >= redirectsMax) throw outsideFault('provider-unavailable', 'the address leads on and on');
    at = found.location;
  }
}

/** The provider has no call for it: an image in rendered text gets an address that is good for minutes. */
async function signedAddress(codehost: CodehostCall, address: string): Promise<string> {
  const body = { text: `![a](${address})`, mode: 'gfm', context: codehost.options.repository };
  const { bytes } = await codehost.render(body);
  const found = /<img[^<>]+src="([^"<]+)"/.exec(bytes.toString('utf8'))?.[1];
  return found === undefined ? address : found.replaceAll('&amp;', '&');
}
