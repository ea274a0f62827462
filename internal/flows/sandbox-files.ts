// Files that a session is given: below its working directory in `.svc-attachments/`, under safe and unique names.

import type { FlowContext } from './context.ts';
import type { HostPorts } from './host-ports.ts';
import { withoutEnd } from '../domain/text.ts';

/** A file has at most so many bytes. */
export const fileBytesMax = 32 * 1024 * 1024;

type Place = NonNullable<ReturnType<HostPorts['places']['get']>>;

/** Writes a file that was fetched from an address into a sandbox; says what it is and where. */
export async function keepFile(
  ctx: FlowContext,
  place: Place,
  of: { readonly address: string; readonly bytes: Buffer; readonly mimeType: string },
): Promise<{ name: string; mimeType: string; size: number; path: string }> {
  const { address, bytes, mimeType } = of;
  const name = nameOf(address, mimeType);
  const path = `${withoutEnd(place.cwd, '/')}/.svc-attachments/${ctx.runtime.randomBytes(4).toString('hex')}-${name}`;
  await place.write(path, bytes);
  return { name, mimeType, size: bytes.length, path };
}

const extensions: { readonly [mime: string]: string } = {
  'image/png': '.png',
  'image/jpeg': '.jpg',
  'image/gif': '.gif',
  'image/webp': '.webp',
  'application/pdf': '.pdf',
  'text/plain': '.txt',
  'video/mp4': '.mp4',
};

/** A name that is one segment, of harmless characters. */
function nameOf(address: string, mimeType: string): string {
  let last = URL.parse(address)?.pathname.split('/').at(-1) ?? '';
  try {
    last = decodeURIComponent(last);
  } catch {
    last = '';
  }
  const safe = last
    .replace(/[^A-Za-z0-9._-]/g, '_')
    .replace(/^\.+/, '')
    .slice(0, 100);
  const name = safe === '' ? 'attachment' : safe;
  // A server names its kind as it likes, also as something that every object has.
  return name.includes('.') || !Object.hasOwn(extensions, mimeType) ? name : `${name}${extensions[mimeType]}`;
}
