// A package's tarball → files. Nothing is written to a disk; sizes are counted after decompression, while it streams.

import { Readable, Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGunzip } from 'node:zlib';
import { extract } from 'tar-stream';
import type { BundleEntry } from '../../../domain/bundle.ts';
import { fileCollector, tooMuch } from './files.ts';
import { TemplateFailure, unpackedBytesMax } from './limits.ts';

/** Headers and padding come on top of the contents. */
const tarBytesMax = unpackedBytesMax + 4 * 1024 * 1024;

function counted(): Transform {
  let total = 0;
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      total += chunk.length;
      if (total > tarBytesMax) done(tooMuch());
      else done(null, chunk);
    },
  });
}

/** The files of an npm tarball without its first directory (`package/`). Links and devices are refused. */
export async function unpack(tarball: Uint8Array): Promise<ReadonlyMap<string, BundleEntry>> {
  const collector = fileCollector();
  const archive = extract();
  const reading = (async () => {
    for await (const entry of archive) {
      const { name, type } = entry.header;
      const chunks: Buffer[] = [];
      for await (const chunk of entry) chunks.push(chunk as Buffer);
      if (type === 'directory') continue;
      if (type !== 'file' && type !== 'contiguous-file') {
        throw new TemplateFailure('corrupt', `holds a ${type} at ${JSON.stringify(name.slice(0, 100))}`);
      }
      const cut = name.indexOf('/');
      if (cut <= 0)
        throw new TemplateFailure('corrupt', `holds ${JSON.stringify(name.slice(0, 100))} outside its directory`);
      // `..` as the first directory would be stripped unseen.
      if (name.slice(0, cut) === '..') throw new TemplateFailure('corrupt', 'holds a hostile path');
      collector.add(name.slice(cut + 1), Buffer.concat(chunks));
    }
  })();
  const outcomes = await Promise.allSettled([
    reading,
    pipeline(Readable.from([tarball]), createGunzip(), counted(), archive),
  ]);
  const causes = outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [outcome.reason as unknown] : []));
  // One side's failure ends the other with a bare "premature close": the one that says why is the story.
  const told = causes.find((cause) => cause instanceof TemplateFailure);
  if (told !== undefined) throw told;
  if (causes.length > 0) throw new TemplateFailure('corrupt', 'its tarball cannot be read');
  const files = collector.entries();
  if (files.size === 0) throw new TemplateFailure('corrupt', 'its tarball holds no files');
  return files;
}
