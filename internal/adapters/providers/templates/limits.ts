// What a managed template may cost, and how a failure is said. A template is a handful of YAML and text files:
// every bound here is far above what a real one needs.

import type { UnresolvedTemplate } from '../../../domain/bundle.ts';

export const PACKUMENT_BYTES_MAX = 32 * 1024 * 1024;
export const TARBALL_BYTES_MAX = 8 * 1024 * 1024;
export const UNPACKED_BYTES_MAX = 32 * 1024 * 1024;
export const FILES_MAX = 2_000;
export const DEPTH_MAX = 32;
export const PATH_CHARS_MAX = 1_024;
/** A single larger file is listed without its bytes; compile refuses it only where an import names it. */
export const FILE_BYTES_MAX = 1024 * 1024;
export const REDIRECTS_MAX = 3;
export const CALL_TIMEOUT_MS = 60_000;

/** Ends the resolution of one template; becomes an UnresolvedTemplate at the door. `detail` holds no secret. */
export class TemplateFailure extends Error {
  readonly error: UnresolvedTemplate['error'];

  constructor(error: UnresolvedTemplate['error'], detail: string) {
    super(detail);
    this.name = 'TemplateFailure';
    this.error = error;
  }
}
