// A directory template as a tarball for the cache: the same files always give the same entries, in order.

import { buffer } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { pack as createPack } from 'tar-stream';
import type { BundleEntry } from '../../../domain/bundle.ts';

const compress = promisify(gzip);

/** Undefined where the files cannot be carried whole (a link, or a file listed without its bytes). */
export async function pack(files: ReadonlyMap<string, BundleEntry>): Promise<Uint8Array | undefined> {
  const archive = createPack();
  const packed = buffer(archive);
  for (const [path, entry] of files) {
    if (entry.bytes === undefined) {
      archive.destroy();
      await packed.catch(() => undefined); // The stream that was just destroyed on purpose.
      return undefined;
    }
    archive.entry({ name: `package/${path}`, mtime: new Date(0) }, Buffer.from(entry.bytes));
  }
  archive.finalize();
  return await compress(await packed);
}
