// The thread that makes ready what pages load (assets.ts), and ends with it.

import { stripTypeScriptTypes } from 'node:module';
import { parentPort } from 'node:worker_threads';
import { gzipSync } from 'node:zlib';

/** A name and its bytes; what ends in `.ts` is stripped of its types. */
export type Source = readonly [name: string, bytes: Uint8Array];

export interface Made {
  readonly plain: Uint8Array;
  readonly gzip: Uint8Array;
}

parentPort?.once('message', (sources: readonly Source[]) => {
  const made = sources.map(([name, source]): readonly [string, Made] => {
    const plain = name.endsWith('.ts')
      ? Buffer.from(stripTypeScriptTypes(Buffer.from(source).toString('utf8')))
      : Buffer.from(source);
    return [name, { plain, gzip: gzipSync(plain, { level: 9 }) }];
  });
  parentPort?.postMessage(made);
});
