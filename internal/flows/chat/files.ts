// Files that stand in messages: fetched with the connection's token from the provider's own hosts alone, without following a
// redirect, and written into the session's sandbox, so that what is read there has the path beside it.

import { fetchSigned } from '../../adapters/providers/codehost/codehost.ts';
import type { ToolCaller } from '../../adapters/store/sessions/tool-callers.ts';
import { Fault } from '../../domain/fault.ts';
import { listAt, objectAt, textAt } from '../../domain/fields.ts';
import type { JsonObject } from '../../domain/json.ts';
import { outsideFault } from '../../domain/outside.ts';
import { connectionSecrets } from '../sealed.ts';
import { fileBytesMax, keepFile } from '../sandbox-files.ts';
import type { ChatRoom } from './room.ts';

/** What one answer brings along. */
const most = { files: 10, bytes: 2 * fileBytesMax } as const;

type Kept = { readonly path: string; readonly size: number } | { readonly code: string };
/** By sandbox, what it has already: an answer that names a file again fetches it no second time. */
const kept = new WeakMap<object, Map<string, Kept>>();

/** The messages, each attachment with the `path` of its file, or with the `code` of why it has none. */
export async function withFiles(
  room: ChatRoom,
  caller: ToolCaller,
  messages: readonly JsonObject[],
): Promise<JsonObject[]> {
  const place = room.ctx.host?.places.get(caller.sessionId);
  // The sandbox is on another daemon: what is told is told without files.
  if (place === undefined) return [...messages];
  const known = kept.get(place) ?? new Map<string, Kept>();
  kept.set(place, known);
  let [files, bytes] = [0, 0];
  const fetched = async (address: string): Promise<Kept> => {
    const before = known.get(address);
    if (before !== undefined) return before;
    if (files >= most.files || bytes >= most.bytes) return { code: 'too-large' };
    files += 1;
    const got = await fetchFile(room, place, address);
    if ('size' in got) bytes += got.size;
    if ('path' in got) known.set(address, got);
    return got;
  };
  const told: JsonObject[] = [];
  for (const message of messages) {
    const attachments: JsonObject[] = [];
    for (const one of listAt(message['attachments']).map(objectAt)) {
      const address = textAt(one['url']);
      const file = address === undefined || !isOfProvider(room, address) ? undefined : await fetched(address);
      attachments.push({ ...one, ...(file !== undefined && ('path' in file ? { path: file.path } : file)) });
    }
    told.push({ ...message, attachments });
  }
  return told;
}

function isOfProvider({ ctx }: ChatRoom, address: string): boolean {
  const url = URL.parse(address);
  const hosts = ctx.outbox?.chatFileHosts ?? [];
  return url !== null && url.username === '' && hosts.some((host) => host === url.host || host === url.hostname);
}

async function fetchFile(room: ChatRoom, place: Parameters<typeof keepFile>[1], address: string): Promise<Kept> {
  const { ctx, connection } = room;
  try {
    const token = connectionSecrets(ctx, connection)['botToken'];
    const found = await fetchSigned(address, {
      allowPrivate: ctx.config.allowPrivateNetwork,
      mostBytes: fileBytesMax,
      authorization: `Bearer ${String(token)}`,
    });
    // Without the right to read files the provider leads to, or answers with, the page where people sign in.
    if ('location' in found || found.mimeType === 'text/html') {
      throw outsideFault('permission-missing', 'the app of this connection may not read files');
    }
    const { path, size } = await keepFile(ctx, place, { address, ...found });
    return { path, size };
  } catch (error) {
    if (error instanceof Fault) return { code: error.code };
    throw error;
  }
}
