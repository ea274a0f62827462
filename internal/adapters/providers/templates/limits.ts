// What a managed template may cost, and how a failure is said. A template is a handful of YAML and text files:
// every bound here is far above what a real one needs.

import type { UnresolvedTemplate } from '../../../domain/bundle.ts';

export const packumentBytesMax = 32 * 1024 * 1024;
export const tarballBytesMax = 8 * 1024 * 1024;
export const unpackedBytesMax = 32 * 1024 * 1024;
export const filesMax = 2_000;
export const depthMax = 32;
export const pathCharsMax = 1_024;
/** A single larger file is listed without its bytes; compile refuses it only where an import names it. */
export const fileBytesMax = 1024 * 1024;
/** Of a package's document: a version has some thirty values, and each costs the event loop. */
export const packumentValuesMax = 500_000;
export const versionsMax = 10_000;
/** Of what stands before an entry of a tarball: its long name, and further words about it. */
export const entryHeaderBytesMax = 16 * 1024;
export const redirectsMax = 3;
export const callTimeoutMs = 60_000;

/** Ends the resolution of one template; becomes an UnresolvedTemplate at the door. `detail` holds no secret. */
export class TemplateFailure extends Error {
  readonly error: UnresolvedTemplate['error'];

  constructor(error: UnresolvedTemplate['error'], detail: string) {
    super(detail);
    this.name = 'TemplateFailure';
    this.error = error;
  }
}
