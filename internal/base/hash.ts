// The hash by which contents are known: of files, specs and catalogs.

import { createHash } from 'node:crypto';

/** SHA-256 in lower-case hex; of a text, of its UTF-8. */
export const sha256 = (data: Uint8Array | string): string => createHash('sha256').update(data).digest('hex');
